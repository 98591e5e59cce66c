"""The ports that the map needs, and its statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ...storage.store import Store

OnChange = Callable[[bytes, bytes | None], None]
"""`on_change(key, value)`: called when a message or a purge has changed the value that readers see; None: deleted."""


class Rng(Protocol):
    """Source of randomness; `random.Random` implements it."""

    def uniform(self, a: float, b: float) -> float:
        """Returns a random number between a and b."""


@dataclass(slots=True)
class MapPorts:
    """The ports of one map."""

    store: Store | None
    """The store of the durable half; None: nothing is durable."""
    send: Callable[[str, bytes], object]
    """`send(peer, data)`: send a message on the lane, in order and without loss while the peer is in the view."""
    datagram: Callable[[str, bytes], object]
    """`datagram(peer, data)`: send a message that may be lost."""
    soon: Callable[[Callable[[], None]], object]
    """`soon(function)`: call the function in a later turn of the loop."""
    now_ms: Callable[[], float]
    """The monotonic clock of this machine, in ms."""
    cluster_ms: Callable[[], float]
    """Cluster time, in ms since 1970."""
    rng: Rng
    applied_view: Callable[[], int]
    """Returns the id of the applied view."""


@dataclass(slots=True)
class Reports:
    """What the map reports to its owner, who may set each of these functions."""

    unreadable: Callable[[str, str], None] = lambda peer, text: None
    """A message of a peer has keys that cannot be decoded; the text says which."""
    acknowledges: Callable[[str, int, int], None] = lambda peer, boot, upto: None
    """This node is about to acknowledge the writes of a boot of a peer, up to a number."""
    compared: Callable[[str, int, int | None, str, str], None] = lambda *_: None
    """Each side of an exchange reports the peer, the number, and `behind` as in `AntiEntropy.on_compared`; then digests
    of what the durable half has seen, and of what is in force. The first is empty if the second does not follow from
    it, because the half has a part of what a peer had, and has not seen all that the peer had seen."""


class Statistics(NamedTuple):
    """Figures for operators. `bytes` is the size of keys and values. `log` counts the dots that not every member has,
    `actors` the entries of the clocks, `clamped` the remote stamps more than a minute ahead. The last three are the
    cost of the last exchange on this side.
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
