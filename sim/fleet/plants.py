"""Bugs of a cluster planted on purpose (review, section 4): put into a member before it opens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...netsplit.scenarios import Scenario
from ...storage.engine import Durability
from . import planted
from .machine import Machine
from .plan import Plan, plan


@dataclass(frozen=True, slots=True)
class FleetPlant:
    """One bug of a cluster: `apply` puts it into a machine's member before that opens, `about` says what it is.

    `seeds` is the number of seeds from 0 on within which it must be found with `nodes` nodes: under the faults of
    `scenario` if there is one, else under these `kinds` of faults. `hole` is its number in the review.
    """

    name: str
    hole: int
    about: str
    seeds: int
    apply: Callable[[Machine], None]
    scenario: str = ""
    kinds: tuple[str, ...] | None = None
    nodes: int = 3

    def plan(self, seed: int, nodes: int, durability: Durability | None, seconds: float) -> Plan:
        """The plan of a seed under this plant's faults."""
        found = plan(seed, nodes, durability, seconds, () if self.scenario else self.kinds)
        return replace(found, scenario=Scenario.parse(self.scenario)) if self.scenario else found


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


def _when_begun(begun: Callable[[Machine], None]) -> Callable[[Machine], None]:
    def apply(machine: Machine) -> None:
        member: Any = machine.member
        begin = member._begin

        def beginning() -> None:
            begin()
            begun(machine)

        member._begin = beginning

    return apply


FLEET_PLANTS: dict[str, FleetPlant] = {
    plant.name: plant
    for plant in (
        FleetPlant("view-without-boot", 1, "a restart goes on in the row of the start before", 5,
                   _holder(planted.FormerSelf), "at 4s fast_restart n2; at 9s fast_restart n1"),
        FleetPlant("acknowledged-before-applied", 4, "a barrier says what is not yet so", 40,
                   planted.acknowledged_first, "at 1s delay n1 n2 300ms for 15s"),
        FleetPlant("ping-from-a-side", 6, "partial cuts and slow disks go unnoticed", 10,
                   _holder(planted.HearsEverybody), "at 2s pair_cut n2 n3 for 17s"),
        FleetPlant("one-shared-window", 15, "acknowledgements wait for publishes", 10, planted.shared_window,
                   "at 2s delay n1 n2 50ms"),
    )
}  # fmt: skip
"""Every plant by its name."""
