"""The plan of a seed for several nodes: clocks, network, policies, nodes of clients, and a schedule of faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from random import Random
from typing import Any

import msgspec

from ..cluster.ports import Settings
from ..netsplit.policy import FLAGS, OPERATIONS
from ..storage.engine import Durability
from .faults import rare
from .faults.kinds import ClockJump, Cut, Delay, Fault, Freeze, Loss, OneWay, PairCut, Pause, parse
from .faults.schedule import FaultSchedule, Step
from .workload.swarm import Swarm, draw

STOP = "stop"
"""An orderly stop, and a start a little later. It is not a fault, so `faults.kinds` does not have it."""

KINDS = {
    "kill": 0.6, "power_loss": 0.4, "fast_restart": 0.5, "pause": 0.5, "vm_freeze": 0.3, "cut": 0.6, "pair_cut": 0.4,
    "one_way_cut": 0.3, "delay": 0.3, "loss": 0.3, "disk_stall": 0.4, "disk_full": 0.2, "disk_lost": 0.2,
    "backup_restored": 0.15, "clock_jump": 0.3, STOP: 0.3,
}  # fmt: skip
"""Kind of fault -> the share of seeds in which it happens."""

ALL = "all"
"""A word among the chosen kinds: the seed also draws kinds of `KINDS`."""

_AT_ONE_NODE = {
    "disk_stall": "stall", "disk_full": "full", "raft_full": "full", "raft_stall": "stall", "volume_full": "full",
    "volume_stall": "stall", "volume_slow": "stall", "disk_busy": "stall",
    "write_fails": "stall",
}  # fmt: skip
"""Kind of fault -> the name that the checkers use for it, if it delays a commit."""

USUAL = Settings()
"""The settings of members, unless the seed makes their limits small."""

YEAR_MS = 365 * 86400 * 1000


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Everything that a seed decides for several nodes before the simulation begins.

    `rates` are the speeds of the machines' clocks, `network_delay_s` the range of a message's delay. `late` has (time,
    name) of nodes that join while faults happen. `homes` maps clients to their nodes; clients in `roaming` choose a
    node for each connection. `stops` are (time, node) of orderly stops.

    The rest belongs to `variants`. `settings`: those of members. `log_dots`: the number of writes in the log of
    metadata. `sync_ms`: the interval at which nodes compare metadata. For both 0 means the default. `bytes_per_s`: the
    bandwidth of a link. `departure`: (time, node) of a node that an operator removes. `twin`: (time, node) of a
    stranger that joins with the name of the node. `publish_at_suback`: clients publish as soon as a SUBACK arrives.
    """

    swarm: Swarm
    nodes: tuple[str, ...]
    rates: tuple[float, ...]
    network_delay_s: tuple[float, float]
    late: tuple[tuple[float, str], ...]
    homes: dict[str, str]
    roaming: frozenset[str]
    schedule: FaultSchedule
    stops: tuple[tuple[float, str], ...]
    restart_all: bool
    settings: Settings = USUAL
    log_dots: int = 0
    sync_ms: int = 0
    bytes_per_s: float = inf
    departure: tuple[float, str] | None = None
    twin: tuple[float, str] | None = None
    publish_at_suback: bool = False
    slow_data: tuple[tuple[str, str, float], ...] = ()
    """Two nodes, and the extra delay of data between them, in seconds."""
    placed: bool = False
    """The session of each client is at its home, as far as two clients do not share a slot."""
    slot_moves: tuple[tuple[float, str, str], ...] = ()
    """(time, client, node): an operator moves the slot of the client to the node."""
    disks: int = 1
    """How many disks may be lost, as long as the others have the log."""
    relay: bool = False
    """Each client chooses a node for each connection, and relayed connections have little credit (`sim/relay.py`)."""


