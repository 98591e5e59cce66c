"""Bugs of a cluster planted on purpose (review, section 4): put into a member before it opens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import planted
from .machine import Machine


@dataclass(frozen=True, slots=True)
class FleetPlant:
    """One bug of a cluster: `apply` puts it into a machine's member before that opens, `about` says what it is.

    `seeds` is the number of seeds from `first` on within which it must be found with `nodes` nodes and these `kinds`
    of faults (None: the seed's own). `later` is called once Raft and leases run.
    """

    name: str
    hole: str
    about: str
    seeds: int
    apply: Callable[[Machine], None]
    kinds: tuple[str, ...] | None = None
    nodes: int = 3
    first: int = 0


def _holder(kind: type) -> Callable[[Machine], None]:
    """The lease holder becomes one of this class, as soon as there is one."""

    def begun(machine: Machine) -> None:
        standing: Any = machine.member and machine.member.standing
        holder = standing.holder
        holder.__class__ = kind
        if kind is planted.HearsEverybody:
            holder.others = tuple([name for name in sorted(machine.roads.gates) if name != machine.name])
        if kind is planted.FormerSelf:
            _as_before(machine)

    return _when_begun(begun)


def _as_before(machine: Machine) -> None:
    """The log is not told of this start, and nobody is asked for it."""
    member: Any = machine.member
    known = member.membership.members.get(machine.name)
    member.starting.tick = lambda: None
    if known is not None:
        member.standing.holder.process = known.process
        member.standing.holder.applied(member.view)


def _keeper(machine: Machine) -> None:
    def begun(machine: Machine) -> None:
        standing: Any = machine.member and machine.member.standing
        standing.keeper.__class__ = planted.Impatient

    _when_begun(begun)(machine)


def _when_begun(begun: Callable[[Machine], None]) -> Callable[[Machine], None]:
    def apply(machine: Machine) -> None:
        member: Any = machine.member
        begin = member._begin

        def beginning() -> None:
            begin()
            begun(machine)

        member._begin = beginning

    return apply


def _no_guard(machine: Machine) -> None:
    assert machine.node is not None
    machine.node.guard = None


def _forgets_watermarks(machine: Machine) -> None:
    clustering: Any = machine.clustering
    clustering.receiving._lanes.clear()


def _keeps_clean_sessions(machine: Machine) -> None:
    clustering: Any = machine.clustering
    clustering._end_clean_sessions = lambda: None


def _by_wall_clock(machine: Machine) -> None:
    """A retained message that is older by the wall clock never replaces one."""
    metadata: Any = machine.member and machine.member.metadata
    put = metadata.put
    metadata._hlc = stamps = _WallStamps(machine)

    def putting(key: bytes, value: bytes) -> Any:
        if key[:1] == b"t" and _stamp(metadata._half(key).siblings(key)) > stamps.next():
            return metadata.counter
        return put(key, value)

    metadata.put = putting


class _WallStamps:
    """Stamps of a machine's wall clock, whatever it has seen."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.clamped = 0

    def next(self) -> int:
        """The time."""
        return int(self._machine._wall_ms()) << 16

    def observe(self, stamp: int) -> None:
        """Nothing is learned from others."""


def _stamp(siblings: Any) -> int:
    values = [each for each in siblings or () if isinstance(each, bytes)]
    return max((int.from_bytes(each[:8], "big") for each in values), default=0)


CUTS = ("cut", "pair_cut", "one_way_cut")

FLEET_PLANTS: dict[str, FleetPlant] = {
    plant.name: plant
    for plant in (
        FleetPlant("view-without-boot", "1", "a restart goes on in the row of the start before", 10,
                   _holder(planted.FormerSelf), ("fast_restart", "kill")),
        FleetPlant("direct-join", "4", "serving without exchange and barrier", 40, planted.without_exchange, CUTS),
        FleetPlant("lease-before-match", "4", "promises leave without a look at the lease", 40, _no_guard,
                   ("pause", "cut")),
        FleetPlant("new-leader-does-not-wait", "5", "it removes at once whom it has not heard", 20, _keeper,
                   ("kill", "cut", "pause")),
        FleetPlant("ping-from-a-side", "6", "partial cuts and slow disks go unnoticed", 20,
                   _holder(planted.HearsEverybody), ("pair_cut", "disk_stall")),
        FleetPlant("watermark-in-memory", "7", "a restart forgets how far lanes were taken", 40, _forgets_watermarks,
                   ("kill", "fast_restart")),
        FleetPlant("taken-after-gap", "7", "a refused item counts as taken", 40, planted.taken_after_gap, CUTS),
        FleetPlant("drained-at-heal", "14", "what was void comes after the heal", 60, planted.drained, CUTS),
        FleetPlant("one-shared-window", "15", "acknowledgements wait for publishes", 5, planted.shared_window),
        FleetPlant("acknowledged-before-applied", "4", "a barrier says what is not yet so", 10,
                   planted.acknowledged_first),
        FleetPlant("clean-sessions-kept", "18", "who missed messages is not told", 40, _keeps_clean_sessions, CUTS),
        FleetPlant("clock-past-a-gap", "16", "metadata that never came counts as known", 40, planted.gap_claimed,
                   ("cut", "one_way_cut", "loss")),
        FleetPlant("retained-by-wall-clock", "17", "the older clock wins", 40, _by_wall_clock, ("clock_jump",)),
    )
}  # fmt: skip
"""Every plant by its name."""
