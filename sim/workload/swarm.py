"""The swarm of one seed: clients, options, features and faults. Each feature and each kind of fault is on or off at
random.

This is swarm testing: a run with only a few kinds of faults and features reaches states that a run with a little of
each never reaches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import count
from random import Random

from ...broker.options import Options
from ...cluster.identity import slot_of
from ...storage.engine import Durability

FEATURES = {
    "qos2": 0.8, "qos1": 0.8, "qos0": 0.4, "shared": 0.3, "retained": 0.3, "wills": 0.6, "expiry": 0.4,
    "session_expiry": 0.5, "slow": 0.3, "takeover": 0.4, "subscribing": 0.4, "clean_start": 0.4, "abandon": 0.3,
    "large": 0.3, "limits": 0.1, "lifo": 0.05, "small_window": 0.5, "small_memory": 0.4, "small_buffers": 0.3,
    "retry": 0.3, "breaks": 0.7, "polite": 0.6, "many": 0.2,
}  # fmt: skip
"""Feature -> the share of seeds that have it."""

FAULTS = {
    "kill": 0.7,
    "power": 0.5,
    "restart": 0.4,
    "stall": 0.4,
    "full": 0.3,
    "wall": 0.3,
    "cut": 0.5,
    "slow_net": 0.3,
}
"""Kind of fault -> the share of seeds in which it happens."""

TOPICS: tuple[str, ...] = ("t/0", "t/1", "t/2")
FILTERS = ("t/0", "t/1", "t/#", "t/+", "#")
RETAINED_TOPICS = ("r/0", "r/1")
SHARED_FILTER = "$share/g/s/#"
SHARED_TOPICS = ("s/0", "s/1")
WILL_FILTER = "w/#"
WATCHER = "watch"
"""The name of the steady client that counts wills."""


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """One model client.

    `expiry_s` is the session's expiry: 0 for a clean session, None for one that never ends. A `steady` client never
    ends its session, so the checkers demand every message that is owed to it. `filters` are (filter, QoS); `will` is
    (QoS, delay in s). `window` is its receive maximum, `pace_s` the mean time between its actions, `ack_delay_s` the
    delay of its acknowledgements. `abandons`: it may leave for ever.
    """

    name: str
    version: int
    expiry_s: int | None
    steady: bool
    writes: bool
    topics: tuple[str, ...]
    filters: tuple[tuple[str, int], ...]
    will: tuple[int, int] | None
    window: int
    ack_delay_s: float
    pace_s: float
    abandons: bool


@dataclass(frozen=True, slots=True)
class Swarm:
    """Everything that a seed decides before the simulation begins.

    `seconds` is the virtual time under faults, `latency_s` the range of the duration of a disk write, `delay_s` the
    range of the delay between clients and nodes; all in seconds.
    """

    seed: int
    durability: Durability
    seconds: float
    features: frozenset[str]
    faults: tuple[str, ...]
    fault_count: int
    options: Options
    latency_s: tuple[float, float]
    delay_s: tuple[float, float]
    clients: tuple[ClientSpec, ...]


def draw(seed: int, durability: Durability | None = None, seconds: float = 20.0) -> Swarm:
    """Returns the swarm of a seed. With `durability` None the seed decides it."""
    rng = Random(f"swarm/{seed}")
    chosen: Durability = "sync" if rng.random() < 0.6 else "os"
    features = frozenset(name for name, share in FEATURES.items() if rng.random() < share)
    if not features & {"qos1", "qos2"}:
        features |= {"qos2"}
    faults = tuple(name for name, share in FAULTS.items() if rng.random() < share)
    promised = durability or chosen
    if promised == "os" and rng.random() < 0.7:
        faults = tuple(name for name in faults if name != "power")  # it ends most promises, and so most checks
    slow_disk = rng.random() < 0.4
    slow_net = rng.random() < 0.3
    return Swarm(
        seed,
        promised,
        seconds,
        features,
        faults,
        rng.randint(2, 6),
        _options(rng, Random(f"sessions/{seed}"), features),
        (0.02, 0.4) if slow_disk else (0.0002, 0.005),
        (0.05, 0.3) if slow_net else (0.0005, 0.01),
        tuple(_clients(rng, features)),
    )


def _options(rng: Random, sessions: Random, features: frozenset[str]) -> Options:
    limits = "limits" in features
    return Options(
        allow_anonymous=True,
        systree_enabled=False,
        queue_replicas=1,  # the variant copies has two
        retry_interval_s=rng.choice((1, 3)) if "retry" in features else 20,
        max_inflight_messages=rng.choice((1, 2, 5)) if "small_window" in features else 20,
        receive_max_broker=rng.choice((2, 5)) if "small_window" in features else 65535,
        max_online_messages=4 if limits else rng.choice((1000, 1000, -1)),
        max_offline_messages=4 if limits else rng.choice((1000, 1000, -1)),
        override_max_online_messages=rng.random() < 0.3,
        queue_type="lifo" if "lifo" in features else "fifo",
        persistent_client_expiration_s=rng.choice((4, 10)) if "session_expiry" in features else 0,
        suppress_lwt_on_session_takeover=False,
        shared_subscription_policy=rng.choice(("prefer_local", "random", "local_only")),
        memory_window=rng.choice((1, 2, 4)) if "small_memory" in features else 256,
        load_step=sessions.choice((1, 3, 2000)),
        snapshot_notes=sessions.choice((1, 3, 100)),
        idle_session_s=sessions.choice((0, 1, 60)),
        idle_sessions=sessions.choice((0, 100_000, 100_000)),
        pause_reading_bytes=rng.choice((200, 2000)) if "small_buffers" in features else 16 << 20,
        out_buffer_bytes=rng.choice((100, 1000)) if "small_buffers" in features else 1 << 20,
    )


def _clients(rng: Random, features: frozenset[str]) -> list[ClientSpec]:
    clients = [_client(rng, features, WATCHER, True, False, ((WILL_FILTER, 2), ("t/#", rng.choice((1, 2)))), None)]
    clients += [_client(rng, features, f"w{n}", rng.random() < 0.7, True, (), None) for n in range(rng.randint(1, 2))]
    if "shared" in features:
        for number in range(2):
            shared = ((SHARED_FILTER, rng.choice((1, 2))),)
            clients.append(_client(rng, features, f"g{number}", True, False, shared, None))
    for number in range(rng.randint(1, 4 if "many" in features else 3)):
        filters = _filters(rng, features)
        writes = rng.random() < 0.4
        will = (rng.choice((1, 2)), rng.choice((0, 0, 1, 3))) if "wills" in features and rng.random() < 0.7 else None
        clients.append(_client(rng, features, _name(number), rng.random() < 0.4, writes, filters, will))
    return clients


@cache
def _name(number: int) -> str:
    """The client id of a subscriber. Every second one is in the slot of the watcher, so they share payloads."""
    name = f"c{number}"
    if number % 2:
        return name
    return next(f"{name}x{each}" for each in count() if slot_of("", f"{name}x{each}") == slot_of("", WATCHER))


def _filters(rng: Random, features: frozenset[str]) -> tuple[tuple[str, int], ...]:
    names = rng.sample(FILTERS[:4], rng.randint(1, 2))
    if "retained" in features and rng.random() < 0.7:
        names.append(rng.choice(("r/#", RETAINED_TOPICS[0])))
    levels = [qos for qos in (1, 2) if f"qos{qos}" in features]
    return tuple((name, rng.choice(levels) if rng.random() < 0.9 else 0) for name in names)


def _client(
    rng: Random,
    features: frozenset[str],
    name: str,
    steady: bool,
    writes: bool,
    filters: tuple[tuple[str, int], ...],
    will: tuple[int, int] | None,
) -> ClientSpec:
    version = rng.choice((3, 4, 4, 5, 5, 5))
    if will is not None and will[1]:
        version = 5
    expiry: int | None = None
    if not steady and rng.random() < 0.4:
        expiry = 0
    elif not steady and version == 5 and "session_expiry" in features:
        expiry = rng.choice((1, 2, 6))
    if steady:
        version = 5 if "session_expiry" in features else version
    topics = TOPICS
    if "retained" in features:
        topics += RETAINED_TOPICS
    if "shared" in features:
        topics += SHARED_TOPICS
    return ClientSpec(
        name,
        version,
        expiry,
        steady,
        writes,
        tuple(rng.sample(topics, rng.randint(2, len(topics)))) if writes else (),
        filters,
        will,
        rng.choice((1, 2, 4)) if "small_window" in features else 100,
        rng.choice((0.0, 0.0, 0.05, 1.0)) if "slow" in features else 0.0,
        rng.choice((0.3, 0.6, 1.2)),
        "abandon" in features and not steady and rng.random() < 0.3,
    )
