"""Bugs of a cluster planted on purpose: put into a member before it opens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ...storage.engine import Durability
from ..cluster_plan import ClusterPlan, plan
from ..engine.machine import Machine
from ..faults.schedule import FaultSchedule
from ..scenarios.script import (
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
    wants_topic,
    with_script,
    writer,
)
from ..workload.swarm import ClientSpec
from . import cluster_parts, membership_parts

if TYPE_CHECKING:
    from ..cluster_world import ClusterWorld


@dataclass(frozen=True, slots=True)
class ClusterBug:
    """One bug of a cluster: `apply` puts it into a machine's member before that opens, `about` says what it is.

    `hazard` is the number of its hazard in docs/hazards.md: 4 is H-04. It must be found within `seeds` seeds from 0 on
    with `nodes` nodes, by a checker whose violations begin with one of `finds`; `first` is the seed that found it when
    it was planted. It happens under the faults of `schedule` if there is one, else under these `kinds` of faults. With
    `clients` only these are there (`script.with_script`), under the policy `flag`, publish with `qos`, and do what
    `acts` say. `sockets_first`: a process that stood still reads its sockets before it looks at its timers, as asyncio
    does.
    """

    name: str
    hazard: int
    about: str
    first: int
    seeds: int
    finds: tuple[str, ...]
    apply: Callable[[Machine], None]
    schedule: str = ""
    kinds: tuple[str, ...] | None = None
    nodes: int = 3
    clients: dict[str, ClientSpec] | None = None
    flag: str = "majority"
    qos: int = 1
    acts: tuple[Act, ...] = ()
    sockets_first: bool = False

    def plan(self, seed: int, nodes: int, durability: Durability | None, seconds: float) -> ClusterPlan:
        """The plan of a seed under this plant's faults."""
        found = plan(seed, nodes, durability, seconds, () if self.schedule else self.kinds)
        if self.schedule:
            found = replace(found, schedule=FaultSchedule.parse(self.schedule))
        return found if self.clients is None else with_script(found, self.clients, self.flag, self.qos)

    def begun(self, world: ClusterWorld) -> None:
        """The faults begin: lay out what clients do."""
        for machine in world.machines.values():
            machine.gate.sockets_first = self.sockets_first
        for at_s, act in self.acts:
            world.loop.call_later(at_s, partial(act, world))


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

