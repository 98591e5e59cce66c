"""A small cast for a planted bug: few clients at chosen nodes, so that nobody else's subscription hides what is lost.

A node that has any subscriber for a topic gets every message on it and matches again, so one reader too many makes up
for a route that was never told. What the seed still decides: clocks, delays, disks, durability and who leads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ..cluster_plan import ClusterPlan
from ..workload.swarm import WATCHER, WILL_FILTER, ClientSpec

if TYPE_CHECKING:
    from ..cluster_world import ClusterWorld

Act = tuple[float, Callable[["ClusterWorld"], None]]
"""Seconds after the faults begin, and what somebody does then."""

IDLE_S = 1e6
"""The pace of who does only what the script says."""
TOPIC = "t/0"


def client(
    name: str, filters: tuple[str, ...] = (), topics: tuple[str, ...] = (), pace_s: float = IDLE_S, clean: bool = False,
    version: int = 4, qos: int = 1,
) -> ClientSpec:  # fmt: skip
    """A client that does not go away by itself. It publishes on one of `topics` at its pace; filters have `qos`."""
    wanted = tuple([(each, qos) for each in filters])
    return ClientSpec(
        name, version, 0 if clean else None, not clean, bool(topics), topics, wanted, None, 100, 0.0, pace_s, False
    )  # fmt: skip


def reader(name: str = "c0", clean: bool = False) -> ClientSpec:
    """It subscribes to the one topic."""
    return client(name, (TOPIC,), clean=clean, version=5)


def writer(name: str = "w0", pace_s: float = 0.05, topics: tuple[str, ...] = (TOPIC,)) -> ClientSpec:
    """It publishes."""
    return client(name, topics=topics, pace_s=pace_s)


def member(name: str) -> ClientSpec:
    """One of the group that shares what it gets; its session lasts."""
    return client(name, (f"$share/g/{TOPIC}",), version=5, qos=2)


def with_script(plan: ClusterPlan, clients: dict[str, ClientSpec], flag: str = "majority", qos: int = 1) -> ClusterPlan:
    """The plan with these clients only, each at the node that is its key up to a dot, and `flag` for all policies.

    What they publish at their pace has this QoS.
    """
    homes = {each.name: place.partition(".")[0] for place, each in clients.items()}
    watcher = ClientSpec(WATCHER, 5, None, True, False, (), ((WILL_FILTER, 2),), None, 100, 0.0, IDLE_S, False)
    homes[WATCHER] = plan.nodes[0]
    swarm = plan.swarm
    options = msgspec.structs.replace(swarm.options, **_PLAIN, **dict.fromkeys(_FLAGS, flag))
    scripted_swarm = replace(
        swarm,
        clients=(watcher, *clients.values()),
        features=frozenset({f"qos{qos}"}),
        options=options,
        delay_s=(0.001, 0.01),
    )
    return replace(plan, swarm=scripted_swarm, homes=homes, roaming=frozenset(), late=(), restart_all=False)


_FLAGS = tuple([f"allow_{each}_during_netsplit" for each in ("register", "publish", "subscribe", "unsubscribe")])
_PLAIN: dict[str, Any] = {
    "queue_type": "fifo", "max_inflight_messages": 20, "receive_max_broker": 65535, "persistent_client_expiration_s": 0,
    "memory_window": 256, "pause_reading_bytes": 16 << 20, "out_buffer_bytes": 1 << 20, "retry_interval_s": 20,
}  # fmt: skip


# -- what is done to clients


def leaves_topic(at_s: float, name: str = "c0", topic: str = TOPIC) -> Act:
    """The client gives a subscription up."""
    return at_s, lambda world: _named(world, name).unsubscribe(topic)


def wants_topic(at_s: float, name: str = "c0", topic: str = TOPIC) -> Act:
    """The client subscribes again."""
    return at_s, partial(_subscribe, name, topic)


def publishes(at_s: float, name: str = "w0", topic: str = TOPIC) -> Act:
    """The client publishes once."""
    return at_s, partial(_publish, name, topic)


def retains(at_s: float, name: str, topic: str) -> Act:
    """The client publishes a retained message once."""
    return at_s, partial(_publish, name, topic, retain=True)


def moves(at_s: float, node: str, name: str = "w0") -> Act:
    """The client connects to another node."""
    return at_s, partial(_move, name, node)


def one_by_one(begin_s: float, name: str, writers: tuple[str, ...], topics: tuple[str, ...]) -> tuple[Act, ...]:
    """The client gives all topics up early; then it wants one after the other, and somebody publishes on each."""
    acts = [leaves_topic(2.0, name, topic) for topic in topics]
    for number, topic in enumerate(topics):
        at_s = begin_s + number * EVERY_S
        acts.append(wants_topic(at_s, name, topic))
        acts.append(publishes(at_s + 2 * EVERY_S, writers[number % len(writers)], topic))
    return tuple(acts)


EVERY_S = 0.3


def _named(world: ClusterWorld, name: str) -> Any:
    return next(each for each in world.clients if each.name == name)


def _subscribe(name: str, topic: str, world: ClusterWorld) -> None:
    found = _named(world, name)
    if found.connected:
        found.subscribe([topic])


def _publish(name: str, topic: str, world: ClusterWorld, retain: bool = False) -> None:
    found = _named(world, name)
    if found.connected:
        found.sender.publish(topic, 1, retain)


def _move(name: str, node: str, world: ClusterWorld) -> None:
    found = _named(world, name)
    found.lose()
    found.host = world.machines[node]
    found.connect(found.spec.expiry_s == 0)
