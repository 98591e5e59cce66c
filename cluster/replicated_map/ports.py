"""The ports that the map needs, and its statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ...storage.store import Store

OnChange = Callable[[bytes, bytes | None], None]
"""Called with a key whose value another node changed, and its new value (None: deleted)."""


class Rng(Protocol):
    """Source of randomness; `random.Random` implements it."""

    def uniform(self, a: float, b: float) -> float:
        """A number between a and b."""


@dataclass(slots=True)
class MapPorts:
    """`store` may be None: then nothing is durable. `send` puts bytes on the lane to a peer: in order and without loss
    while the peer is in the view. `datagram` may lose them. `soon` runs a function in a later turn of the loop.
    `wall_ms` is this node's wall clock, `now_ms` its monotonic one. `applied_view` is the id of the applied view.
    """

    store: Store | None
    send: Callable[[str, bytes], object]
    datagram: Callable[[str, bytes], object]
    soon: Callable[[Callable[[], None]], object]
    now_ms: Callable[[], float]
    wall_ms: Callable[[], float]
    rng: Rng
    applied_view: Callable[[], int]


class Statistics(NamedTuple):
    """Figures for operators. `bytes` are those of keys and values; `log` counts the dots that not every member has;
    `actors` the entries of the clocks; `clamped` remote clocks more than a minute ahead; the last three are what the
    last exchange cost this side.
    """

    keys: int
    tombstones: int
    bytes: int
    log: int
    actors: int
    barriers: int
    clamped: int
    exchange_messages: int
    exchange_keys: int
    exchange_batches: int
