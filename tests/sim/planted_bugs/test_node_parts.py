"""Planted parts of a node: each changes one decision of its original."""

from __future__ import annotations

import inspect

from strogoff.broker.connection.connection import ClientConnection
from strogoff.broker.node import Node
from strogoff.broker.queues.durable_queue import DurableQueue
from strogoff.broker.sessions.session import Session
from strogoff.cluster.clock import ClusterClock
from strogoff.sim.planted_bugs import node_parts
from strogoff.sim.planted_bugs.node_bugs import NODE_BUGS
from strogoff.sim.planted_bugs.node_parts import AlteringSlots

from ..histories import make_host


def test_every_planted_class_is_used_and_can_stand_for_its_original() -> None:
    """An object can get the class only if the class adds no fields."""
    used = inspect.getsource(inspect.getmodule(NODE_BUGS["wall-clock"].apply))  # type: ignore[arg-type]
    for name, kind in vars(node_parts).items():
        if inspect.isclass(kind) and kind.__module__ == node_parts.__name__:
            assert f"node_parts.{name}" in used, name
            if issubclass(kind, DurableQueue | Session | ClientConnection | ClusterClock):
                assert kind.__dict__["__slots__"] == (), name


def test_a_node_without_a_plant_has_nothing_planted() -> None:
    _, host, _ = make_host()
    node = host.start()
    assert type(node.sessions) is not AlteringSlots and type(node.env.clock) is ClusterClock


def test_a_plant_is_in_before_the_disk_is_opened() -> None:
    _, host, _ = make_host()
    seen: list[Node] = []

    def apply(node: Node) -> None:
        NODE_BUGS["inbound-lost"].apply(node)
        seen.append(node)

    host.on_node = apply
    node = host.start()
    assert seen == [node] and type(node.sessions) is AlteringSlots
