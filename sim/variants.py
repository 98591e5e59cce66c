"""Variants of a cluster plan: few subscribers, small limits, little bandwidth, a node that an operator removes, and
others.

Each kind has its own random numbers: the choice of one kind does not change the rest of a seed's plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from random import Random
from types import ModuleType
from typing import Any

import msgspec

from ..broker.clustering import copy_check, late_changes, slot_comparison, slot_filling, slot_leftovers
from ..broker.clustering.slot_comparison import Size
from ..cluster.links.settings import LinkSettings
from ..cluster.membership.settings import Settings as ViewSettings
from ..cluster.ports import Settings
from ..cluster.raft.interface import Settings as RaftSettings
from .cluster_plan import USUAL, ClusterPlan
from .workload.swarm import TOPICS, WATCHER, WILL_FILTER, ClientSpec

SPARSE, SMALL, NARROW, LEAVES, TWIN, SLOW_DATA, MOVES, COPIES, RATE = (
    "sparse", "small", "narrow", "leaves", "twin", "slow-data", "moves", "copies", "rate"
)  # fmt: skip

VARIANTS = {
    SPARSE: 0.5,
    SMALL: 0.35,
    NARROW: 0.2,
    LEAVES: 0.2,
    TWIN: 0.2,
    SLOW_DATA: 0.25,
    COPIES: 0.4,
    MOVES: 0.2,
    RATE: 0,
}
"""Kind of variant -> the share of seeds that have it, unless it is asked for. They are applied in this order.

* sparse: no client subscribes to everything, so a node gets only the messages for its own subscribers. After each
  SUBACK a client at each other node publishes on a topic of that filter at once.
* small: all limits are small (`limits`).
* narrow: links have little bandwidth.
* leaves: an operator removes one node from the cluster, and lets it join again with an empty disk.
* twin: a stranger with its own disk asks to join with the name of a serving node.
* slow-data: between some nodes data takes longer than urgent messages, so that one overtakes the other.
* moves: an operator moves slots with the sessions of clients from node to node.
* copies: each slot has a copy on another node, slots with sessions move to their places by themselves, and up to two
  disks may be lost. In a third of these seeds a slot with one copy accepts nothing new.
