"""The leader's knowledge of one peer's log, and how fast it may send to the peer.

PROBE      the last common entry is unknown: one APPEND at a time, the next after its answer. After an answer to a
           heartbeat the leader asks again, without entries: over a slow link the first APPEND may be under way
REPLICATE  the logs agree: the leader sends APPENDs without waiting, at most `max_inflight` of them unanswered
SNAPSHOT   the leader's log no longer has the entries: it sends only the snapshot, until that is acknowledged

PROBE -- acknowledged --> REPLICATE -- refused --> PROBE -- log compacted --> SNAPSHOT -- acknowledged --> PROBE
"""

from __future__ import annotations

from collections import deque
from enum import Enum


class Pace(Enum):
    """How the leader sends entries to a peer; see the docstring of the module."""

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class Progress:
    """The leader's knowledge of one peer.

    `match`: its durable log agrees with the leader's up to this index. `next`: the first entry to send. `commit_sent`:
    the highest commit index sent to it. `round`: the last round of heartbeats that it answered. `heard_ms`: time of its
    last message. `nudged`: an APPEND is due even without new entries, to find out which messages were lost. `probed`: a
    probe was sent with the entries from `next` on, so the next one has none.
    """

    __slots__ = (
        "commit_sent",
        "heard_ms",
        "inflight",
        "match",
        "max_inflight",
        "next",
        "nudged",
        "pace",
        "probed",
        "round",
        "snapshot_index",
        "waiting_since_ms",
    )  # fmt: skip

    def __init__(self, next_index: int, max_inflight: int, now_ms: float) -> None:
        self.max_inflight = max_inflight
        self.match = 0
        self.next = next_index
        self.commit_sent = 0
        self.round = 0
        self.heard_ms = now_ms
        self.pace = Pace.PROBE
        self.nudged = True  # a new leader's first APPEND announces it and asks where the logs agree
        self.probed = False
        self.inflight: deque[int] = deque()  # last index of each unanswered APPEND
        self.snapshot_index = 0
        self.waiting_since_ms: float | None = None  # since a probe or a snapshot was sent

    @property
    def paused(self) -> bool:
        """Whether the leader must not send entries to the peer now."""
        if self.pace is Pace.REPLICATE:
            return len(self.inflight) >= self.max_inflight
        return self.waiting_since_ms is not None

    def sent(self, count: int, now_ms: float) -> None:
        """The leader sends an APPEND with `count` entries."""
        self.nudged = False
        if self.pace is Pace.REPLICATE:
            if count:
                self.next += count
                self.inflight.append(self.next - 1)
        else:
            self.probed = True
            self.waiting_since_ms = now_ms

    def sent_snapshot(self, index: int, now_ms: float) -> None:
        """The leader sends the snapshot at `index`."""
        self._enter(Pace.SNAPSHOT)
        self.nudged = False
        self.snapshot_index = index
        self.waiting_since_ms = now_ms

    def acknowledged(self, index: int) -> bool:
        """The logs agree up to `index`. Returns whether that is new. Late acknowledgements do nothing."""
        while self.inflight and self.inflight[0] <= index:
            self.inflight.popleft()
        if index < self.match or (index == self.match and self.pace is Pace.REPLICATE):
            return False
        news = index > self.match
        self.match = index
        if self.pace is Pace.SNAPSHOT and index < self.snapshot_index:
            return news
        if self.pace is not Pace.REPLICATE:
            # The acknowledged probe may be older than a lost one: continue behind the match.
            self._enter(Pace.REPLICATE)
            self.next = index + 1
        self.next = max(self.next, index + 1)
        return news

    def refused(self, index: int, agree: int) -> None:
        """The peer lacks the leader's entry at `index`; the logs may agree at `agree`. Late refusals do nothing.

        A refusal is late if an acknowledgement has covered its index since, or if it answers an earlier probe than the
        last one.
        """
        if self.pace is Pace.REPLICATE:
            if index > self.match:
                self._enter(Pace.PROBE)
                self.next = self.match + 1
        elif self.pace is Pace.PROBE and self.next - 1 == index > self.match:
            self.next = max(min(index, agree + 1), self.match + 1)
            self.probed = False
            self.waiting_since_ms = None
            self.nudged = True

    def answered_heartbeat(self, last_index: int, now_ms: float, retry_ms: float) -> None:
        """The peer has answered a heartbeat: if it lacks entries, messages to it may be lost, so send again."""
        if self.pace is Pace.SNAPSHOT:
            if self.waiting_since_ms is not None and now_ms - self.waiting_since_ms >= retry_ms:
                self._enter(Pace.PROBE)
                self.next = self.match + 1
            return
        if self.pace is Pace.PROBE:
            self.waiting_since_ms = None
        elif len(self.inflight) >= self.max_inflight:
            self.inflight.popleft()  # allow one more APPEND: the peer refuses it if the others were lost
        self.nudged = self.match < last_index

    def _enter(self, pace: Pace) -> None:
        self.pace = pace
        self.probed = False
        self.inflight.clear()
        self.waiting_since_ms = None
        self.nudged = True
