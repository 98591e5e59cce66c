"""Clients whose routes change often: writers on topics in use, readers that subscribe and unsubscribe at other nodes.

Every node has at most one reader, so only the reader's route brings messages to its node. A SUBACK promises every later
message, so other clients publish right after it (`ClusterPlan.publish_at_suback`).
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from ...netsplit.policy import OPERATIONS
from ..cluster_plan import ClusterPlan
from .swarm import TOPICS, WATCHER, WILL_FILTER, ClientSpec

FILTERS = ("t/0", "t/1", "t/2", "t/+", "t/#", "+/0", "#")


def with_changing_routes(plan: ClusterPlan) -> ClusterPlan:
    """Returns the plan of a seed with these clients instead of its own."""
    swarm = plan.swarm
    rng = Random(f"changing/{len(plan.nodes)}/{swarm.seed}")
    nodes = rng.sample(plan.nodes, len(plan.nodes))
    homes = {WATCHER: nodes[0]}
    clients = [ClientSpec(WATCHER, 5, None, True, False, (), ((WILL_FILTER, 2),), None, 100, 0.0, 1.0, False)]
    for number in range(rng.choice((1, 2))):
        clients.append(_writer(rng, f"w{number}"))
        homes[clients[-1].name] = nodes[number % len(nodes)]
    for number, node in enumerate(nodes[1:] or nodes):
        clients.append(_reader(rng, f"c{number}"))
        homes[clients[-1].name] = node
    shares = {"qos1": 0.8, "qos2": 0.8, "breaks": 0.3, "polite": 0.3}
    features = frozenset({"subscribing"} | {name for name, share in shares.items() if rng.random() < share})
    swarm = replace(
        swarm,
        clients=tuple(clients),
        features=features if features & {"qos1", "qos2"} else features | {"qos1"},
        options=_options(rng, swarm.options),
        delay_s=(0.0005, 0.005),
    )
    return replace(plan, swarm=swarm, homes=homes, roaming=frozenset(), publish_at_suback=True, placed=True)


def _writer(rng: Random, name: str) -> ClientSpec:
    pace_s = rng.choice((0.05, 0.1, 0.2))
    return ClientSpec(name, rng.choice((4, 5)), None, True, True, TOPICS, (), None, 100, 0.0, pace_s, False)


def _reader(rng: Random, name: str) -> ClientSpec:
    wanted = tuple([(each, rng.choice((1, 2))) for each in rng.sample(FILTERS, rng.choice((1, 2)))])
    expiry_s = rng.choice((None, None, 0))
    version = rng.choice((4, 5, 5))
    return ClientSpec(name, version, expiry_s, False, False, (), wanted, None, 100, 0.0, 0.15, False)


def _options(rng: Random, options: Any) -> Any:
    changes: dict[str, Any] = {
        "queue_type": "fifo", "max_inflight_messages": 20, "receive_max_broker": 65535,
        "persistent_client_expiration_s": 0, "retry_interval_s": 20,
    }  # fmt: skip
    if rng.random() < 0.7:  # checkers judge few messages that were accepted without a lease
        changes |= {f"allow_{operation}_during_netsplit": "majority" for operation in OPERATIONS}
    return msgspec.structs.replace(options, **changes)
