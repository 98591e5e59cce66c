"""Bugs of a cluster planted on purpose: put into a member before it opens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ...netsplit.scenarios import Scenario
from ...storage.engine import Durability
from ..swarm import ClientSpec
from . import misled, planted
from .machine import Machine
from .plan import Plan, plan
from .stage import (
    IDLE_S,
    TOPIC,
    Act,
    client,
    leaves_topic,
    member,
    moves,
    one_by_one,
    publishes,
    reader,
    staged,
    wants_topic,
    writer,
)

if TYPE_CHECKING:
    from .fleet import Fleet


@dataclass(frozen=True, slots=True)
class FleetPlant:
    """One bug of a cluster: `apply` puts it into a machine's member before that opens, `about` says what it is.

    `hole` is the number of its hazard in docs/hazards.md: 4 is H-04. It must be found within `seeds` seeds from 0 on
    with `nodes` nodes, by a checker whose violations begin with one of `finds`; `first` is the seed that found it when
    it was planted. It happens under the faults of `scenario` if there is one, else under these `kinds` of faults. With
    a `cast` only these clients are there (`stage.staged`), under the policy `flag`, publish with `qos`, and do what
    `acts` say. `sockets_first`: a process that stood still reads its sockets before it looks at its timers, as asyncio
    does.
    """

    name: str
    hole: int
    about: str
    first: int
    seeds: int
    finds: tuple[str, ...]
    apply: Callable[[Machine], None]
    scenario: str = ""
    kinds: tuple[str, ...] | None = None
    nodes: int = 3
    cast: dict[str, ClientSpec] | None = None
    flag: str = "majority"
    qos: int = 1
    acts: tuple[Act, ...] = ()
    sockets_first: bool = False

    def plan(self, seed: int, nodes: int, durability: Durability | None, seconds: float) -> Plan:
        """The plan of a seed under this plant's faults."""
        found = plan(seed, nodes, durability, seconds, () if self.scenario else self.kinds)
        if self.scenario:
            found = replace(found, scenario=Scenario.parse(self.scenario))
        return found if self.cast is None else staged(found, self.cast, self.flag, self.qos)

    def begun(self, fleet: Fleet) -> None:
        """The faults begin: lay out what clients do."""
        for machine in fleet.machines.values():
            machine.gate.sockets_first = self.sockets_first
        for at_s, act in self.acts:
            fleet.loop.call_later(at_s, partial(act, fleet))


def _begun(apply: Callable[[Machine], None]) -> Callable[[Machine], None]:
    """`apply` as soon as there are Raft and a lease holder."""

    def applying(machine: Machine) -> None:
        member: Any = machine.member
        begin = member._begin

        def beginning() -> None:
            begin()
            apply(machine)

        member._begin = beginning

    return applying


_CUT = "at 4s cut n3 | n1 n2 for 8s"
_ACKS_LOST = "at 4s one_way_cut n2 n1 for 5s; at 4.5s fast_restart n2"
_IN_HALVES = "at 2s cut n1 n4 | n2 n3 for 5s; at 8s cut n1 n3 | n2 n4 for 5s; at 14s cut n1 n2 | n3 n4 for 5s"
_PAIR = {"n2": reader(), "n1": writer()}
_WRITERS = ("w0", "w1", "w2")
_ROW = tuple([f"t/{number}" for number in range(27)])
_PUBLISHERS = {f"n1.{name}": writer(name, IDLE_S) for name in _WRITERS}
_MANY = tuple([f"r/{number}" for number in range(1000)])

