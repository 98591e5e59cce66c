"""The lanes, the ports that links need, and the events that they report."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from ..transport.wire import Dialing, WireEvents
from .hello import PeerInfo


class Lane(IntEnum):
    """The acknowledged lanes, highest rank first. None waits for its own class or for a lower one (H-15).

    METADATA is always taken. APPEND (replicas, and messages relayed to another member of a shared subscription) waits
    for disks only. PUBLISH waits for appends. Each lane has its own numbers, window and acknowledgements. Items of
    METADATA are lost with the receiving process; anti-entropy repairs that.
    """

    METADATA = 0
    APPEND = 1
    PUBLISH = 2


class Timer(Protocol):
    """What a loop's `call_later` returns."""

    def cancel(self) -> None:
        """Do not run the function."""


class Rng(Protocol):
    """Source of randomness; `random.Random` implements it."""

    def uniform(self, a: float, b: float) -> float:
        """A number between a and b."""


class Dialer(Protocol):
    """The part of a `Transport` that links use; their owner does the serving."""

    def dial(self, address: str, hello: bytes, events: WireEvents) -> Dialing:
        """As `Transport.dial`."""


def ignore_refusal(node: str, reason: str) -> None:
    """Default of `refused`: only dial again."""


class SetAside(Struct, frozen=True):
    """An item that cannot be decoded: number `seq` of a lane of `node`, its size in bytes, and the reason."""

    node: str
    lane: Lane
    seq: int
    size: int
    reason: str


def ignore_set_aside(item: SetAside) -> None:
    """Default of `set_aside`: do nothing beyond the log line."""


class LinkPorts(Struct, frozen=True):
    """`now_ms` is monotonic; `later(delay_s, function)`; `log(level, text)`."""

    transport: Dialer
    now_ms: Callable[[], float]
    later: Callable[[float, Callable[[], None]], Timer]
    soon: Callable[[Callable[[], None]], object]
    rng: Rng
    log: Callable[[str, str], None]
    refused: Callable[[str, str], None] = ignore_refusal
    """A peer refused this process's stream: node and reason, once for each dial."""
    set_aside: Callable[[SetAside], None] = ignore_set_aside
    """An item was set aside. It has been logged."""


class Refuse(Exception):
    """Raised by `LinkEvents.deliver` if it cannot take the item now. The text is the reason.

    The lane is then held: the item counts as not delivered, and the receiver drops all later items of the lane. After a
    pause, or at `Links.try_again`, the receiver asks the sender to continue with this item (H-07). Other lanes and
    datagrams are not affected.
    """


class Unreadable(Exception):
    """Raised by `LinkEvents.deliver`, before any effect, if the item can never be taken. The text is the reason.

    The item is logged, counted and acknowledged as cancelled, so that it does not come again and stop the lane.
    """


class LinkEvents(Protocol):
    """The owner of the links. All calls are on the loop's thread; each may call methods of the links."""

    def check(self, hello: PeerInfo) -> str | None:
        """Why a peer is refused; None if it is accepted. Called for each hello and each welcome."""

    def watermark(self, node: str, disk: str, boot: int, lane: int) -> int:
        """The number up to which this node has durably finished a lane of that boot of a peer; 0 if unknown."""

    def datagram(self, node: str, kind: int, data: bytes) -> None:
        """A datagram came."""

    def deliver(self, node: str, lane: int, seq: int, payload: bytes) -> None:
        """The next item of a lane. Each is delivered once to a process, in order; cancelled items leave gaps in `seq`.

        Acknowledge it with `Links.ack` when it is finished. May raise `Refuse`, `Unreadable`.
        """

    def acked(self, node: str, lane: int, upto: int) -> None:
        """The peer has finished all items up to this number that were not cancelled."""

    def acked_early(self, node: str, lane: int, seqs: list[int]) -> None:
        """The peer has finished these items, although not all before them."""

    def up(self, node: str, hello: PeerInfo) -> None:
        """The stream to a peer is open. Nothing was resent yet, so items can still be cancelled.

        `hello` names the process and disk of the peer. A lane goes on from the peer's watermark; numbers that the peer
        lost and that are acknowledged here are sent as voids.
        """

    def down(self, node: str, reason: str) -> None:
        """The stream to a peer, which was open, is closed."""

    def heard(self, node: str) -> None:
        """A frame came on the stream from a peer, perhaps a heartbeat."""

    def relieved(self, node: str) -> None:
        """A lane to the node is no longer in `Links.slow`."""

    def room(self, node: str) -> None:
        """The node is no longer in `Links.full`: send the items that wait for that, until the node is in it again."""


class Traffic(Struct):
    """Counters of a node's links since its start."""

    bytes_in: int = 0
    bytes_out: int = 0
    frames_in: int = 0
    frames_out: int = 0
    items_in: int = 0
    items_out: int = 0
    resent: int = 0
    """Items sent again after a stream broke."""
    duplicates: int = 0
    """Received duplicates, which were not delivered."""
    held: int = 0
    """How often an item could not be taken, and its lane was held."""
    set_aside: int = 0
    """Items that could not be decoded and were dropped."""
    datagrams_dropped: int = 0
    dials: int = 0
