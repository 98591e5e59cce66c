"""The lanes, the ports that links need, and the events that they report."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from ..transport.wire import Dialing, WireEvents, ignore_stamp, no_stamp
from .hello import PeerInfo


class Lane(IntEnum):
    """The acknowledged lanes, highest rank first. Below them is the tunnel (`tunnel.py`).

    To take an item, a receiver never waits for its lane or a lower one. So nodes never wait for each other in a
    circle (H-15). METADATA is always taken. REPLICA (changes of slots, for their copies) waits for the receiver's own
    disk only. APPEND (messages relayed to another member of a shared subscription) waits for commits, and commits wait
    for replicas. PUBLISH waits for appends. Each lane has its own numbers, window and acknowledgements. Items of
    METADATA are lost with the receiving process; anti-entropy repairs that. Copies of slots end with the receiving
    process, too: the next one gets all rows anew.
    """

    METADATA = 0
    REPLICA = 3
    APPEND = 1
    PUBLISH = 2


class Timer(Protocol):
    """A pending call of a function, as `call_later` of an asyncio loop returns it."""

    def cancel(self) -> None:
        """The owner no longer wants the call: do not make it. Does nothing after the call."""


class Rng(Protocol):
    """Source of randomness; `random.Random` implements it."""

    def uniform(self, a: float, b: float) -> float:
        """Returns a random number between a and b."""


class Dialer(Protocol):
    """The part of a `Transport` that links use. The owner of the links listens for streams of other nodes."""

    def dial(self, address: str, hello: bytes, events: WireEvents) -> Dialing:
        """Open a stream to a peer: see `Transport.dial`. Links dial each peer again until its stream is open."""


def ignore_refusal(node: str, reason: str) -> None:
    """Default of `refused`: do nothing. The link dials again."""


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
    """A dial failed: called with the peer and the reason, once for each dial that was refused or got no answer."""
    set_aside: Callable[[SetAside], None] = ignore_set_aside
    """Called when an item was set aside, after it was logged."""
    stamp: Callable[[], int] = no_stamp
    """Returns the stamp of the last row of this node's event log. Each frame carries it."""
    observe: Callable[[int], None] = ignore_stamp
    """Called with the stamp of a peer's frame before anything in the frame is handled: the rows that this node writes
    from now on get larger stamps."""


class Refuse(Exception):
    """Raised by `LinkEvents.deliver`, before any effect, if it cannot take the item now. The text is the reason.

    The links then hold the lane: the item counts as not delivered, and they drop all later items of the lane. After a
    pause, or at `Links.try_again`, they ask the sender to continue with this item (H-07). Other lanes and datagrams are
    not affected.
    """


class Unreadable(Exception):
    """Raised by `LinkEvents.deliver`, before any effect, if the item can never be taken. The text is the reason.

    The links log the item, count it and acknowledge it as cancelled, so that the sender does not send it again and the
    lane continues.
    """


class LinkEvents(Protocol):
    """The owner of the links. `Links` makes all calls, on the loop's thread; each may call methods of the links.

    There are two streams between each two nodes: this node dials the stream *to* a peer, the peer dials the stream
    *from* the peer.
    """

    def check(self, hello: PeerInfo) -> str | None:
        """Returns the reason to refuse a peer; None to accept it.

        Called for the hello of each stream from a peer, and for the welcome of each stream to one, before any item.
        """

    def applied(self) -> int:
        """Returns how far this node has followed the log that all nodes share; it never falls.

        It goes with each acknowledgement (`Links.applied_by`), so the peer knows which entries the answer may rely on.
        """

    def watermark(self, node: str, disk: str, boot: int, lane: int) -> int:
        """Returns the number up to which this node has durably finished a lane of that boot of a peer; 0 if unknown.

        Called for each lane when a new process of the peer opens its first stream. The sender continues behind this
        number, so the owner must not need any item up to it again.
        """

    def datagram(self, node: str, kind: int, data: bytes) -> None:
        """A datagram of a peer arrived. It arrives at most once; others may be lost or overtake items of lanes."""

    def deliver(self, node: str, lane: int, seq: int, payload: bytes) -> None:
        """Take the next item of a lane. Each is delivered once to a process, in order; cancelled items leave gaps in
        `seq`.

        The owner calls `Links.ack` when the item is finished, now or later. Raises `Refuse`, `Unreadable`.
        """

    def acked(self, node: str, lane: int, upto: int) -> None:
        """The peer has finished all items up to this number, except cancelled ones. The number rises with each call.

        Called for an acknowledgement, and before `up` for items that the peer's watermark covers.
        """

    def acked_early(self, node: str, lane: int, seqs: list[int]) -> None:
        """The peer has finished these items, although an item before them is open. `acked` covers them later, too."""

    def up(self, node: str, hello: PeerInfo) -> None:
        """The stream to a peer is open. No item was sent on it yet, so the owner can still cancel items.

        `hello` names the process and disk of the peer. A lane continues behind the peer's watermark. For a number that
        is acknowledged here but that the peer has lost, a void is sent.
        """

    def down(self, node: str, reason: str) -> None:
        """The stream to a peer, which was open, is closed. Items stay in their lanes; waiting datagrams are dropped."""

    def heard(self, node: str) -> None:
        """A frame arrived on the stream from a peer, perhaps a heartbeat. Called before its contents are delivered."""

    def relieved(self, node: str) -> None:
        """A lane in `Links.slow` no longer names the node: the owner may let its publishers continue."""

    def room(self, node: str) -> None:
        """`Links.full` no longer names the node: the owner sends waiting items until it names the node again."""


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
    """How often the owner could not take an item, so that its lane was held."""
    set_aside: int = 0
    """Items that could not be decoded and were dropped."""
    datagrams_dropped: int = 0
    dials: int = 0
