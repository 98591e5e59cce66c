"""What links need, and whom they serve."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from ..transport.wire import Dialing, WireEvents
from .hello import PeerInfo


class Lane(IntEnum):
    """The acknowledged lanes, highest rank first. None waits for its own class or for a lower one (H-15).

    METADATA is always taken, APPEND (replicas, and messages relayed to another member of a shared subscription) waits
    for disks only, PUBLISH waits for appends. Each has its own numbers, window
    and acknowledgements. Its items do not outlive the process at the other end if the lane is METADATA: anti-entropy
    repairs what is missing there.
    """

    METADATA = 0
    APPEND = 1
    PUBLISH = 2


class Timer(Protocol):
    """What a loop's `call_later` returns."""

    def cancel(self) -> None:
        """Do not do it."""


class Rng(Protocol):
    """Where chance comes from: `random.Random` has it."""

    def uniform(self, a: float, b: float) -> float:
        """A number between a and b."""


class Dialer(Protocol):
    """The part of a `Transport` that links use themselves; serving is their owner's."""

    def dial(self, address: str, hello: bytes, events: WireEvents) -> Dialing:
        """As `Transport.dial`."""


def nobody_minds(node: str, reason: str) -> None:
    """Whoever is refused is dialled again, and that is all."""


class SetAside(Struct, frozen=True):
    """An item that cannot be read: number `seq` of a lane of `node`, with `size` bytes, and why."""

    node: str
    lane: Lane
    seq: int
    size: int
    reason: str


def nothing_more(item: SetAside) -> None:
    """The log has it, and that is all."""


class LinkPorts(Struct, frozen=True):
    """`now_ms` is monotonic; `later(delay_s, function)`; `log(level, text)`."""

    transport: Dialer
    now_ms: Callable[[], float]
    later: Callable[[float, Callable[[], None]], Timer]
    soon: Callable[[Callable[[], None]], object]
    rng: Rng
    log: Callable[[str, str], None]
    refused: Callable[[str, str], None] = nobody_minds
    """A peer does not let this process in: node and reason, as often as it was dialled."""
    set_aside: Callable[[SetAside], None] = nothing_more
    """An item was set aside. It is logged before."""


class Refuse(Exception):
    """Raised by `LinkEvents.deliver`: this item cannot be taken now. The text says why.

    The lane is held: the item counts as not delivered, what comes behind it is dropped, and the sender is asked for the
    lane from this item on after a while, or at `Links.try_again` (H-07). Other lanes and datagrams go on.
    """


class Unreadable(Exception):
    """Raised by `LinkEvents.deliver`, before it has taken anything: this item can never be taken. The text says why.

    The item is logged, counted and acknowledged as a void, so that it does not come again and stop the lane.
    """


class LinkEvents(Protocol):
    """Who lives on top of the links. All calls are on the loop's thread; it may call the links from each of them."""

    def check(self, hello: PeerInfo) -> str | None:
        """Why a peer must not be talked to; None if it may. Asked of each hello and of each welcome."""

    def watermark(self, node: str, disk: str, boot: int, lane: int) -> int:
        """Up to which number a lane of that boot of a peer is done with here, durably; 0 if nothing is known."""

    def datagram(self, node: str, kind: int, data: bytes) -> None:
        """A datagram came."""

    def deliver(self, node: str, lane: int, seq: int, payload: bytes) -> None:
        """The next item of a lane. Each is delivered once to a process, in order; voids leave gaps in `seq`.

        Acknowledge it with `Links.ack` when it is done with. May raise `Refuse`, `Unreadable`.
        """

    def acked(self, node: str, lane: int, upto: int) -> None:
        """The peer is done with everything up to this number that was not voided."""

    def acked_early(self, node: str, lane: int, seqs: list[int]) -> None:
        """The peer is done with these, although not with everything before them."""

    def up(self, node: str, hello: PeerInfo) -> None:
        """Our stream to a peer is open. Nothing was resent yet: what is to be voided can be voided now.

        `hello` says which process and disk is there now. A lane goes on from the peer's watermark; numbers that it lost
        and that are acknowledged here are sent as voids.
        """

    def down(self, node: str, reason: str) -> None:
        """Our stream to a peer, which was up, is closed."""

    def heard(self, node: str) -> None:
        """A frame came on the stream from a peer, a heartbeat maybe."""

    def relieved(self, node: str) -> None:
        """A lane to the node is in `Links.slow` no more."""

    def room(self, node: str) -> None:
        """The node is in `Links.full` no more: send now what waits for that, until the node is there again."""


class Traffic(Struct):
    """What went over the links of a node since its start."""

    bytes_in: int = 0
    bytes_out: int = 0
    frames_in: int = 0
    frames_out: int = 0
    items_in: int = 0
    items_out: int = 0
    resent: int = 0
    """Items that were sent before, on a stream that broke."""
    duplicates: int = 0
    """Items that came again and were not delivered again."""
    held: int = 0
    """How often an item could not be taken, and its lane was held."""
    set_aside: int = 0
    """Items that could not be read, and were dropped."""
    datagrams_dropped: int = 0
    dials: int = 0