def plan(
    seed: int,
    nodes: int,
    durability: Durability | None = None,
    seconds: float = 20.0,
    kinds: tuple[str, ...] | None = None,
) -> ClusterPlan:
    """Returns the plan of a seed. `kinds` are the kinds of faults. With None, or with `ALL` among them, the seed draws
    kinds of `KINDS`."""
    rng = Random(f"fleet/{nodes}/{seed}")
    swarm = draw(seed, durability, seconds)
    names = tuple([f"n{number}" for number in range(1, nodes + 1)])
    chosen = tuple([kind for kind, share in KINDS.items() if rng.random() < share])
    if kinds is not None:
        usual = [kind for kind in KINDS if kind in kinds or (ALL in kinds and kind in chosen)]
        chosen = (*usual, *[kind for kind in rare.RARE if kind in kinds])
    if swarm.durability == "os" and rng.random() < 0.7:
        chosen = tuple([kind for kind in chosen if kind != "power_loss"])
    policies = {f"allow_{operation}_during_netsplit": flag for operation, flag in _policies(rng).items()}
    swarm = replace(
        swarm,
        features=swarm.features - {"limits"},
        faults=tuple([_AT_ONE_NODE.get(kind, kind) for kind in chosen]),
        options=msgspec.structs.replace(swarm.options, **_LIMITS, **_shared(swarm), **policies),
    )
    homes = {client.name: rng.choice(names) for client in swarm.clients}
    clean = [client.name for client in swarm.clients if client.expiry_s == 0 and not client.steady]
    late = tuple([(1.0 + rng.random() * 6.0, name) for name in names[1:] if rng.random() < 0.5])
    spread = rng.choice((0.0001, 0.0001, 0.01, 0.04))
    steps, stops = _steps(rng, names, chosen, seconds)
    return ClusterPlan(
        swarm,
        names,
        tuple([1.0 + rng.uniform(-spread, spread) for _ in names]),
        rng.choice(((0.0001, 0.001), (0.0005, 0.01), (0.005, 0.08))),
        late if rng.random() < 0.25 else (),
        homes,
        frozenset(clean) if rng.random() < 0.5 else frozenset(),
        steps,
        stops,
        rng.random() < 0.4,
    )


_LIMITS: dict[str, Any] = {"max_online_messages": 1000, "max_offline_messages": 1000}


def _shared(swarm: Swarm) -> dict[str, Any]:
    """Returns the policy of shared subscriptions, with `random` for `local_only`: that policy delivers a message to no
    client if the node has no member."""
    policy = swarm.options.shared_subscription_policy
    return {"shared_subscription_policy": "random" if policy == "local_only" else policy}


def _policies(rng: Random) -> dict[str, str]:
    mood = rng.random()
    if mood < 0.5:
        flag = rng.choice(FLAGS)
        return dict.fromkeys(OPERATIONS, flag)
    return {operation: rng.choice(FLAGS) for operation in OPERATIONS}


def _steps(
    rng: Random, names: tuple[str, ...], kinds: tuple[str, ...], seconds: float
) -> tuple[FaultSchedule, tuple[tuple[float, str], ...]]:
    steps: list[Step] = []
    stops: list[tuple[float, str]] = []
    if not kinds:
        return FaultSchedule(), ()
    for _ in range(rng.randint(2, 7)):
        kind = rng.choice(kinds)
        at_s = round(0.5 + rng.random() * (seconds - 1.0), 3)
        if kind == STOP:
            stops.append((at_s, rng.choice(names)))
        elif len(names) > 1 or kind not in _PAIRS:
            steps.append(_step(rng, names, kind, at_s))
            if kind in rare.OF_RAFT:
                steps.append(Step(round(at_s + rng.random() * 2.0, 3), rare.shake(rng, names)))
    steps.sort(key=lambda step: step.at_s)
    return FaultSchedule(tuple(steps)), tuple(sorted(stops))


_PAIRS = ("cut", "pair_cut", "one_way_cut", "delay", "loss")


def _step(rng: Random, names: tuple[str, ...], kind: str, at_s: float) -> Step:
    lengths = rare.LENGTHS_S if kind in rare.OF_RAFT else (0.3, 1.5, 3.0, 6.0, 10.0)
    for_s = round(rng.choice(lengths) * (0.7 + 0.6 * rng.random()), 3)
    return Step(at_s, _fault(rng, names, kind, for_s), None if kind in (*_MOMENTS, *rare.MOMENTS) else for_s)


_MOMENTS = ("kill", "power_loss", "fast_restart", "disk_lost", "backup_restored", "pause", "vm_freeze", "clock_jump")


def _fault(rng: Random, names: tuple[str, ...], kind: str, for_s: float) -> Fault:
    node = rng.choice(names)
    if kind in _PAIRS:
        order = rng.sample(names, len(names))
        size = rng.randint(1, len(names) - 1)
        a, b = order[0], order[1]
        pairs: dict[str, Callable[[], Fault]] = {
            "cut": lambda: Cut((tuple(sorted(order[:size])), tuple(sorted(order[size:])))),
            "pair_cut": lambda: PairCut(a, b),
            "one_way_cut": lambda: OneWay(a, b),
            "delay": lambda: Delay(a, b, rng.choice((50, 200, 600, 1200))),
            "loss": lambda: Loss(a, b, rng.choice((0.02, 0.1, 0.5))),
        }
        return pairs[kind]()
    if kind in rare.RARE:
        return rare.draw(rng, kind, node, for_s)
    if kind == "pause":
        return Pause(node, for_s)
    if kind == "vm_freeze":
        return Freeze(node, for_s)
    if kind == "clock_jump":
        return ClockJump(node, rng.choice((YEAR_MS, -YEAR_MS, 60_000, -60_000, 700, -700)))
    return parse(f"{kind} {node}")
