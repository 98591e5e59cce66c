"""The parts of scenarios: a few clients at chosen nodes, and their acts at chosen times.

A node with one subscriber for a topic gets every message on it, and matches again for all its subscribers. So an extra
subscriber can hide that the publisher's node lacks a route.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from ...cluster.identity import slot_of
from ...storage.keys import SLOT_KINDS
from ..cluster_plan import ClusterPlan
from ..faults.rare import DiskTrouble
from ..faults.schedule import Step
from ..history import Subscribed
from ..machines import move_slot
from ..simulation import ClusterSimulation
from ..workload.roaming_client import RoamingClient
from ..workload.swarm import WATCHER, WILL_FILTER, ClientSpec

Act = tuple[float, Callable[[ClusterSimulation], None]]
"""Seconds after the begin of the faults, and the function to call then."""

IDLE_S = 1e6
"""The pace of a client that performs only the acts of the script."""
TOPIC = "t/0"


def client(
    name: str, filters: tuple[str, ...] = (), topics: tuple[str, ...] = (), pace_s: float = IDLE_S, clean: bool = False,
    version: int = 4, qos: int = 1,
) -> ClientSpec:  # fmt: skip
    """Returns a client that stays connected, publishes on `topics` every `pace_s` seconds, subscribes with `qos`."""
    wanted = tuple([(each, qos) for each in filters])
    return ClientSpec(
        name, version, 0 if clean else None, not clean, bool(topics), topics, wanted, None, 100, 0.0, pace_s, False
    )  # fmt: skip


def reader(name: str = "c0", clean: bool = False) -> ClientSpec:
    """Returns a client that subscribes to `TOPIC`."""
    return client(name, (TOPIC,), clean=clean, version=5)


def writer(name: str = "w0", pace_s: float = 0.05, topics: tuple[str, ...] = (TOPIC,)) -> ClientSpec:
    """Returns a client that publishes every `pace_s` seconds."""
    return client(name, topics=topics, pace_s=pace_s)


def member(name: str) -> ClientSpec:
    """Returns a member of the shared group `g` of `TOPIC`, with a session that never ends."""
    return client(name, (f"$share/g/{TOPIC}",), version=5, qos=2)


def busy_follower(at_s: float, for_s: float, name: str = "c0") -> Act:
    """Returns an act: the disk of the node that follows the slot of a client becomes busy. Without copies it is that of
    the last node."""
    return at_s, partial(_make_follower_busy, name, for_s)


def _make_follower_busy(name: str, for_s: float, simulation: ClusterSimulation) -> None:
    tables = [each.member.slots for each in simulation.world.machines.values() if each.member is not None]
    row = max(tables, key=lambda table: table.index).row(slot_of("", name))
    followers = [holder.node for holder in row.in_sync if holder != row.primary]
    node = next(iter(followers), simulation.world.plan.nodes[-1])
    simulation.injector.inject(Step(0.0, DiskTrouble("disk_busy", node), for_s))


def with_script(
    plan: ClusterPlan, clients: dict[str, ClientSpec], policy: str = "majority", qos: int = 1
) -> ClusterPlan:
    """Returns the plan with only these clients, and with `policy` for all operations during a netsplit.

    The key of a client is its node, with a dot and a suffix if several are at one node. All publish with `qos`.
    """
    homes = {each.name: place.partition(".")[0] for place, each in clients.items()}
    watcher = ClientSpec(WATCHER, 5, None, True, False, (), ((WILL_FILTER, 2),), None, 100, 0.0, IDLE_S, False)
    homes[WATCHER] = plan.nodes[0]
    swarm = plan.swarm
    options = msgspec.structs.replace(swarm.options, **_PLAIN, **dict.fromkeys(_FLAGS, policy))
    scripted_swarm = replace(
        swarm,
        clients=(watcher, *clients.values()),
        features=frozenset({f"qos{qos}"}),
        options=options,
        delay_s=(0.001, 0.01),
    )
    return replace(
        plan, swarm=scripted_swarm, homes=homes, roaming=frozenset(), late=(), restart_all=False, placed=True
    )


_FLAGS = tuple([f"allow_{each}_during_netsplit" for each in ("register", "publish", "subscribe", "unsubscribe")])
_PLAIN: dict[str, Any] = {
    "queue_type": "fifo", "max_inflight_messages": 20, "receive_max_broker": 65535, "persistent_client_expiration_s": 0,
    "memory_window": 256, "pause_reading_bytes": 16 << 20, "out_buffer_bytes": 1 << 20, "retry_interval_s": 20,
}  # fmt: skip


# -- acts of clients


def leaves_topic(at_s: float, name: str = "c0", topic: str = TOPIC) -> Act:
    """Returns an act: the client unsubscribes from a topic."""
    return at_s, lambda simulation: _named(simulation, name).unsubscribe(topic)


def wants_topic(at_s: float, name: str = "c0", topic: str = TOPIC) -> Act:
    """Returns an act: the client subscribes to a topic again."""
    return at_s, partial(_subscribe, name, topic)


def publishes(at_s: float, name: str = "w0", topic: str = TOPIC) -> Act:
    """Returns an act: the client publishes once."""
    return at_s, partial(_publish, name, topic)


def retains(at_s: float, name: str, topic: str) -> Act:
    """Returns an act: the client publishes a retained message."""
    return at_s, partial(_publish, name, topic, retain=True)


def moves(at_s: float, node: str, name: str = "w0") -> Act:
    """Returns an act: the client connects to another node."""
    return at_s, partial(_move, name, node)


def leaves(at_s: float, name: str = "c0") -> Act:
    """Returns an act: the client closes its connection, and stays away until it moves."""
    return at_s, partial(_leave, name)


def slot_moves(at_s: float, node: str, name: str = "c0") -> Act:
    """Returns an act: an operator moves the slot of a client to another node."""

    def begin(simulation: ClusterSimulation) -> None:
        move_slot(simulation.world.machines, slot_of("", name), node)

    return at_s, begin


def rots(at_s: float, node: str) -> Act:
    """Returns an act: of each slot that a node has in sync from its primary, its disk loses one row, changes another
    one, and has one that nobody wrote. No read reports an error."""

    def rot(simulation: ClusterSimulation) -> None:
        machine, history = simulation.world.machines[node], simulation.world.history
        assert machine.member is not None
        for row in machine.member.slots.rows:
            copied = row.primary is not None and row.primary.node != node
            if not copied or machine.member.own_holder not in row.in_sync:
                continue
            disk = machine.messages.disk
            found = [key for key in sorted(disk.content()) if key[0] in SLOT_KINDS and key[1] == row.slot]
            if len(found) > 1:
                disk.rot(found[0], None)
                disk.rot(found[-1], b"rotten")
                disk.rot(found[-1] + b"\x00", b"never written")
                history.rotten += 1
                history.trace("FAULT", f"the copy of slot {row.slot} at {node} has wrong rows")

    return at_s, rot


def one_by_one(begin_s: float, name: str, writers: tuple[str, ...], topics: tuple[str, ...]) -> tuple[Act, ...]:
    """Returns acts: the client unsubscribes from all topics early. Then it subscribes to one after the other, and after
    each SUBSCRIBE one of the writers publishes on the topic."""
    acts = [leaves_topic(2.0, name, topic) for topic in topics]
    for number, topic in enumerate(topics):
        at_s = begin_s + number * EVERY_S
        acts.append(wants_topic(at_s, name, topic))
        acts.append(publishes(at_s + 2 * EVERY_S, writers[number % len(writers)], topic))
    return tuple(acts)


def at_suback(at_s: float, name: str, then: Callable[[ClusterSimulation], None]) -> Act:
    """Returns an act: call `then` at the client's first SUBACK after `at_s`."""

    def listen(simulation: ClusterSimulation) -> None:
        found = _named(simulation, name)

        def granted(_: Subscribed) -> None:
            found.on_granted = None
            then(simulation)

        found.on_granted = granted

    return at_s, listen


