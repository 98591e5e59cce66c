r"""The port to the other nodes: streams of frames, and single calls. This is the contract of every transport.

A *wire* is one end of one bidirectional stream with two ways, one for what is urgent (`send`) and one for data
(`send_data`). Neither waits for the other. Frames arrive whole, once and in the order of their way, or the wire closes;
between the two ways there is no order. A frame that was sent before a close may have arrived or not. The side that
dials sends a *hello*, the side that is dialled answers with a *welcome* or refuses; both belong to the opening and are
not frames. All calls and all events are on the thread of one loop; no event comes out of a call of `send`, `close`,
`cancel` or `dial`, it always comes later.

Before the hello both ends prove that they know the same cookie (`handshake`). An end without proof is refused and
gets no other answer; its `closed` or `CallFailed` has the reason. Hello, welcome, calls and answers carry a code,
frames do not.

    dial --- opened -+- received, (data_)drained -+- closed(reason)        each of opened and closed at most once
         \- closed(reason)                        \- (own close: silence)  nothing after an own close or cancel

The transport notices a peer that is dead, stopped or cut off within `NOTICE_S`, even if neither side sends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

NOTICE_S = 2.0
"""A peer that does not answer the transport's pings for this time (seconds) is lost: both ends of the wire close."""

DIAL_S = 2.0
"""A dial without an answer ends with `closed` after this time, in seconds."""

MAX_FRAME = 64 << 20
"""The largest frame, hello, welcome, request or answer in bytes (default of incoming_clustering_buffer_size)."""


DEFAULT_COOKIE = "vmq"
"""The cookie of VerneMQ's shipped configuration: it is public, so it protects against nobody."""

COOKIES_DIFFER = "it has another distributed_cookie: set the same distributed_cookie on all nodes of a cluster"
"""The text that a dialer gets and logs when the other end refuses its proof."""


class TransportError(Exception):
    """An address cannot be served, or certificates cannot be used. The text says which and why."""


class CallFailed(Exception):
    """A call was not answered: the text is the reason, the handler's own or the transport's.

    A handler raises it to refuse a call; the caller gets the same text.
    """


class Unproven(CallFailed):
    """A call was not made, or not answered: one end did not prove that it knows the cookie of the other."""


class Wire(Protocol):
    """One end of one open stream."""

    @property
    def peer(self) -> str:
        """The name or address of the other end, for logs."""

    @property
    def queued_bytes(self) -> int:
        """Bytes given to `send` that the network has not taken yet."""

    def send(self, frame: bytes) -> None:
        """Queue an urgent frame of at most `MAX_FRAME` bytes; at most one write is in flight. Nothing after a close."""

    def send_data(self, frame: bytes) -> None:
        """As `send`, on the way for data."""

    def close(self, reason: str) -> None:
        """End the stream and drop the queue. The other end gets `closed`, with the reason if that can be sent."""


class WireEvents(Protocol):
    """The events of a wire. The accepting side gets no `opened`; its wire is open after `accept`."""

    def opened(self, wire: Wire, welcome: bytes) -> None:
        """The other side accepted the hello."""

    def received(self, frame: bytes) -> None:
        """One frame, as it was sent. If this raises, the wire is closed and the error reported to the loop."""

    def drained(self) -> None:
        """All that `send` queued has been handed to the network."""

    def data_drained(self) -> None:
        """All that `send_data` queued has been."""

    def closed(self, reason: str) -> None:
        """The wire is closed, or never opened: refused, not reachable, lost. Nothing follows."""


class Dialing(Protocol):
    """A dial that has begun."""

    def cancel(self) -> None:
        """Give up, or close the wire that came of it. No event follows."""


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
"""Decides on a hello. The wire may be used at once: its frames are sent after the welcome."""

Calls = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a call (method, request); raises `CallFailed` to refuse it."""


class Transport(Protocol):
    """Streams and calls to other nodes."""

    def dial(self, address: str, hello: bytes, events: WireEvents) -> Dialing:
        """Open a stream to an address; `events.opened` or `events.closed` tells how it went, within `DIAL_S`."""

    async def serve(self, address: str, accept: Accept, calls: Calls | None = None) -> str:
        """Listen on `host:port` (port 0: any free one) and return the bound address. Raises `TransportError`."""

    async def call(self, address: str, method: str, request: bytes, timeout_s: float) -> bytes:
        """Ask once. Raises `CallFailed`: refused, not reachable, or no answer within `timeout_s`."""

    async def close(self) -> None:
        """Close all wires, dials and servers of this transport, without events. The others see their ends close."""
