"""Cluster time: the clock of every deadline. It follows the wall clock by slewing and never jumps (H-17).

A standalone node follows its own wall clock. If the wall clock is set while the node runs, by a year or by a second,
cluster time does not jump: it runs at most `SLEW` faster or slower than the monotonic clock until both agree. A member
of a cluster follows the leader's cluster time in the same way.

A new process starts from the saved cluster time. If the machine has not rebooted since, the time that has passed is
known exactly from the machine's uptime; the wall clock does not matter. After a reboot, a member starts from the saved
time, so that no deadline passes too early. As soon as it knows the leader's time, it sets cluster time to that, once. A
member that leads before it knows cluster time takes that of another one, or its wall clock if nobody knows it
(`membership/leader_time.py`). A standalone node has no leader and takes its wall clock.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

SLEW = 0.005
"""Largest relative correction: an error of one second is gone after 200 s."""

ALARM_MS = 1000
"""A wall clock that differs by more than this, in ms, causes a warning."""


class SavedTime(Struct, frozen=True):
    """The last cluster time that a process saved, in ms since 1970.

    `uptime_ms`: the uptime of the machine when the time was saved. `machine`: the system's id for that boot of the
    machine, "" if it has none, or if the process did not know cluster time: the next one does not know it either.
    """

    cluster_ms: int
    uptime_ms: int = 0
    machine: str = ""


def encode_saved(saved: SavedTime) -> bytes:
    """Returns the bytes for the disk."""
    return saved.cluster_ms.to_bytes(8, "big") + saved.uptime_ms.to_bytes(8, "big") + saved.machine.encode()


def decode_saved(data: bytes | None) -> SavedTime | None:
    """Returns the saved time; None for None. Earlier versions wrote eight bytes, the cluster time only."""
    if data is None:
        return None
    return SavedTime(
        int.from_bytes(data[:8], "big"), int.from_bytes(data[8:16], "big"), data[16:].decode("ascii", "replace")
    )


class ClusterClock:
    """Milliseconds since 1970. The time never falls, except once, when a new member takes the cluster's time.

    `wall_ms` and `mono_ms` are ports: the operating system's two clocks, in milliseconds. `saved` is the time that the
    last process saved; without one, the wall clock is right. `uptime_ms` and `machine` are the present values of those
    in `SavedTime`. `known` is False while cluster time runs from the saved one and waits for `follow` or
    `trust_wall`.
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
        """Follow another node's cluster time, `offset_ms` ahead of this monotonic clock; None: this node's wall clock.

        In a cluster all nodes follow the leader, and the leader follows its own wall clock. If cluster time was not
        known before, it is set: returns by how many milliseconds. Returns 0 otherwise.
        """
        self._leader_ms = offset_ms
        if self.known:
            return 0.0
        before = self.now_ms()
        self.known = True
        self._time = max(self._least_ms, self._wall_ms() if offset_ms is None else self._mono + offset_ms)
        return self._time - before

    def saved(self, uptime_ms: int, machine: str) -> SavedTime:
        """Returns what to save for the next process."""
        return SavedTime(self.now_ms(), uptime_ms, machine if self.known else "")

    def trust_wall(self) -> None:
        """There is no cluster: if cluster time is not known, take the wall clock."""
        if not self.known:
            self.follow(None)

    def ask_cluster(self) -> None:
        """This node becomes a member and has no deadlines: it takes the leader's time, even if that is earlier."""
        self.known = False
        self._least_ms = 0

    @property
    def alarmed(self) -> bool:
        """True while cluster time and the clock that it follows differ by more than `ALARM_MS`."""
        return abs(self.off_ms) > ALARM_MS