def at_view(at_s: float, node: str, then: Callable[[ClusterSimulation], None]) -> Act:
    """Returns an act: call `then` when the node has applied a new view after `at_s`."""

    def begin(simulation: ClusterSimulation) -> None:
        machine = simulation.world.machines[node]
        before = machine.member.view.id if machine.member is not None else 0

        def look() -> None:
            if machine.member is not None and machine.member.view.id > before:
                then(simulation)
            else:
                simulation.world.loop.call_later(0.0005, look)

        look()

    return at_s, begin


EVERY_S = 0.3
"""The time between the acts of `one_by_one`, in seconds."""


def _named(simulation: ClusterSimulation, name: str) -> RoamingClient:
    return next(each for each in simulation.world.clients if each.name == name)


def _subscribe(name: str, topic: str, simulation: ClusterSimulation) -> None:
    found = _named(simulation, name)
    if found.connected:
        found.subscribe([topic])


def _publish(name: str, topic: str, simulation: ClusterSimulation, retain: bool = False) -> None:
    found = _named(simulation, name)
    if found.connected:
        found.sender.publish(topic, 1, retain)


def _leave(name: str, simulation: ClusterSimulation) -> None:
    found = _named(simulation, name)
    found.wanted = False
    found.lose()


def _move(name: str, node: str, simulation: ClusterSimulation) -> None:
    found = _named(simulation, name)
    found.lose()
    found.host = simulation.world.machines[node]
    found.connect(found.spec.expiry_s == 0)
