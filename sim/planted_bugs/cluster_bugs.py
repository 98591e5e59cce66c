"""Bugs planted in a cluster, to test that the checkers find them (docs/simulation.md).

A bug is applied to a member before the member opens. The product's code does not contain the bugs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..machines import ClusterMachine
from ..scenarios.scenario import Scenario
from ..scenarios.script import (
    IDLE_S,
    TOPIC,
    client,
    leaves_topic,
    member,
    moves,
    one_by_one,
    publishes,
    reader,
    wants_topic,
    writer,
)
from . import cluster_parts, membership_parts


def _nothing(machine: ClusterMachine) -> None:
    """Leave the machine as it is."""


@dataclass(frozen=True, slots=True)
class ClusterBug(Scenario):
    """A bug of a cluster, and the scenario that shows it. `apply` plants it in a machine before its member opens.

    `hazard` is its number in docs/hazards.md: 4 is H-04. The bug must be found within `seeds` seeds from 0 on, by a
    checker whose violations begin with one of `finds`; `first` is the seed that found it when it was planted.
    """

    hazard: int = 0
    first: int = 0
    seeds: int = 0
    finds: tuple[str, ...] = ()
    apply: Callable[[ClusterMachine], None] = _nothing


def _begun(apply: Callable[[ClusterMachine], None]) -> Callable[[ClusterMachine], None]:
    """Apply the bug as soon as the member has Raft and a lease holder."""

    def applying(machine: ClusterMachine) -> None:
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
        ClusterBug(
            "view-without-boot", "a restarted node continues with its previous boot",
            hazard=1, first=0, seeds=5, finds=("role",), apply=_begun(membership_parts.goes_on_as_before),
            schedule="at 4s fast_restart n2; at 9s fast_restart n1",
        ),
        ClusterBug(
            "learner-counted", "learners count for the majority",
            hazard=3, first=0, seeds=5, finds=("two leases", "side"), apply=_begun(membership_parts.counts_learners),
            schedule=_IN_HALVES,
            nodes=4,
        ),
        ClusterBug(
            "direct-join", "a node serves before it knows the routes",
            hazard=4, first=0, seeds=15, finds=("lost",), apply=_begun(membership_parts.serves_at_once),
            schedule="at 4s cut n1 | n2 n3 for 6s; at 4s delay n1 n2 400ms",
            clients={"n3": client("c0", _ROW, version=5), **_PUBLISHERS},
            acts=one_by_one(9.0, "c0", _WRITERS, _ROW),
        ),
        ClusterBug(
            "guard-off", "acknowledgements leave without a lease",
            hazard=4, first=0, seeds=5, finds=("lost",), apply=cluster_parts.no_guard,
            schedule="at 4s pause n3 6s",
            clients={"n1": reader(), "n3": writer(pace_s=IDLE_S)},
            acts=(leaves_topic(2.0), wants_topic(8.0), publishes(9.0)),
            sockets_first=True,
        ),
        ClusterBug(
            "acknowledged-before-applied", "a peer acknowledges a write before it applies it",
            hazard=4, first=0, seeds=5, finds=("lost",), apply=cluster_parts.acknowledged_first,
            schedule="at 2s delay n1 n2 20ms",
            clients=_PAIR,
            acts=(leaves_topic(2.0), wants_topic(5.0)),
        ),
        ClusterBug(
            "new-leader-does-not-wait", "a new leader removes nodes that hold leases",
            hazard=5, first=0, seeds=6, finds=("two leases",), apply=_begun(membership_parts.hasty_leader),
            schedule="at 3s cut n1 | n2 n3 for 5s; at 12s cut n2 | n1 n3 for 5s",
        ),
        ClusterBug(
            "ping-from-a-side", "partial cuts and slow disks go unnoticed",
            hazard=6, first=0, seeds=10, finds=("unanswered",), apply=_begun(membership_parts.hears_everybody),
            schedule="at 2s pair_cut n2 n3 for 17s",
        ),
        ClusterBug(
            "nobody-waits", "PUBACK does not wait for other nodes",
            hazard=7, first=0, seeds=5, finds=("early ack",), apply=cluster_parts.nobody_waits,
            schedule="at 2s delay n1 n2 50ms",
            clients=_PAIR,
        ),
        ClusterBug(
            "take-after-a-gap", "the next message is taken after a refused one",
            hazard=7, first=0, seeds=5, finds=("lost",), apply=cluster_parts.takes_after_gap,
            schedule="at 3s cut n2 | n1 n3 for 8s; at 6s fast_restart n1",
            clients=_PAIR,
        ),
        ClusterBug(
            "watermark-in-memory", "a restart forgets the watermarks of lanes",
            hazard=7, first=0, seeds=5, finds=("wrong: twice",), apply=cluster_parts.watermark_in_memory,
            schedule=_ACKS_LOST,
            clients=_PAIR,
        ),
        ClusterBug(
            "given-to-a-second", "a second member gets a shared message",
            hazard=9, first=0, seeds=5, finds=("duplicate",), apply=cluster_parts.given_to_a_second,
            schedule="at 4s one_way_cut n2 n1 for 5s",
            clients={"n1": writer(), "n2": member("c0"), "n3": member("c1")},
            qos=2,
        ),
        ClusterBug(
            "dropped-not-parked", "a refused v3 PUBLISH is forgotten",
            hazard=13, first=0, seeds=5, finds=("ack order",), apply=cluster_parts.dropped_not_parked,
            schedule=_CUT,
            clients={"n2": reader(), "n1": writer(pace_s=2.0)},
            policy="off",
        ),
        ClusterBug(
            "drained-at-heal", "forwards from before a cut continue after it",
            hazard=14, first=8, seeds=18, finds=("stale",), apply=cluster_parts.drained,
            schedule=_CUT,
            clients={"n1": reader(), "n3": client("w0", topics=(TOPIC,), clean=True)},
            acts=(publishes(4.3), publishes(4.5), moves(5.0, "n1"), publishes(8.0), publishes(9.0)),
        ),
        ClusterBug(
            "one-shared-window", "acknowledgements wait for publishes of the other direction",
            hazard=15, first=0, seeds=10, finds=("unanswered", "not at rest"), apply=cluster_parts.shared_window,
            schedule="at 2s delay n1 n2 50ms",
        ),
        ClusterBug(
            "claimed-past-a-gap", "a clock of metadata covers writes that are missing",
            hazard=16, first=0, seeds=5, finds=("disagree",), apply=cluster_parts.past_a_gap,
            schedule="at 3s cut n3 | n1 n2 for 6s; at 8s delay n1 n3 500ms",
            clients={"n1": writer(pace_s=0.02, topics=_MANY), "n2": writer("w1", 0.02, _MANY)},
        ),
        ClusterBug(
            "retained-by-arrival", "the retained message that arrives last wins",
            hazard=17, first=1, seeds=6, finds=("disagree",), apply=cluster_parts.by_arrival,
            schedule="at 1s delay n1 n2 600ms",
            clients={"n1": writer(topics=_MANY[:4]), "n2": writer("w1", topics=_MANY[:4])},
        ),
        ClusterBug(
            "new-leader-sets-the-time", "a leader that does not know cluster time takes its wall clock",
            hazard=17, first=6, seeds=8, finds=("clock",), apply=_begun(membership_parts.trusts_wall_clock),
            schedule="at 3s power_loss n2; at 3.1s disk_stall n2 for 8s; at 7s clock_jump n2 +31536000000ms; "
            "at 7.1s pause n1 1.5s; at 8.5s clock_jump n2 +31536000000ms; at 8.6s pause n3 1.5s",
        ),
        ClusterBug(
            "clean-sessions-kept", "clean sessions continue after missed messages",
            hazard=18, first=0, seeds=5, finds=("lost",), apply=cluster_parts.clean_sessions_kept,
            schedule=_CUT,
            clients={"n3": reader(clean=True), "n1": writer(pace_s=0.1)},
        ),
        ClusterBug(
            "lease-unconfirmed", "a leader grants leases that no majority confirmed",
            hazard=21, first=0, seeds=5, finds=("side", "two leases"),
            apply=_begun(membership_parts.grants_unconfirmed),
            schedule="at 3s cut n1 | n2 n3 for 7s; at 12s cut n2 | n1 n3 for 6s",
        ),
        ClusterBug(
            "slot-holders-by-node", "holders of slots are compared by their nodes",
            hazard=22, first=0, seeds=3, finds=("slots",), apply=membership_parts.compares_nodes,
            schedule="at 4s fast_restart n1",
        ),
        ClusterBug(
            "slot-epochs-kept", "the same node gets its slots again in the same epoch",
            hazard=24, first=0, seeds=3, finds=("slots",), apply=membership_parts.keeps_epochs,
            schedule="at 4s fast_restart n1",
        ),
    )
}  # fmt: skip
"""Every bug by its name."""
