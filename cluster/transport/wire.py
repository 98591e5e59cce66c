r"""The port to the other nodes: streams of frames, and single calls. This is the contract of every transport.

A *wire* is one end of one bidirectional stream with two channels, one for urgent frames (`send`) and one for data
(`send_data`). Neither waits for the other. Frames arrive whole, once and in the order of their channel, or the wire
closes; between the two channels there is no order. A frame that was sent before a close may have arrived or not. The
dialer sends a *hello*, the acceptor answers with a *welcome* or refuses; neither is a frame. All calls and all events
are on the thread of one loop. `send`, `close`, `cancel` and `dial` cause no event before they return.

Before the hello both ends prove that they know the same cookie (`handshake`). An end without proof is refused and
gets no other answer; its `closed` or `CallFailed` has the reason. Hello, welcome, calls and answers carry an
authentication code, frames do not.

    dial --- opened -+- received, (data_)drained -+- closed(reason)        each of opened and closed at most once
         \- closed(reason)                        \- (own close: silence)  nothing after an own close or cancel

The transport notices a peer that is dead, stopped or cut off within `NOTICE_S`, even if neither side sends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

NOTICE_S = 2.0
"""A peer that does not answer the transport's pings for this time (seconds) is lost: both ends of the wire close."""

DIAL_S = 2.0
"""The transport ends a dial without an answer after this time, in seconds: the dialer gets `closed`."""

MAX_FRAME = 64 << 20
"""The largest frame, hello, welcome, request or answer in bytes (default of incoming_clustering_buffer_size)."""


DEFAULT_COOKIE = "vmq"
"""The cookie of VerneMQ's shipped configuration: it is public, so it gives no protection."""

COOKIES_DIFFER = "it has another distributed_cookie: set the same distributed_cookie on all nodes of a cluster"
"""The text that a dialer gets and logs when the other end refuses its proof."""


class TransportError(Exception):
    """The transport cannot listen at an address, or use a certificate. The text names it and the reason."""


class CallFailed(Exception):
    """A call was not answered. The text is the reason.

    A handler raises it to refuse a call, and the caller gets the same text. The transport raises it if the call or the
    answer is lost.
    """


class Unproven(CallFailed):
    """A call was not made, or not answered: one end did not prove that it knows the cookie of the other, or
    has a certificate that the other does not take."""


def no_stamp() -> int:
    """Default of `stamp`: the node writes no event log."""
    return 0


def ignore_stamp(stamp: int) -> None:
    """Default of `observe`: do nothing."""


class Stamps(NamedTuple):
    """The port to the event log. `stamp` returns the stamp of its last row; `observe` gets the stamp that came with
    something of another node, before that is handled."""

    stamp: Callable[[], int] = no_stamp
    observe: Callable[[int], None] = ignore_stamp


class Wire(Protocol):
    """One end of one open stream. The links call its methods; after a close they do nothing."""

    @property
    def peer(self) -> str:
        """The name or address of the other end, for logs."""

    @property
    def queued_bytes(self) -> int:
        """Bytes given to `send` and `send_data` that the network has not taken yet."""

    def send(self, frame: bytes) -> None:
        """Queue an urgent frame of at most `MAX_FRAME` bytes. `WireEvents.drained` follows when the queue is empty."""

    def send_data(self, frame: bytes) -> None:
        """Queue a frame on the data channel, like `send`. `WireEvents.data_drained` follows when the queue is empty."""

    def close(self, reason: str) -> None:
        """End the stream and drop the queues. This end gets no further event.

        The other end gets `closed`, with the reason if the transport can still send it.
        """


class WireEvents(Protocol):
    """The owner of a wire. The transport calls these methods."""

    def opened(self, wire: Wire, welcome: bytes) -> None:
        """The acceptor has accepted the hello. Only the dialer gets this event: see `Accept` for the acceptor."""

    def received(self, frame: bytes) -> None:
        """A frame of the other end arrived, whole and in the order of its channel.

        If the owner raises an error here, the transport closes the wire and reports the error to the loop.
        """

    def drained(self) -> None:
        """The network has taken all frames given to `send`: the owner may send the next one without queueing it."""

    def data_drained(self) -> None:
        """The network has taken all frames given to `send_data`."""

    def closed(self, reason: str) -> None:
        """The wire is closed, or the dial failed: refused, unreachable, lost. This is the last event, called once."""


class Dialing(Protocol):
    """A dial that has begun, as `Transport.dial` returns it."""

    def cancel(self) -> None:
        """The owner gives the dial up: end it, or close the wire that it opened. No event follows."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to an accepted hello: the welcome, and the object that gets the events of the wire."""

    welcome: bytes
    events: WireEvents


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer to a refused hello. The dialer's `closed` gets this text."""

    reason: str


Accept = Callable[[bytes, Wire], Accepted | Refused]
"""`accept(hello, wire)`: called for each hello of a proven dialer, to accept or to refuse it.

It may use the wire at once: the transport sends the frames after the welcome.
"""

Calls = Callable[[str, bytes], Awaitable[bytes]]
"""`calls(method, request)`: called for each call of a proven node. Returns the answer or raises `CallFailed`."""


class Transport(Protocol):
    """Streams and calls to other nodes.

    Each hello, welcome, refusal, call and answer carries a stamp. Frames carry theirs themselves (`links.frames`). The
    end of a stream carries none.
    """

    def use_stamps(self, stamps: Stamps) -> None:
        """From now on send and observe stamps with this port. A node calls it before it dials, serves and calls."""

    def dial(self, address: str, hello: bytes, events: WireEvents) -> Dialing:
        """Open a stream to an address. Within `DIAL_S`, `events` gets `opened`, or `closed` if the dial failed."""

    async def serve(self, address: str, accept: Accept, calls: Calls | None = None) -> str:
        """Listen on `host:port` (port 0: any free one) and return the bound address. Raises `TransportError`."""

    async def call(self, address: str, method: str, request: bytes, timeout_s: float) -> bytes:
        """Send a request once and return the answer.

        Raises `CallFailed` if the node refuses the call, is unreachable, or does not answer within `timeout_s`.
        """

    async def close(self) -> None:
        """Close all wires, dials and servers of this transport, without events. The other ends get `closed`."""
