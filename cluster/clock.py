"""Cluster time: the clock of every deadline. It follows the wall clock by slewing and never jumps (H-17).

A standalone node follows its own wall clock. If the wall clock is set while the node runs, by a year or by a second,
cluster time does not jump: it runs at most `SLEW` faster or slower than the monotonic clock until both agree. A member
of a cluster follows the leader's cluster time in the same way.

A new process starts from the saved cluster time. If the machine has not rebooted since, the time that has passed is
known exactly from the machine's uptime; the wall clock does not matter. After a reboot, a member starts from the saved
time, so that no deadline passes too early. As soon as it knows the leader's time, it sets cluster time to that, once. A
member that leads before it knows cluster time takes that of another one, or its wall clock if nobody knows it
(`membership/leader_time.py`). A standalone node has no leader and takes its wall clock.

A machine may stand still for hours, and its monotonic clock with it. Then its cluster time is behind. When another node
says a later time, and the own wall clock is ahead as well, cluster time is set to the earlier of the two, at once. A
step of the wall clock alone sets nothing, nor does a leader that takes a wrong one.

A newcomer, that is a node that joins a cluster, takes the cluster's time, also if that is earlier than its own. If it
is killed before that, its disk has the time of the standalone node that it was. Therefore a saved time says whether it
is a cluster's. If it is not, the next process of the member is a newcomer too.
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
    `clusters`: whether the process had followed the time of its cluster. A standalone node has not.
    """

    cluster_ms: int
    uptime_ms: int = 0
    machine: str = ""
    clusters: bool = False


_CLUSTERS = b"/cluster"
"""Ends the bytes of a cluster's time. No id of a boot has a "/"."""


def encode_saved(saved: SavedTime) -> bytes:
    """Returns the bytes for the disk."""
    times = saved.cluster_ms.to_bytes(8, "big") + saved.uptime_ms.to_bytes(8, "big")
    return times + saved.machine.encode() + (_CLUSTERS if saved.clusters else b"")


def decode_saved(data: bytes | None) -> SavedTime | None:
    """Returns the saved time; None for None. Earlier versions wrote eight bytes, the cluster time only."""
    if data is None:
        return None
    machine = data[16:].removesuffix(_CLUSTERS).decode("ascii", "replace")
    cluster_ms, uptime_ms = int.from_bytes(data[:8], "big"), int.from_bytes(data[8:16], "big")
    return SavedTime(cluster_ms, uptime_ms, machine, data[16:].endswith(_CLUSTERS))


def _nothing() -> None:
    """Nobody saves this clock."""


class ClusterClock:
    """Milliseconds since 1970. The time never falls, except when a newcomer or one that guessed takes the cluster's.

    `wall_ms` and `mono_ms` are ports: the operating system's two clocks, in milliseconds. `saved` is the time that the
    last process saved; without one, the wall clock is right. `uptime_ms` and `machine` are the present values of those
    in `SavedTime`. `known` is False while cluster time runs from the saved one and waits for `follow` or
    `trust_wall`. The clock calls `on_set` when it follows a cluster's time for the first time, and when it is set: save
    it before anything with a deadline.
    """

    __slots__ = (
        "_before_guess",
        "_clusters",
        "_leader_ms",
        "_least_ms",
        "_mono",
        "_mono_ms",
        "_time",
        "_wall_ms",
        "known",
        "newcomer_set",
        "off_ms",
        "on_set",
        "set_at_ms",
    )

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
        self._clusters = saved is not None and saved.clusters
        self.on_set: Callable[[], None] = _nothing
        self.newcomer_set: Callable[[int], None] = lambda by_ms: None
        """Called when the clock of a newcomer is set by so many ms: the deadlines that it brings are in its former
        time."""
        self._before_guess: int | None = None
        self.set_at_ms = 0
        """Cluster time just after it was set, 0 if it never was."""

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
        known before, or this machine stood still, it is set: returns by how many milliseconds. Returns 0 otherwise.
        """
        behind_ms = self._behind_ms(offset_ms)
        self._leader_ms = offset_ms
        if self.known and self._clusters:
            return self._catch_up(behind_ms)
        newcomer = self.newcomer
        set_ms = 0.0 if self.known else self._set(self._wall_ms() if offset_ms is None else self._mono_ms() + offset_ms)
        self._clusters = True
        self.on_set()
        if newcomer:
            self.newcomer_set(round(set_ms))
        return set_ms

    def _behind_ms(self, offset_ms: float | None) -> float:
        """How far cluster time is behind another node's time, and behind the wall clock."""
        return 0.0 if offset_ms is None else min(self._mono_ms() + offset_ms, self._wall_ms()) - self.now_ms()

    def _catch_up(self, behind_ms: float) -> float:
        """Set the clock ahead if it is far behind. Returns the change."""
        if behind_ms <= ALARM_MS:
            return 0.0
        set_ms = self._set(int(self._time) + behind_ms)
        self.on_set()
        return set_ms

    def _set(self, time_ms: float) -> float:
        before = self.now_ms()
        self.known = True
        self._time = max(self._least_ms, time_ms)
        self.set_at_ms = int(self._time)
        return self._time - before

    def saved(self, uptime_ms: int, machine: str) -> SavedTime:
        """Returns what to save for the next process."""
        time_ms = self.now_ms() if self.known or self._before_guess is None else self._before_guess
        return SavedTime(time_ms, uptime_ms, machine if self.known else "", self._clusters)

    def trust_wall(self) -> None:
        """There is no cluster: if cluster time is not known, take the wall clock."""
        if not self.known:
            self._set(self._wall_ms())

    def guess_wall(self) -> float:
        """There is no leader now: run on from the wall clock, until `follow` sets the clock. Returns the change in ms.

        The guess may be wrong by a year: it is not saved, and the leader's time may be earlier.
        """
        before = self.now_ms()
        if self._before_guess is None:
            self._before_guess = before
            self._time = max(before, self._wall_ms())
            self.set_at_ms = int(self._time)
        return self._time - before

    def ask_cluster(self) -> None:
        """This node becomes a member and has no deadlines: it takes the leader's time, even if that is earlier."""
        self.known = False
        self._least_ms = 0

    def resume_member(self) -> None:
        """This process continues that of a member: if the saved time is not the cluster's, it is a newcomer still."""
        if not self._clusters:
            self.ask_cluster()

    @property
    def newcomer(self) -> bool:
        """True if this node does not know the time because it joins: its deadlines are in a time of its own."""
        return not self.known and not self._clusters

    @property
    def alarmed(self) -> bool:
        """True while cluster time and the clock that it follows differ by more than `ALARM_MS`."""
        return abs(self.off_ms) > ALARM_MS
