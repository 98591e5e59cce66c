"""The stamps of values: a hybrid logical clock, `milliseconds since 1970 << 16` plus a counter in the low 16 bits.

A stamp is larger than all stamps that this process made or saw before. The milliseconds are cluster time: a node whose
wall clock is ahead wins against no other one. A remote stamp counts as at most one minute ahead of this node's time, so
that one wrong time does not move the stamps of all nodes into next year (H-17).
"""

from __future__ import annotations

from collections.abc import Callable

LOGICAL_BITS = 16
AHEAD_MS = 60_000


class HybridClock:
    """Makes stamps. `clamped` counts the remote stamps that were more than a minute ahead."""

    __slots__ = ("_last", "_time_ms", "clamped")

    def __init__(self, time_ms: Callable[[], float]) -> None:
        self._time_ms = time_ms
        self._last = 0
        self.clamped = 0

    def next(self) -> int:
        """Returns a new stamp."""
        self._last = max(self._last + 1, int(self._time_ms()) << LOGICAL_BITS)
        return self._last

    def observe(self, stamp: int) -> None:
        """Take note of a stamp of another node: later stamps of this node are larger."""
        if stamp <= self._last:
            return
        limit = (int(self._time_ms()) + AHEAD_MS) << LOGICAL_BITS
        if stamp > limit:
            self.clamped += 1
            stamp = limit
        self._last = max(self._last, stamp)
