"""Scripts of faults and clients that show a promise at work: those of the planted bugs, without the bug, and more.

Seeds draw what nobody thought of; a stage is for what somebody did think of, and what chance brings about too seldom.
What a seed still decides on a stage: clocks, delays, disks, durability and who leads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..engine.machine import Machine
from ..faults import kinds
from ..faults.schedule import Step
from ..history import Subscribed
from ..planted_bugs.cluster_bugs import CLUSTER_BUGS, ClusterBug
from ..workload.swarm import ClientSpec
from .script import IDLE_S, Act, client, leaves_topic, publishes, reader, retains, wants_topic, writer

if TYPE_CHECKING:
    from ..cluster_world import ClusterWorld


def _unchanged(machine: Machine) -> None:
    """The node stays as it is."""


def _scenario(
    name: str, about: str, schedule: str, clients: dict[str, ClientSpec], acts: tuple[Act, ...] = (), qos: int = 1
) -> ClusterBug:
    return ClusterBug(name, 0, about, 0, 0, (), _unchanged, schedule, (), clients=clients, acts=acts, qos=qos)


def at_suback(at_s: float, name: str, then: Callable[[ClusterWorld], None]) -> Act:
    """From that time on: as soon as the client gets a SUBACK, once."""

    def listen(world: ClusterWorld) -> None:
        found = next(each for each in world.clients if each.name == name)

        def granted(subscribed: Subscribed) -> None:
            found.on_granted = None
            then(world)

        found.on_granted = granted

    return at_s, listen


def at_view(at_s: float, node: str, then: Callable[[ClusterWorld], None]) -> Act:
    """From that time on: as soon as the node has applied another view, once."""

    def begin(world: ClusterWorld) -> None:
        machine = world.machines[node]
        before = machine.member.view.id if machine.member is not None else 0

        def look() -> None:
            if machine.member is not None and machine.member.view.id > before:
                then(world)
            else:
                world.loop.call_later(0.0005, look)

        look()

    return at_s, begin


def _strike(fault: str, for_s: float | None, world: ClusterWorld) -> None:
    world.injector._strike(Step(0.0, kinds.parse(fault), for_s))


def _others_restart_without(world: ClusterWorld) -> None:
    """n3 is cut off, and the two others are started again at once."""
    for fault, for_s in (("cut n3 | n1 n2", 6.0), ("fast_restart n1", None), ("fast_restart n2", None)):
        world.loop.call_soon(partial(_strike, fault, for_s, world))


_AGAIN_AND_AGAIN = "; ".join([f"at {at}s fast_restart n2" for at in (3, 5, 7, 9, 11, 13, 15, 17)])
_TOPICS = tuple([f"t/{number}" for number in range(12)])
_ELSEWHERE = {"n2": client("c0", _TOPICS, version=5), "n1": writer("w0", IDLE_S, _TOPICS)}

_OWN = (
    _scenario("away", "a node with a session that lasts is cut off, and starts anew when it is back",
           "at 3s cut n3 | n1 n2 for 13s; at 14s fast_restart n3", {"n3": reader(), "n1": writer()}),
    _scenario("witness-restarts", "who owes something to a node that is away is started again",
           "at 4s cut n3 | n1 n2 for 13s; at 8s fast_restart n1; at 11s fast_restart n2",
           {"n3": reader(), "n1": writer(), "n2": writer("w1")}),
    _scenario("writer-cut-off", "the node of a writer is cut off, and its connection stays",
           "at 4s cut n3 | n1 n2 for 5s; at 13s cut n3 | n1 n2 for 4s", {"n1": reader(), "n3": writer(pace_s=0.1)}),
    _scenario("reader-restarts", "the node of a session that lasts is killed again and again", _AGAIN_AND_AGAIN,
           {"n2": reader(), "n1": writer(pace_s=0.02)}),
    _scenario("handshakes", "both nodes of a QoS 2 message are started again before it is acknowledged",
           "at 4s one_way_cut n2 n1 for 2.5s; at 5s fast_restart n2; at 5.8s fast_restart n1; "
           "at 11s one_way_cut n2 n1 for 2.5s; at 12s fast_restart n1; at 13s fast_restart n2",
           {"n2": reader(), "n1": writer()}, qos=2),
    _scenario("forgotten-elsewhere", "subscriptions come and go while a node is away",
           "at 4s cut n3 | n1 n2 for 9s", _ELSEWHERE,
           tuple([leaves_topic(5.0 + number * 0.3, "c0", topic) for number, topic in enumerate(_TOPICS)])),
    _scenario("retained-elsewhere",
           "a message is retained on a node that is just cut off; a subscriber comes elsewhere",
           "at 7.9s cut n1 | n2 n3 for 8s",
           {"n2": client("c0", ("r/0",), version=5), "n1": writer("w0", IDLE_S, ("r/0",))},
           (leaves_topic(4.0, "c0", "r/0"), retains(8.0, "w0", "r/0"), wants_topic(12.0, "c0", "r/0"))),
    _scenario("known-by-two", "who is told of a subscription is killed at that moment, and its writer is cut off",
           "at 3.9s disk_stall n1 for 1.2s; at 3.9s disk_stall n2 for 1.2s",
           {"n3": reader(), "n1": writer("w0", 0.2), "n2": writer("w1", 0.2)},
           (leaves_topic(2.0), at_suback(3.0, "c0", _others_restart_without), wants_topic(4.0), publishes(4.5))),
    _scenario("log-in-doubt", "who has agreed on a view is killed at that moment, and who has applied it is cut off",
           "at 4s fast_restart n2; at 12s fast_restart n2", {"n3": reader(), "n1": writer("w0", 0.2)},
           (at_view(4.0, "n3", _others_restart_without), at_view(12.0, "n3", _others_restart_without))),
)  # fmt: skip

SCENARIOS: dict[str, ClusterBug] = {
    **{name: replace(bug, apply=_unchanged) for name, bug in CLUSTER_BUGS.items()},
    **{scenario.name: scenario for scenario in _OWN},
}
"""Every stage by its name."""
