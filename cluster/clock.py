"""Cluster time: the clock of every deadline. It follows the wall clock by slewing and never jumps (review, hole 17).

A node alone follows its own wall clock. A wall clock that is set while the node runs, by a year or by a second, changes
no deadline at once: cluster time runs at most `SLEW` faster or slower than the monotonic clock until both agree. A
member of a cluster follows the leader's cluster time in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

SLEW = 0.005
"""Largest relative correction: an error of one second is gone after 200 s."""

ALARM_MS = 1000
"""A wall clock further off than this is worth a warning."""


class ClusterClock:
    """Milliseconds since 1970 that only go forward.

    `wall_ms` and `mono_ms` are ports: the operating system's two clocks, in milliseconds. `floor_ms` is the last
    cluster time that is known to have been in use, so that a restart with a clock set back does not turn time back.
    """

    __slots__ = ("_leader_ms", "_mono", "_mono_ms", "_time", "_wall_ms", "off_ms")

    def __init__(self, wall_ms: Callable[[], float], mono_ms: Callable[[], float], floor_ms: float = 0) -> None:
        self._wall_ms = wall_ms
        self._mono_ms = mono_ms
        self._mono = mono_ms()
        self._time = max(wall_ms(), floor_ms)
        self.off_ms = 0.0
        self._leader_ms: float | None = None

    def now_ms(self) -> int:
        """Cluster time in milliseconds. Never less than an earlier answer."""
        mono = self._mono_ms()
        elapsed = mono - self._mono
        if elapsed > 0:
            self._mono = mono
            aim = self._wall_ms() if self._leader_ms is None else mono + self._leader_ms
            self.off_ms = aim - (self._time + elapsed)
            room = elapsed * SLEW
            self._time += elapsed + max(-room, min(room, self.off_ms))
        return int(self._time)

    def follow(self, offset_ms: float | None) -> None:
        """Follow another node's cluster time, which is so far ahead of this monotonic clock; None: the own wall clock.

        In a cluster all follow the leader, and the leader its own wall clock.
        """
        self._leader_ms = offset_ms

    @property
    def alarmed(self) -> bool:
        """True while what is followed and cluster time differ by more than `ALARM_MS`."""
        return abs(self.off_ms) > ALARM_MS