* rate: nodes handle few packets of a client in a second. Clients publish more than that, and disconnect behind it.
"""

LOG_DOTS = (4, 12, 50)
"""Numbers of writes in the log of metadata with small limits; the seed chooses one of them."""
SYNC_MS = 1000
"""The interval at which nodes compare their metadata with small limits, in milliseconds."""


def vary(plan: ClusterPlan, kinds: tuple[str, ...] | None = None) -> ClusterPlan:
    """Returns the plan of a seed with its variants. With `kinds` None the seed chooses the variants."""
    for kind, share in VARIANTS.items():
        rng = Random(f"world/{kind}/{len(plan.nodes)}/{plan.swarm.seed}")
        drawn = rng.random() < share
        if drawn if kinds is None else kind in kinds:
            plan = _CHANGES[kind](plan, rng)
    return plan


def limits(rng: Random) -> Settings:
    """Settings with which snapshots, full windows, shortened logs and members that were away too long are common."""
    return Settings(
        raft=RaftSettings(snapshot_every=5, tail=rng.choice((0, 2, 5))),
        views=ViewSettings(away_ms=1000, forget_after_ms=rng.choice((2000, 6000, 20_000))),
        links=LinkSettings(
            publish_window_bytes=1024,
            append_window_bytes=1024,
            replica_window_bytes=1024,
            gather_bytes=1024,
            flight_units=rng.choice((1, 50, 4000)),
            buffer_bytes=4096,
            ahead_bytes=1,
            behind_bytes=100,
            piece_bytes=rng.choice((100, 400, 256 << 10)),
        ),
    )


def _sparse(plan: ClusterPlan, rng: Random) -> ClusterPlan:
    clients = tuple([_narrowed(each, rng) for each in plan.swarm.clients])
    return replace(plan, swarm=replace(plan.swarm, clients=clients), publish_at_suback=True)


def _narrowed(client: ClientSpec, rng: Random) -> ClientSpec:
    """Returns the client with single topics instead of `t/#` and `t/+`. The watcher subscribes only to wills."""
    if client.name == WATCHER:
        return replace(client, filters=((WILL_FILTER, 2),))
    filters = {(rng.choice(TOPICS) if name in ("t/#", "t/+") else name): qos for name, qos in client.filters}
    return replace(client, filters=tuple(filters.items()))


def _small(plan: ClusterPlan, rng: Random) -> ClusterPlan:
    return replace(plan, settings=limits(rng), log_dots=rng.choice(LOG_DOTS), sync_ms=SYNC_MS)


def _narrow(plan: ClusterPlan, rng: Random) -> ClusterPlan:
    return replace(plan, bytes_per_s=rng.choice((20_000.0, 60_000.0, 250_000.0)))


def _leaves(plan: ClusterPlan, rng: Random) -> ClusterPlan:
    if len(plan.nodes) < 3:
        return plan
    at_s = 1.0 + rng.random() * max(plan.swarm.seconds - 2.0, 0.0)
    return replace(plan, departure=(round(at_s, 3), rng.choice(plan.nodes)))


def _twin(plan: ClusterPlan, rng: Random) -> ClusterPlan:
    if plan.departure is not None or plan.settings != USUAL:
        return plan  # a name becomes free when the cluster removes its node or gives it up
    at_s = 1.0 + rng.random() * max(plan.swarm.seconds - 2.0, 0.0)
    return replace(plan, twin=(round(at_s, 3), rng.choice(plan.nodes)))


def _slow_data(plan: ClusterPlan, rng: Random) -> ClusterPlan:
    pairs = combinations(plan.nodes, 2)
    slow = tuple([(a, b, rng.choice((0.01, 0.1, 0.4))) for a, b in pairs if rng.random() < 0.6])
    return replace(plan, slow_data=slow)


def _moves(plan: ClusterPlan, rng: Random) -> ClusterPlan:
    loses_sessions = any(step.fault.word in _DISKS for step in plan.schedule.steps) and not has_copies(plan)
    if plan.departure is not None or loses_sessions:
        return plan  # the checkers would have to know where each session was when a disk was lost
    names = [client.name for client in plan.swarm.clients]
    times = sorted([round(rng.random() * plan.swarm.seconds, 3) for _ in range(rng.randint(1, 8))])
    return replace(plan, slot_moves=tuple([(at_s, rng.choice(names), rng.choice(plan.nodes)) for at_s in times]))


def _copies(plan: ClusterPlan, rng: Random) -> ClusterPlan:
    wait_s = rng.choice((1, 1, 2, 4))  # faults are a second or two apart
    least = rng.choice((1, 1, 2))
    options = msgspec.structs.replace(
        plan.swarm.options,
        queue_replicas=2,
        queue_min_in_sync=least,
        queue_balance_wait_s=wait_s,
        queue_check_interval_s=rng.choice((1, 1, 5)),  # with a day no comparison would begin
    )
    return replace(plan, swarm=replace(plan.swarm, options=options), disks=2)


def _rate(plan: ClusterPlan, rng: Random) -> ClusterPlan:
    options = msgspec.structs.replace(
        plan.swarm.options, max_message_rate=rng.choice((2, 5, 10)), max_parked_publishes=rng.choice((2, 20))
    )
    return replace(plan, swarm=replace(plan.swarm, options=options))


def has_copies(plan: ClusterPlan) -> bool:
    """Whether slots have two copies."""
    return plan.swarm.options.queue_replicas > 1


_SMALL_ITEMS: tuple[tuple[ModuleType, str, Any], ...] = (
    (slot_filling, "SMALL", (100, 100)),
    (slot_filling, "LARGE", (100, 400)),
    (slot_leftovers, "STEP", 5),
    (slot_comparison, "LEVELS", (Size(8, 1000), Size(2, 200))),
    (slot_comparison, "STEP", Size(8, 1000)),
    (copy_check, "ITEM_BYTES", 100),
    (copy_check, "PATIENCE_MS", 0),
    (late_changes, "LATEST_MS", 500.0),
)


@contextmanager
def small_items(plan: ClusterPlan) -> Iterator[None]:
    """While a world with copies and small limits runs, a copy of a slot needs many items, so do its deletion and its
    comparison, and a comparison does not wait for commits. Changes that nobody waits for wait for half a second, so
    that faults strike meanwhile."""
    if not has_copies(plan) or plan.settings == USUAL:
        yield
        return
    before = [getattr(module, name) for module, name, _ in _SMALL_ITEMS]
    for module, name, value in _SMALL_ITEMS:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(_SMALL_ITEMS, before, strict=True):
            setattr(module, name, value)


_DISKS = ("disk_lost", "backup_restored")

_CHANGES: dict[str, Callable[[ClusterPlan, Random], ClusterPlan]] = {
    SPARSE: _sparse,
    SMALL: _small,
    NARROW: _narrow,
    LEAVES: _leaves,
    TWIN: _twin,
    SLOW_DATA: _slow_data,
    MOVES: _moves,
    COPIES: _copies,
    RATE: _rate,
}
