"""Cluster time: the clock of every deadline. It follows the wall clock by slewing and never jumps (H-17).

A node alone follows its own wall clock. A wall clock that is set while the node runs, by a year or by a second, changes
no deadline at once: cluster time runs at most `SLEW` faster or slower than the monotonic clock until both agree. A
member of a cluster follows the leader's cluster time in the same way.

A process has to begin with some time. If the machine has not been booted since the last process saved its own, the time
that the machine ran meanwhile is known exactly, whatever the wall clock says now. Otherwise a member waits: its cluster
time goes on from the saved one, so that no deadline passes too early, until the leader's is known, and is set to that
once. A node alone has nobody to ask, and takes its wall clock.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

SLEW = 0.005
"""Largest relative correction: an error of one second is gone after 200 s."""

ALARM_MS = 1000
"""A wall clock further off than this is worth a warning."""


class SavedTime(Struct, frozen=True):
    """The last cluster time that a process has written down, in ms since 1970, when its machine had run for `uptime_ms`
    since it was booted. `machine` names that boot of the machine; "" if the system has no name for it."""

    cluster_ms: int
    uptime_ms: int = 0
    machine: str = ""


def encode_saved(saved: SavedTime) -> bytes:
    """As it lies on the disk."""
    return saved.cluster_ms.to_bytes(8, "big") + saved.uptime_ms.to_bytes(8, "big") + saved.machine.encode()


def decode_saved(data: bytes | None) -> SavedTime | None:
    """None for nothing. Eight bytes, as earlier versions wrote them, are the cluster time alone."""
    if data is None:
        return None
    return SavedTime(
        int.from_bytes(data[:8], "big"), int.from_bytes(data[8:16], "big"), data[16:].decode("ascii", "replace")
    )


class ClusterClock:
    """Milliseconds since 1970 that only go forward, but for the moment in which a newcomer takes the cluster's time.

    `wall_ms` and `mono_ms` are ports: the operating system's two clocks, in milliseconds. `saved` is what the last
    process wrote down: without one, the wall clock is right. `uptime_ms` and `machine` are as in `SavedTime`, now.
    `known` is False while cluster time waits for `follow` or `trust_wall`: then it goes on from the saved one.
    """

    __slots__ = ("_leader_ms", "_least_ms", "_mono", "_mono_ms", "_time", "_wall_ms", "known", "off_ms")

    def __init__(
        self,
        wall_ms: Callable[[], float],
        mono_ms: Callable[[], float],
        saved: SavedTime | None = None,
        uptime_ms: int = 0,
        machine: str = "",
    ) -> None:
        self._wall_ms = wall_ms
        self._mono_ms = mono_ms
        self._mono = mono_ms()
        self.known = True
        if saved is None:
            self._time = wall_ms()
        elif machine and machine == saved.machine and uptime_ms >= saved.uptime_ms:
            self._time = float(saved.cluster_ms + uptime_ms - saved.uptime_ms)
        else:
            self._time = float(saved.cluster_ms)
            self.known = False
        self._least_ms = self._time
        self.off_ms = 0.0
        self._leader_ms: float | None = None

    def now_ms(self) -> int:
        """Cluster time in milliseconds. Never less than an earlier answer."""
        mono = self._mono_ms()
        elapsed = mono - self._mono
        if elapsed > 0:
            self._mono = mono
            if not self.known:
                self._time += elapsed
                return int(self._time)
            aim = self._wall_ms() if self._leader_ms is None else mono + self._leader_ms
            self.off_ms = aim - (self._time + elapsed)
            room = elapsed * SLEW
            self._time += elapsed + max(-room, min(room, self.off_ms))
        return int(self._time)

    def follow(self, offset_ms: float | None) -> float:
        """Follow another node's cluster time, which is so far ahead of this monotonic clock; None: the own wall clock.

        In a cluster all follow the leader, and the leader its own wall clock. Returns by how many milliseconds cluster
        time was set, because it was not known before; else 0.
        """
        self._leader_ms = offset_ms
        if self.known:
            return 0.0
        before = self.now_ms()
        self.known = True
        self._time = max(self._least_ms, self._wall_ms() if offset_ms is None else self._mono + offset_ms)
        return self._time - before

    def trust_wall(self) -> None:
        """There is no cluster to ask: if cluster time is not known, the wall clock is right."""
        if not self.known:
            self.follow(None)

    def ask_cluster(self) -> None:
        """This node becomes a member and has nothing with a deadline: it takes the leader's time, ahead or behind."""
        self.known = False
        self._least_ms = 0

    @property
    def alarmed(self) -> bool:
        """True while what is followed and cluster time differ by more than `ALARM_MS`."""
        return abs(self.off_ms) > ALARM_MS
