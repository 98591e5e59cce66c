"""Rare kinds of faults, which no seed draws: of Raft's disk, of both disks, of single writes, of clocks that stay
wrong, and of processes that read sockets before they run timers after a suspension.

`--faults all` means only the kinds of `cluster_plan.KINDS`, so that the rare kinds do not change the run of a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Literal

from ..engine.disk import SimDisk
from ..engine.machine import Machine
from . import kinds

SLOW_S = (0.3, 2.5)
"""The range of a write's duration on a slow disk, in seconds."""
BUSY_S = (0.5, 0.8)
"""The same on a busy disk. Its node keeps its lease, and holds up the nodes whose slots it follows."""
OFF_MS = (700, -700, 5_000, -5_000, 3_600_000, -3_600_000)
"""Errors of a wall clock that stays wrong, in ms; one is chosen at random."""
LENGTHS_S = (3.0, 6.0, 10.0, 15.0)
"""Durations of the trouble of Raft's disk, in seconds: other nodes can enter in this time."""

Part = Literal["messages", "raft", "both"]
Trouble = Literal["full", "stall", "slow", "busy", "fails"]


@dataclass(frozen=True, slots=True)
class DiskTrouble(kinds.Fault):
    """One disk of a node, or both, are full, slow, busy or hang, or a write fails; `kind` is a key of `DISKS`."""

    kind: str
    node: str

    @property
    def nodes(self) -> tuple[str, ...]:
        """The affected node."""
        return (self.node,)

    @property
    def fails(self) -> bool:
        """Whether one write fails. After that the process must be started again."""
        return DISKS[self.kind][1] == "fails"

    def __str__(self) -> str:
        return f"{self.kind} {self.node}"


@dataclass(frozen=True, slots=True)
class SocketsFirst(kinds.Pause):
    """SIGSTOP; afterwards the process reads all waiting input before it runs a timer, as asyncio does."""

    word = "sockets_first"


@dataclass(frozen=True, slots=True)
class ClockSet(kinds.ClockJump):
    """The wall clock is set, and stays wrong until the end of all faults or the next start."""

    word = "clock_set"


@dataclass(frozen=True, slots=True)
class Depart(kinds.Fault):
    """An operator lets a node that runs leave the cluster, and join again with an empty disk."""

    node: str
    word = "depart"

    @property
    def nodes(self) -> tuple[str, ...]:
        """The affected node."""
        return (self.node,)

    def __str__(self) -> str:
        return f"{self.word} {self.node}"


DISKS: dict[str, tuple[Part, Trouble]] = {
    "raft_full": ("raft", "full"),
    "raft_stall": ("raft", "stall"),
    "raft_write_fails": ("raft", "fails"),
    "volume_full": ("both", "full"),
    "volume_stall": ("both", "stall"),
    "volume_slow": ("both", "slow"),
    "disk_busy": ("messages", "busy"),
    "write_fails": ("messages", "fails"),
}
"""Kind -> the affected disk, and its trouble. A failed write may be on the disk."""

RARE = (*DISKS, SocketsFirst.word, ClockSet.word, Depart.word)
"""All rare kinds."""

MOMENTS = (
    *[kind for kind, (_, trouble) in DISKS.items() if trouble == "fails"],
    SocketsFirst.word,
    ClockSet.word,
    Depart.word,
)
"""Kinds without a duration in the schedule."""

OF_RAFT = tuple([kind for kind, (part, _) in DISKS.items() if part != "messages"])
"""Kinds that matter only when Raft writes, which is rare: `shake` makes it write."""


def draw(rng: Random, kind: str, node: str, for_s: float) -> kinds.Fault:
    """Returns a fault of this kind; `for_s` is its duration if it has one."""
    if kind in DISKS:
        return DiskTrouble(kind, node)
    if kind == Depart.word:
        return Depart(node)
    return SocketsFirst(node, for_s) if kind == SocketsFirst.word else ClockSet(node, rng.choice(OFF_MS))


def shake(rng: Random, names: tuple[str, ...]) -> kinds.Fault:
    """Returns a fault after which all nodes soon write to Raft's log."""
    node = rng.choice(names)
    return kinds.FastRestart(node) if rng.random() < 0.5 else kinds.Pause(node, round(2.0 + rng.random() * 3.0, 3))


def begin(fault: DiskTrouble, machine: Machine) -> None:
    """Begin the trouble of the machine's disks."""
    for disk in _disks(fault, machine):
        _BEGIN[DISKS[fault.kind][1]](disk)


def end(fault: DiskTrouble, machine: Machine) -> None:
    """End the trouble of the machine's disks."""
    for disk in _disks(fault, machine):
        mend(disk, machine.latency_s)


def mend(disk: SimDisk, latency_s: tuple[float, float]) -> None:
    """Make a disk healthy; writes take `latency_s` again."""
    disk.full = disk.failing = False
    disk.stall_until = 0.0
    disk.latency_s = latency_s


def _disks(fault: DiskTrouble, machine: Machine) -> tuple[SimDisk, ...]:
    messages, raft = machine.disks
    return {"messages": (messages,), "raft": (raft,), "both": (messages, raft)}[DISKS[fault.kind][0]]


def _full(disk: SimDisk) -> None:
    disk.full = True


def _stall(disk: SimDisk) -> None:
    disk.stall_until = inf


def _slow(disk: SimDisk) -> None:
    disk.latency_s = SLOW_S


def _busy(disk: SimDisk) -> None:
    disk.latency_s = BUSY_S


def _fails(disk: SimDisk) -> None:
    disk.failing = True


_BEGIN: dict[Trouble, Callable[[SimDisk], None]] = {
    "full": _full, "stall": _stall, "slow": _slow, "busy": _busy, "fails": _fails,
}  # fmt: skip
