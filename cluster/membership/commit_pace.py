"""Whether this node is slow, by the times of its own commits (docs/cluster.md#a-slow-disk).

    quick  --commits longer than the patience have taken half of the last 10 s-->  slow
    slow   --that has not been so for 10 minutes-->                                quick

A lease request needs a commit since the one before. So each node, also an idle one, times a commit about every
heartbeat (`Settings.heartbeat_ms`), from the write until it is on the disk. A primary waits that long for this node. If
the process stands still between two ticks, primaries wait as well: such a time counts like a commit.
"""

from __future__ import annotations

from collections import deque
from math import inf

WINDOW_MS = 10_000
"""The time over which commits are judged, in ms."""
SLOW_MS = WINDOW_MS // 2
"""How much of that time slow commits must have taken, in ms."""
LONGEST_MS = 2_000
"""What one commit counts at most, in ms: a single stall makes no disk slow. A longer one ends the lease."""
HOLD_MS = 600_000
"""How long a disk counts as slow after its last slow time, in ms: a disk that is slow again and again gets its copies
again at most once in this time."""


class CommitPace:
    """The commits of one node that are timed, one after the other. `now_ms` is its monotonic clock everywhere."""

    def __init__(self) -> None:
        self.patience_ms = 0
        """How long a commit may take, in ms; 0: any time. Up to 200 ms pass between two commits that are timed. So
        shorter ones may not take half of the time."""
        self._slow: deque[tuple[float, float]] = deque()
        """The slow commits of the window: when they ended, and how long they took."""
        self._last_ms: float | None = None
        self._took_ms = 0
        self._began_ms: float | None = None
        self._void = False
        self._ticked_ms = inf

    @property
    def times(self) -> bool:
        """True while a commit is timed."""
        return self._began_ms is not None

    def waiting_ms(self, now_ms: float) -> float:
        """Return how long the commit that is timed has taken so far, in ms; 0 if there is none."""
        return 0.0 if self._began_ms is None else now_ms - self._began_ms

    def begin(self, now_ms: float) -> None:
        """A commit has begun."""
        self._began_ms, self._void = now_ms, False

    def void(self) -> None:
        """The commit waits for space on a full disk: its time says nothing."""
        self._void = True

    def end(self, now_ms: float) -> None:
        """The commit is on the disk."""
        took_ms, self._began_ms = self.waiting_ms(now_ms), None
        if not self._void:
            self._took(now_ms, took_ms)

    def tick(self, now_ms: float, pause_ms: float) -> None:
        """The process runs. It meant to do so `pause_ms` after the last call, or earlier. What passes while a commit is
        timed is in the time of the commit."""
        until_ms = now_ms if self._began_ms is None else self._began_ms
        self._took(now_ms, until_ms - self._ticked_ms - pause_ms)
        self._ticked_ms = now_ms

    def _took(self, now_ms: float, took_ms: float) -> None:
        slow, patience_ms = self._slow, self.patience_ms
        if not 0 < patience_ms < took_ms:
            return
        slow.append((now_ms, took_ms))
        while slow[0][0] <= now_ms - WINDOW_MS:
            slow.popleft()
        times = [min(took, LONGEST_MS) for _, took in slow]
        if sum(times) >= SLOW_MS:
            self._last_ms = now_ms
            self._took_ms = int(sum(times) / len(times))

    def slow_ms(self, now_ms: float) -> int:
        """Return how long a slow commit takes on average, in ms, if the disk is slow; 0 if it is not."""
        if self._last_ms is None or not self.patience_ms or now_ms - self._last_ms >= HOLD_MS:
            return 0
        return self._took_ms