CLUSTER_BUGS: dict[str, ClusterBug] = {
    bug.name: bug
    for bug in (
        ClusterBug("view-without-boot", 1, "a restart goes on in the row of the start before", 0, 5, ("role",),
                   _begun(membership_parts.goes_on_as_before), "at 4s fast_restart n2; at 9s fast_restart n1"),
        ClusterBug("learner-counted", 3, "a majority of voters and learners is one", 0, 5, ("two leases", "side"),
                   _begun(membership_parts.counts_learners), _IN_HALVES, nodes=4),
        ClusterBug("direct-join", 4, "who enters a view serves before it knows the routes", 0, 15, ("lost",),
                   _begun(membership_parts.serves_at_once), "at 4s cut n1 | n2 n3 for 6s; at 4s delay n1 n2 400ms",
                   clients={"n3": client("c0", _ROW, version=5), **_PUBLISHERS},
                   acts=one_by_one(9.0, "c0", _WRITERS, _ROW)),
        ClusterBug("guard-off", 4, "promises leave without a lease", 0, 5, ("lost",), cluster_parts.no_guard,
                   "at 4s pause n3 6s", clients={"n1": reader(), "n3": writer(pace_s=IDLE_S)},
                   acts=(leaves_topic(2.0), wants_topic(8.0), publishes(9.0)), sockets_first=True),
        ClusterBug("acknowledged-before-applied", 4, "a barrier says what is not yet so", 0, 5, ("lost",),
                   cluster_parts.acknowledged_first, "at 2s delay n1 n2 20ms", clients=_PAIR,
                   acts=(leaves_topic(2.0), wants_topic(5.0))),
        ClusterBug("new-leader-does-not-wait", 5, "it removes nodes whose leases are not over", 0, 6, ("two leases",),
                   _begun(membership_parts.hasty_leader), "at 3s cut n1 | n2 n3 for 5s; at 12s cut n2 | n1 n3 for 5s"),
        ClusterBug("ping-from-a-side", 6, "partial cuts and slow disks go unnoticed", 0, 10, ("unanswered",),
                   _begun(membership_parts.hears_everybody), "at 2s pair_cut n2 n3 for 17s"),
        ClusterBug("nobody-waits", 7, "PUBACK does not wait for other nodes", 0, 5, ("early ack",),
                   cluster_parts.nobody_waits, "at 2s delay n1 n2 50ms", clients=_PAIR),
        ClusterBug("take-after-a-gap", 7, "a refused message is passed over", 0, 5, ("lost",),
                   cluster_parts.takes_after_gap,
                   "at 3s cut n2 | n1 n3 for 8s; at 6s fast_restart n1", clients=_PAIR),
        ClusterBug("watermark-in-memory", 7, "a restart forgets how far lanes were taken", 0, 5, ("wrong: twice",),
                   cluster_parts.watermark_in_memory, _ACKS_LOST, clients=_PAIR),
        ClusterBug("given-to-a-second", 9, "who may have a shared message is passed over", 0, 5, ("duplicate",),
                   cluster_parts.given_to_a_second, "at 4s one_way_cut n2 n1 for 5s", qos=2,
                   clients={"n1": writer(), "n2": member("c0"), "n3": member("c1")}),
        ClusterBug("dropped-not-parked", 13, "a refused v3 PUBLISH is forgotten", 0, 5, ("ack order",),
                   cluster_parts.dropped_not_parked, _CUT,
                   clients={"n2": reader(), "n1": writer(pace_s=2.0)}, flag="off"),
        ClusterBug("drained-at-heal", 14, "what a cut left unacknowledged comes after newer", 1, 6, ("stale",),
                   cluster_parts.drained, _CUT,
                   clients={"n1": reader(), "n3": client("w0", topics=(TOPIC,), clean=True)},
                   acts=(publishes(4.3), publishes(4.5), moves(5.0, "n1"), publishes(8.0), publishes(9.0))),
        ClusterBug("one-shared-window", 15, "acknowledgements wait for publishes", 0, 10, ("unanswered", "not at rest"),
                   cluster_parts.shared_window, "at 2s delay n1 n2 50ms"),
        ClusterBug("claimed-past-a-gap", 16, "metadata: a clock goes on past what is missing", 0, 5, ("disagree",),
                   cluster_parts.past_a_gap, "at 3s cut n3 | n1 n2 for 6s; at 8s delay n1 n3 500ms",
                   clients={"n1": writer(pace_s=0.02, topics=_MANY), "n2": writer("w1", 0.02, _MANY)}),
        ClusterBug("retained-by-arrival", 17, "of two retained messages the last to come stays", 1, 6, ("disagree",),
                   cluster_parts.by_arrival, "at 1s delay n1 n2 600ms",
                   clients={"n1": writer(topics=_MANY[:4]), "n2": writer("w1", topics=_MANY[:4])}),
        ClusterBug("clean-sessions-kept", 18, "a gap that clean sessions are not told of", 0, 5, ("lost",),
                   cluster_parts.clean_sessions_kept, _CUT,
                   clients={"n3": reader(clean=True), "n1": writer(pace_s=0.1)}),
        ClusterBug("lease-unconfirmed", 21, "a leader grants what no majority confirmed", 0, 5, ("side", "two leases"),
                   _begun(membership_parts.grants_unconfirmed),
                   "at 3s cut n1 | n2 n3 for 7s; at 12s cut n2 | n1 n3 for 6s"),
    )
}  # fmt: skip
"""Every plant by its name."""
