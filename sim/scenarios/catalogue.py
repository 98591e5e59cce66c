"""All scenarios: those of the planted bugs, without the bug, and more.

Seeds reach unforeseen states. A scenario is for a known state that seeds rarely reach.
"""

from __future__ import annotations

from functools import partial

from ..faults.kinds import parse
from ..faults.schedule import Step
from ..planted_bugs.cluster_bugs import CLUSTER_BUGS
from ..simulation import ClusterSimulation
from .scenario import Scenario
from .script import (
    IDLE_S,
    at_suback,
    at_view,
    busy_follower,
    client,
    leaves,
    leaves_topic,
    publishes,
    reader,
    retains,
    rots,
    wants_topic,
    writer,
)


def _inject(fault: str, for_s: float | None, simulation: ClusterSimulation) -> None:
    simulation.injector.inject(Step(0.0, parse(fault), for_s))


def _others_restart_without(simulation: ClusterSimulation) -> None:
    """Cut n3 off, and restart the two other nodes at the same time."""
    for fault, for_s in (("cut n3 | n1 n2", 6.0), ("fast_restart n1", None), ("fast_restart n2", None)):
        simulation.world.loop.call_soon(partial(_inject, fault, for_s, simulation))


_AGAIN_AND_AGAIN = "; ".join([f"at {at}s fast_restart n2" for at in (3, 5, 7, 9, 11, 13, 15, 17)])
_TOPICS = tuple([f"t/{number}" for number in range(12)])
_ELSEWHERE = {"n2": client("c0", _TOPICS, version=5), "n1": writer("w0", IDLE_S, _TOPICS)}

_CHATTER = {
    f"n{node}.{each.name}": each
    for node in (1, 2, 3)
    for each in (writer(f"w{node}", 0.01), reader(f"c{node}"), reader(f"d{node}"))
}

_OWN = (
    Scenario("away", "a node with a persistent session is cut off, and restarts near the end of the cut",
           "at 3s cut n3 | n1 n2 for 13s; at 14s fast_restart n3", {"n3": reader(), "n1": writer()}),
    Scenario("witness-restarts", "nodes with messages for a node that is away are restarted",
           "at 4s cut n3 | n1 n2 for 13s; at 8s fast_restart n1; at 11s fast_restart n2",
           {"n3": reader(), "n1": writer(), "n2": writer("w1")}),
    Scenario("writer-cut-off", "the node of a writer is cut off while the writer stays connected",
           "at 4s cut n3 | n1 n2 for 5s; at 13s cut n3 | n1 n2 for 4s", {"n1": reader(), "n3": writer(pace_s=0.1)}),
    Scenario("reader-restarts", "the node of a persistent session is killed again and again", _AGAIN_AND_AGAIN,
           {"n2": reader(), "n1": writer(pace_s=0.02)}),
    Scenario("handshakes", "both nodes of a QoS 2 message are restarted before it is acknowledged",
           "at 4s one_way_cut n2 n1 for 2.5s; at 5s fast_restart n2; at 5.8s fast_restart n1; "
           "at 11s one_way_cut n2 n1 for 2.5s; at 12s fast_restart n1; at 13s fast_restart n2",
           {"n2": reader(), "n1": writer()}, qos=2),
    Scenario("forgotten-elsewhere", "a client unsubscribes from many topics while a node is cut off",
           "at 4s cut n3 | n1 n2 for 9s", _ELSEWHERE,
           tuple([leaves_topic(5.0 + number * 0.3, "c0", topic) for number, topic in enumerate(_TOPICS)])),
    Scenario("retained-elsewhere",
           "a node retains a message right after it is cut off; a client subscribes at another node",
           "at 7.9s cut n1 | n2 n3 for 8s",
           {"n2": client("c0", ("r/0",), version=5), "n1": writer("w0", IDLE_S, ("r/0",))},
           (leaves_topic(4.0, "c0", "r/0"), retains(8.0, "w0", "r/0"), wants_topic(12.0, "c0", "r/0"))),
    Scenario("known-by-two", "nodes that get a new route are killed at once, and the subscriber's node is cut off",
           "at 3.9s disk_stall n1 for 1.2s; at 3.9s disk_stall n2 for 1.2s",
           {"n3": reader(), "n1": writer("w0", 0.2), "n2": writer("w1", 0.2)},
           (leaves_topic(2.0), at_suback(3.0, "c0", _others_restart_without), wants_topic(4.0), publishes(4.5))),
    Scenario("log-in-doubt", "nodes that agreed on a view are killed at once, and the node that applied it is cut off",
           "at 4s fast_restart n2; at 12s fast_restart n2", {"n3": reader(), "n1": writer("w0", 0.2)},
           (at_view(4.0, "n3", _others_restart_without), at_view(12.0, "n3", _others_restart_without))),
    Scenario("rotten-copies", "disks lose and change rows of copies, and nobody reads them",
           clients={"n2": reader(), "n3": reader("c1"), "n1": writer(pace_s=0.2)},
           acts=(leaves(6.0, "c1"), rots(9.0, "n1"), rots(9.0, "n2"), rots(9.0, "n3")), kinds=(),
           options={"queue_replicas": 2, "queue_check_interval_s": 10}),
    Scenario("chatter", "messages go between all nodes all the time, also around a kill, a cut and a pause",
           "at 5s fast_restart n2; at 9s cut n3 | n1 n2 for 4s; at 15s pause n1 0.5s", _CHATTER),
    Scenario("busy-follower", "the disk of a follower becomes slow: with --variant copies another one takes its place",
           clients={"n2": reader(), "n1": writer()}, acts=(busy_follower(3.0, 15.0),), kinds=()),
)  # fmt: skip

SCENARIOS: dict[str, Scenario] = {
    **CLUSTER_BUGS,
    **{scenario.name: scenario for scenario in _OWN},
}
"""Every scenario by its name."""
