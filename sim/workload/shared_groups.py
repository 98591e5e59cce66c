"""Clients for shared subscriptions: groups on all nodes, with changing members.

Seeds usually draw no shared messages, or a group of two constant members. Here clients publish only to one or two
groups. Some members stay, some unsubscribe at times, some have clean sessions or sessions that expire. The plan of the
seed decides the rest: faults, clocks, network, disks, and in some seeds the policies.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from ...broker.options import Options
from ...netsplit.policy import OPERATIONS
from ..cluster_plan import ClusterPlan
from .swarm import SHARED_TOPICS, WATCHER, WILL_FILTER, ClientSpec

GROUPS = ("$share/g/s/#", "$share/h/s/+")

FEATURES = {
    "qos1": 0.7, "qos0": 0.3, "expiry": 0.4, "session_expiry": 0.6, "slow": 0.4, "takeover": 0.3, "clean_start": 0.4,
    "abandon": 0.3, "small_window": 0.4, "small_memory": 0.4, "large": 0.2,
}  # fmt: skip
"""Feature -> the share of seeds that have it. All seeds have those of `ALWAYS`."""
ALWAYS = frozenset({"qos2", "shared", "subscribing", "breaks", "polite"})


def with_groups(plan: ClusterPlan) -> ClusterPlan:
    """Returns the plan of a seed with these clients instead of its own."""
    swarm = plan.swarm
    rng = Random(f"groups/{len(plan.nodes)}/{swarm.seed}")
    features = ALWAYS | {name for name, share in FEATURES.items() if rng.random() < share}
    groups = GROUPS[: rng.choice((1, 2))]
    clients = [ClientSpec(WATCHER, 5, None, True, False, (), ((WILL_FILTER, 2),), None, 100, 0.0, 1.0, False)]
    clients += [_writer(rng, f"w{number}") for number in range(rng.randint(1, 3))]
    clients += [_member(rng, features, f"g{number}", rng.choice(groups)) for number in range(rng.randint(2, 6))]
    options = _options(rng, features, swarm.options)
    homes = {client.name: rng.choice(plan.nodes) for client in clients}
    swarm = replace(swarm, clients=tuple(clients), features=features, options=options)
    return replace(plan, swarm=swarm, homes=homes, roaming=frozenset())


def _writer(rng: Random, name: str) -> ClientSpec:
    """Returns a writer whose session never ends, so that QoS 2 handshakes continue after faults."""
    version, pace_s = rng.choice((4, 5, 5)), rng.choice((0.1, 0.3, 0.6))
    return ClientSpec(name, version, None, True, True, SHARED_TOPICS, (), None, 100, 0.0, pace_s, False)


def _member(rng: Random, features: frozenset[str], name: str, group: str) -> ClientSpec:
    kind = rng.choice(("steady", "lasting", "lasting", "clean", "expiring"))
    version, expiry_s = rng.choice((4, 5, 5)), 0 if kind == "clean" else None
    if kind == "expiring":
        version, expiry_s = 5, rng.choice((1, 2, 6))
    window = rng.choice((1, 2, 4)) if "small_window" in features else 100
    ack_delay_s = rng.choice((0.0, 0.05, 0.3, 1.0)) if "slow" in features else 0.0
    abandons = "abandon" in features and kind in ("lasting", "expiring") and rng.random() < 0.3
    wanted = ((group, rng.choice((1, 2, 2, 2))),)
    pace_s = rng.choice((0.2, 0.4, 1.0))
    return ClientSpec(
        name, version, expiry_s, kind == "steady", False, (), wanted, None, window, ack_delay_s, pace_s, abandons
    )


def _options(rng: Random, features: frozenset[str], options: Options) -> Options:
    changes: dict[str, Any] = {
        "max_inflight_messages": rng.choice((1, 2, 20)) if "small_window" in features else 20,
        "receive_max_broker": 65535,
        "persistent_client_expiration_s": rng.choice((0, 0, 4, 10)) if "session_expiry" in features else 0,
        "queue_type": "fifo",
        "memory_window": rng.choice((1, 2, 4)) if "small_memory" in features else 256,
        "shared_subscription_policy": rng.choice(("prefer_local", "random", "random", "prefer_online_before_local")),
    }
    if rng.random() < 0.6:  # checkers judge few messages that were accepted without a lease
        changes |= {f"allow_{operation}_during_netsplit": "majority" for operation in OPERATIONS}
    return msgspec.structs.replace(options, **changes)
