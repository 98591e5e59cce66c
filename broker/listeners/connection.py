"""MQTT over a byte stream: the asyncio protocol between a transport and a front.

What a connection does with bytes is the function in `receive`: PROXY header first where the listener expects one, then
the front's own `receive`, in the end nothing. A connection is *opening* until its front exists, then *open*; after
`close` it is *ending*: output is flushed and shut down, input is thrown away until the peer closes too, so that the
peer gets our last words instead of a reset (a socket closed with unread input resets). All of that is bounded.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..connection.transport import CLOSE_BOUND_S, ConnectionOrigin, ConnectionPort
from .limiter import ConnectionLimiter
from .proxy_protocol import ProxyError, ProxyReader, unmapped
from .tls import check_depth, facts
from .traffic import Traffic

_READ_BYTES = 65536
_LAST_READS = 4
"""Pieces of `_READ_BYTES` that are read of a connection that is lost."""


def _discard(data: bytes) -> None:
    """Input after the end."""


class Connection(asyncio.Protocol, ABC):
    """What connections over a stream and over WebSocket have in common: a `ClientTransport` on its way to a front."""

    __slots__ = (
        "closing",
        "door",
        "ending",
        "front",
        "opening",
        "origin",
        "reason",
        "receive",
        "timer",
        "traffic",
        "transport",
    )

    def __init__(self, door: ConnectionLimiter) -> None:
        self.door = door
        self.traffic: Traffic = door.traffic
        self.transport: Any = None
        self.front: ConnectionPort | None = None
        self.origin: ConnectionOrigin | None = None
        """Only while opening: afterwards it is the front's."""
        self.opening: Any = None
        """What has come so far of that which comes before MQTT; the task of a TLS handshake before that."""
        self.receive: Callable[[bytes], None] = _discard
        self.timer: asyncio.TimerHandle | None = None
        self.closing = False
        self.ending = False
        self.reason = ""

    # -- asyncio's side

    def connection_made(self, transport: Any) -> None:
        """A connection was accepted."""
        self.transport = transport
        accepted = transport.get_extra_info("socket")
        if not self.door.enter(self, 0 if accepted is None else accepted.fileno()):
            self.closing = self.ending = True
            transport.abort()
            return
        peer = transport.get_extra_info("peername")
        settings = self.door.settings
        if settings.unix_path is not None:
            self.origin = ConnectionOrigin("local", 0, settings, transport="unix")
        elif peer is None:
            self.abort()
            return
        else:
            self.origin = ConnectionOrigin(unmapped(peer[0]), peer[1], settings, transport=settings.type)
        if settings.uses_tls and not self._identified(transport.get_extra_info("ssl_object")):
            return
        high = self.door.options.write_buffer_bytes
        self.transport.set_write_buffer_limits(high=high, low=high // 4)
        if settings.proxy_protocol:
            self._start_opening_timer()
            self.opening = ProxyReader()
            self.receive = self._receive_proxy_header
        else:
            self.introduced()

    def introduced(self) -> None:
        """It is known who the peer is; MQTT may begin."""
        self.open()

    def open(self) -> None:
        """MQTT begins: make the front."""
        origin, self.origin, self.opening = self.origin, None, None
        assert origin is not None
        self._stop_timer()
        front = self.front = self.door.make_front(self, origin)
        if not self.closing:
            self.receive = self.to_front(front)

    def to_front(self, front: ConnectionPort) -> Callable[[bytes], None]:
        """What takes the bytes once the connection is open."""
        return front.receive

    def data_received(self, data: bytes) -> None:
        """Bytes from the peer."""
        self.traffic.bytes_received += len(data)
        self.receive(data)

    def eof_received(self) -> None:
        """The peer will send no more: the front's last answers are sent, then the transport closes itself."""
        self.tell_lost("peer_closed")
        self.finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        self._stop_timer()
        if isinstance(exc, OSError) and self.front is not None and not self.closing:
            self._last_words()
        # health checks reset connections before they are open, which is no error
        if exc is not None and self.front is not None and not self.closing:
            self.traffic.socket_error += 1
        self.closing = self.ending = True
        self.receive = _discard
        self.transport = None
        self.door.leave(self)
        self.tell_lost(self.reason or _reason(exc))

    def _last_words(self) -> None:
        """Take what the peer had sent before it reset the connection, where a write of ours noticed the reset first.

        A client that closes with an answer of ours unread, as `mosquitto_sub -C` does, makes its system send a reset
        instead of an end; its acknowledgements and its DISCONNECT may be here and not yet read. At most `_LAST_READS`
        pieces of it are. With TLS it cannot be understood any more.
        """
        if self.door.settings.uses_tls:
            return
        handle: int = self.transport.get_extra_info("socket").fileno()
        try:
            for _ in range(_LAST_READS):
                if self.closing or not (data := os.read(handle, _READ_BYTES)):
                    return
                self.data_received(data)
        except OSError:
            # all of it has been read: what comes last is the reset itself
            return

    def pause_writing(self) -> None:
        """The transport's buffer is above its high mark."""
        if self.front is not None:
            self.front.writable(False)

    def resume_writing(self) -> None:
        """The transport's buffer is below its low mark again."""
        if self.front is not None:
            self.front.writable(True)

    # -- the front's side

    @abstractmethod
    def write(self, data: bytes, /) -> None:
        """As `ClientTransport.write`."""

    def close(self) -> None:
        """As `ClientTransport.close`."""
        if not self.closing:
            self.finish()

    def abort(self) -> None:
        """As `ClientTransport.abort`."""
        self.reason = self.reason or "aborted"
        self.closing = self.ending = True
        self.receive = _discard
        if self.transport is not None:
            self.transport.abort()
        elif isinstance(self.opening, asyncio.Task):
            self.opening.cancel()

    def pause_reading(self) -> None:
        """As `ClientTransport.pause_reading`."""
        if not self.closing and self.transport.is_reading():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """As `ClientTransport.resume_reading`."""
        if not self.closing and not self.transport.is_reading():
            self.transport.resume_reading()

    def accepted(self) -> None:
        """As `ClientTransport.accepted`. Nothing is kept here that would have to be bounded before."""

    # -- the end

    def end(self, reason: str) -> None:
        """Tell the front, send the rest, close."""
        self.reason = self.reason or reason
        if self.front is None and not self.closing:
            self.abort()
        self.tell_lost(reason)
        self.close()

    def tell_lost(self, reason: str) -> None:
        """Tell the front, once."""
        front, self.front = self.front, None
        if front is not None:
            front.lost(reason)

    def finish(self) -> None:
        """Flush, shut our side down and wait for the peer's, at most `CLOSE_BOUND_S`."""
        self.closing = True
        if self.ending:
            return
        self.ending = True
        self._stop_timer()
        self.receive = _discard
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        self.timer = asyncio.get_running_loop().call_later(CLOSE_BOUND_S, self._overdue)
        if not transport.is_reading():
            transport.resume_reading()
        if not transport.can_write_eof():
            transport.close()
            return
        try:
            transport.write_eof()
        except OSError:
            # the peer has reset the connection meanwhile
            transport.abort()

    def _overdue(self) -> None:
        self.traffic.socket_close_timeout += 1
        self.timer = None
        if self.transport is not None:
            self.transport.abort()

    # -- what comes before MQTT

    def _identified(self, tls: ssl.SSLObject) -> bool:
        """Take over what TLS says of the peer; False if its certificate does not do."""
        settings = self.door.settings
        origin = self.origin
        assert origin is not None
        if settings.require_certificate and not check_depth(tls, settings.depth):
            why = f"the chain of certificates is longer than depth = {settings.depth} allows"
            self.traffic.tls_handshake_error += 1
            self.door.log("info", f"TLS handshake with {origin.peer_host} failed: {why}")
            self.abort()
            return False
        origin.tls = facts(tls, settings)
        if settings.use_identity_as_username:
            origin.username = origin.tls["subject"]
        return True

    def _receive_proxy_header(self, data: bytes) -> None:
        reader: ProxyReader = self.opening
        try:
            header = reader.feed(data)
        except ProxyError as error:
            self._refuse_proxy(str(error))
            return
        if header is None:
            return
        origin = self.origin
        assert origin is not None
        if header.source is not None:
            origin.peer_host, origin.peer_port = header.source
        if self.door.settings.proxy_protocol_use_cn_as_username:
            origin.username = header.common_name
        if header.tls is not None:
            origin.tls = {**header.tls, "subject": header.common_name, "certificate": None}
        self.opening = None
        self.introduced()
        if reader.rest:
            self.receive(reader.rest)

    def _refuse_proxy(self, why: str) -> None:
        origin = self.origin
        assert origin is not None
        self.traffic.proxy_protocol_error += 1
        self.door.log("info", f"connection from {origin.peer_host} refused: {why}")
        self.abort()

    def _start_opening_timer(self) -> None:
        if self.timer is None:
            self.timer = asyncio.get_running_loop().call_later(self.door.options.opening_timeout_s, self._too_late)

    def _too_late(self) -> None:
        self.timer = None
        if isinstance(self.opening, ProxyReader):
            self._refuse_proxy(f"no PROXY header within {self.door.options.opening_timeout_s:g} s")
        else:
            self.opening_overdue()

    def opening_overdue(self) -> None:
        """What comes behind the PROXY header took too long."""
        self.abort()

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class StreamConnection(Connection):
    """MQTT straight over TCP, TLS or a unix socket."""

    __slots__ = ()

    def write(self, data: bytes, /) -> None:
        """As `ClientTransport.write`. Counting and the guard cost 0.1 us; there is one write per connection and loop
        turn."""
        if not self.closing:
            self.traffic.bytes_sent += len(data)
            self.transport.write(data)


def _reason(exc: Exception | None) -> str:
    """The word for an end that nobody announced."""
    if exc is None:
        return "closed"
    if isinstance(exc, ConnectionResetError | BrokenPipeError):
        return "connection_reset"
    return "timeout" if isinstance(exc, TimeoutError) else "socket_error"