FLEET_PLANTS: dict[str, FleetPlant] = {
    plant.name: plant
    for plant in (
        FleetPlant("view-without-boot", 1, "a restart goes on in the row of the start before", 0, 5, ("role",),
                   _begun(misled.goes_on_as_before), "at 4s fast_restart n2; at 9s fast_restart n1"),
        FleetPlant("learner-counted", 3, "a majority of voters and learners is one", 0, 5, ("two leases", "side"),
                   _begun(misled.counts_learners), _IN_HALVES, nodes=4),
        FleetPlant("direct-join", 4, "who enters a view serves before it knows the routes", 0, 15, ("lost",),
                   _begun(misled.serves_at_once), "at 4s cut n1 | n2 n3 for 6s; at 4s delay n1 n2 400ms",
                   cast={"n3": client("c0", _ROW, version=5), **_PUBLISHERS},
                   acts=one_by_one(9.0, "c0", _WRITERS, _ROW)),
        FleetPlant("guard-off", 4, "promises leave without a lease", 0, 5, ("lost",), planted.no_guard,
                   "at 4s pause n3 6s", cast={"n1": reader(), "n3": writer(pace_s=IDLE_S)},
                   acts=(leaves_topic(2.0), wants_topic(8.0), publishes(9.0)), sockets_first=True),
        FleetPlant("acknowledged-before-applied", 4, "a barrier says what is not yet so", 0, 5, ("lost",),
                   planted.acknowledged_first, "at 2s delay n1 n2 20ms", cast=_PAIR,
                   acts=(leaves_topic(2.0), wants_topic(5.0))),
        FleetPlant("new-leader-does-not-wait", 5, "it removes nodes whose leases are not over", 0, 6, ("two leases",),
                   _begun(misled.hasty_leader), "at 3s cut n1 | n2 n3 for 5s; at 12s cut n2 | n1 n3 for 5s"),
        FleetPlant("ping-from-a-side", 6, "partial cuts and slow disks go unnoticed", 0, 10, ("unanswered",),
                   _begun(misled.hears_everybody), "at 2s pair_cut n2 n3 for 17s"),
        FleetPlant("nobody-waits", 7, "PUBACK does not wait for other nodes", 0, 5, ("early ack",),
                   planted.nobody_waits, "at 2s delay n1 n2 50ms", cast=_PAIR),
        FleetPlant("take-after-a-gap", 7, "a refused message is passed over", 0, 5, ("lost",),
                   planted.takes_after_gap,
                   "at 3s cut n2 | n1 n3 for 8s; at 6s fast_restart n1", cast=_PAIR),
        FleetPlant("watermark-in-memory", 7, "a restart forgets how far lanes were taken", 0, 5, ("wrong: twice",),
                   planted.watermark_in_memory, _ACKS_LOST, cast=_PAIR),
        FleetPlant("given-to-a-second", 9, "who may have a shared message is passed over", 0, 5, ("duplicate",),
                   planted.given_to_a_second, "at 4s one_way_cut n2 n1 for 5s", qos=2,
                   cast={"n1": writer(), "n2": member("c0"), "n3": member("c1")}),
        FleetPlant("dropped-not-parked", 13, "a refused v3 PUBLISH is forgotten", 0, 5, ("ack order",),
                   planted.dropped_not_parked, _CUT, cast={"n2": reader(), "n1": writer(pace_s=2.0)}, flag="off"),
        FleetPlant("drained-at-heal", 14, "what a cut left unacknowledged comes after newer", 1, 6, ("stale",),
                   planted.drained, _CUT,
                   cast={"n1": reader(), "n3": client("w0", topics=(TOPIC,), clean=True)},
                   acts=(publishes(4.3), publishes(4.5), moves(5.0, "n1"), publishes(8.0), publishes(9.0))),
        FleetPlant("one-shared-window", 15, "acknowledgements wait for publishes", 0, 10, ("unanswered", "not at rest"),
                   planted.shared_window, "at 2s delay n1 n2 50ms"),
        FleetPlant("claimed-past-a-gap", 16, "metadata: a clock goes on past what is missing", 0, 5, ("disagree",),
                   planted.past_a_gap, "at 3s cut n3 | n1 n2 for 6s; at 8s delay n1 n3 500ms",
                   cast={"n1": writer(pace_s=0.02, topics=_MANY), "n2": writer("w1", 0.02, _MANY)}),
        FleetPlant("retained-by-arrival", 17, "of two retained messages the last to come stays", 1, 6, ("disagree",),
                   planted.by_arrival, "at 1s delay n1 n2 600ms",
                   cast={"n1": writer(topics=_MANY[:4]), "n2": writer("w1", topics=_MANY[:4])}),
        FleetPlant("clean-sessions-kept", 18, "a gap that clean sessions are not told of", 0, 5, ("lost",),
                   planted.clean_sessions_kept, _CUT,
                   cast={"n3": reader(clean=True), "n1": writer(pace_s=0.1)}),
        FleetPlant("lease-unconfirmed", 21, "a leader grants what no majority confirmed", 0, 5, ("side", "two leases"),
                   _begun(misled.grants_unconfirmed), "at 3s cut n1 | n2 n3 for 7s; at 12s cut n2 | n1 n3 for 6s"),
    )
}  # fmt: skip
"""Every plant by its name."""
