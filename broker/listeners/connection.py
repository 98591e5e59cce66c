"""MQTT over a byte stream: the asyncio protocol between a transport and its handler, a `ClientConnection`.

The attribute `receive` is the function that takes the input. At first it reads a PROXY header, if the listener expects
one. Then it is the handler's `receive`. At the end it discards input. A connection is *opening* until its handler
exists, then *open*. After `close` it is *ending*: it flushes its output, shuts down its side, and discards input until
the peer closes too. Otherwise the peer might get a reset instead of the last packets, because a socket that is closed
with unread input sends a reset. Each of these phases has a time limit.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..connection.transport import CLOSE_BOUND_S, PEER_CLOSED, ConnectionOrigin, ConnectionPort
from .limiter import ConnectionLimiter
from .proxy_protocol import ProxyError, ProxyHeader, ProxyReader, unmapped
from .tls import check_depth, facts
from .traffic import Traffic

_READ_BYTES = 65536
_LAST_READS = 4
"""Number of pieces of `_READ_BYTES` that are read from a lost connection."""


def _discard(data: bytes) -> None:
    """Discard input after the end."""


class Connection(asyncio.Protocol, ABC):
    """Base of connections over a stream and over WebSocket: the `ClientTransport` that the handler writes to."""

    __slots__ = (
        "closing",
        "ending",
        "handler",
        "limiter",
        "opening",
        "origin",
        "reason",
        "receive",
        "timer",
        "traffic",
        "transport",
    )

    def __init__(self, limiter: ConnectionLimiter) -> None:
        self.limiter = limiter
        self.traffic: Traffic = limiter.traffic
        self.transport: Any = None
        self.handler: ConnectionPort | None = None
        self.origin: ConnectionOrigin | None = None
        """Address and TLS facts of the peer. Set only while opening; later the handler has them. A PROXY header in
        front of a TLS handshake sets it before `connection_made`."""
        self.opening: Any = None
        """While opening: the task of the TLS handshake, then the bytes of PROXY header or upgrade received so far."""
        self.receive: Callable[[bytes], None] = _discard
        self.timer: asyncio.TimerHandle | None = None
        self.closing = False
        self.ending = False
        self.reason = ""

    # -- events of asyncio

    def connection_made(self, transport: Any) -> None:
        """asyncio: a connection was accepted."""
        self.transport = transport
        accepted = transport.get_extra_info("socket")
        if not self.limiter.enter(self, 0 if accepted is None else accepted.fileno()):
            self.closing = self.ending = True
            transport.abort()
            return
        peer = transport.get_extra_info("peername")
        settings = self.limiter.settings
        if settings.unix_path is not None:
            self.origin = ConnectionOrigin("local", 0, settings, transport="unix")
        elif peer is None:
            self.abort()
            return
        elif self.origin is None:
            self.origin = ConnectionOrigin(unmapped(peer[0]), peer[1], settings, transport=settings.type)
        if settings.uses_tls and not self._identified(transport.get_extra_info("ssl_object")):
            return
        high = max(1, self.limiter.options.write_buffer_bytes)  # TLS takes an empty buffer for full with 0
        self.transport.set_write_buffer_limits(high=high, low=high // 4)
        if settings.proxy_protocol and not settings.uses_tls:
            self._start_opening_timer()
            self.opening = ProxyReader()
            self.receive = self._receive_proxy_header
        else:
            self.introduced()

    def introduced(self) -> None:
        """The address of the peer is known; MQTT may begin."""
        self.open()

    def open(self) -> None:
        """MQTT begins: make the handler."""
        origin, self.origin, self.opening = self.origin, None, None
        assert origin is not None
        self._stop_timer()
        handler = self.handler = self.limiter.make_handler(self, origin)
        if not self.closing:
            self.receive = self.to_handler(handler)

    def to_handler(self, handler: ConnectionPort) -> Callable[[bytes], None]:
        """The function that takes the input once the connection is open."""
        return handler.receive

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of the peer have arrived."""
        self.traffic.bytes_received += len(data)
        self.receive(data)

    def eof_received(self) -> None:
        """The peer will send no more: the handler's last answers are sent, then the transport closes itself."""
        self.tell_lost(PEER_CLOSED)
        self.finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the transport is closed. Report the end to the handler."""
        self._stop_timer()
        if isinstance(exc, OSError) and self.handler is not None and not self.closing:
            self._last_words()
        # health checks reset connections before they are open: this is not an error
        if exc is not None and self.handler is not None and not self.closing:
            self.traffic.socket_error += 1
        self.closing = self.ending = True
        self.receive = _discard
        self.transport = None
        self.limiter.leave(self)
        self.tell_lost(self.reason or _reason(exc))

    def _last_words(self) -> None:
        """Read the input that the peer sent before a reset, if a write noticed the reset first.

        If a client closes its socket with unread answers, as `mosquitto_sub -C` does, its system sends a reset. The
        client's acknowledgements and its DISCONNECT may still be in this socket's buffer. At most `_LAST_READS` pieces
        are read. With TLS this input cannot be decrypted any more.
        """
        if self.limiter.settings.uses_tls:
            return
        handle: int = self.transport.get_extra_info("socket").fileno()
        try:
            for _ in range(_LAST_READS):
                if self.closing or not (data := os.read(handle, _READ_BYTES)):
                    return
                self.data_received(data)
        except OSError:
            # all input has been read: the last read returns the reset itself
            return

    def pause_writing(self) -> None:
        """asyncio: the transport's buffer is above its high mark."""
        if self.handler is not None:
            self.handler.writable(False)

    def resume_writing(self) -> None:
        """asyncio: the transport's buffer is below its low mark again."""
        if self.handler is not None:
            self.handler.writable(True)

    # -- calls of the handler

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

    @property
    def gone_for(self) -> str:
        """As `ClientTransport.gone_for`; always "": this node reads the last bytes before it notices the end."""
        return ""

    def pause_reading(self) -> None:
        """As `ClientTransport.pause_reading`."""
        if not self.closing and self.transport.is_reading():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """As `ClientTransport.resume_reading`."""
        if not self.closing and not self.transport.is_reading():
            self.transport.resume_reading()

    def accepted(self) -> None:
        """As `ClientTransport.accepted`. This class has no limits for unaccepted clients."""

    def watch_silence(self, _limit_ms: int, /) -> bool:
        """As `ClientTransport.watch_silence`: the core measures it."""
        return False

    def hand_over(self, port: ConnectionPort, /) -> None:
        """As `ClientTransport.hand_over`."""
        if not self.closing:
            self.handler = port
            self.receive = self.to_handler(port)

    # -- the end

    def end(self, reason: str) -> None:
        """Report the end to the handler, send the rest, close."""
        self.reason = self.reason or reason
        if self.handler is None and not self.closing:
            self.abort()
        self.tell_lost(reason)
        self.close()

    def tell_lost(self, reason: str) -> None:
        """Report the end to the handler, once."""
        handler, self.handler = self.handler, None
        if handler is not None:
            handler.lost(reason)

    def finish(self) -> None:
        """Flush, shut down this side and wait for the peer's, at most `CLOSE_BOUND_S`."""
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

    # -- before MQTT: TLS and PROXY header

    def _identified(self, tls: ssl.SSLObject) -> bool:
        """Take the TLS facts of the peer. Returns False if its certificate is not accepted."""
        settings = self.limiter.settings
        origin = self.origin
        assert origin is not None
        if settings.require_certificate and not check_depth(tls, settings.depth):
            why = f"the chain of certificates is longer than depth = {settings.depth} allows"
            self.traffic.tls_handshake_error += 1
            self.limiter.log_refused("tls.fail", f"TLS handshake failed: {why}", origin.peer_host)
            self.abort()
            return False
        origin.tls = facts(tls, settings)
        if settings.names_users:
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
        assert self.origin is not None
        self.take_header(header, self.origin)
        self.opening = None
        self.introduced()
        if reader.rest:
            self.receive(reader.rest)

    def take_header(self, header: ProxyHeader, origin: ConnectionOrigin) -> None:
        """Give the origin what a PROXY header says about the client."""
        if header.source is not None:
            origin.peer_host, origin.peer_port = header.source
        if self.limiter.settings.proxy_protocol_use_cn_as_username:
            origin.username = header.common_name
        if header.tls is not None:
            origin.tls = {**header.tls, "subject": header.common_name, "certificate": None}

    def _refuse_proxy(self, why: str) -> None:
        assert self.origin is not None
        self.limiter.refuse_proxy(self.origin.peer_host, why)
        self.abort()

    def _start_opening_timer(self) -> None:
        if self.timer is None:
            self.timer = asyncio.get_running_loop().call_later(self.limiter.options.opening_timeout_s, self._too_late)

    def _too_late(self) -> None:
        self.timer = None
        if isinstance(self.opening, ProxyReader):
            self._refuse_proxy(f"no PROXY header within {self.limiter.options.opening_timeout_s:g} s")
        else:
            self.opening_overdue()

    def opening_overdue(self) -> None:
        """The WebSocket upgrade took too long; without one there is nothing to do."""
        self.abort()

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class StreamConnection(Connection):
    """MQTT directly over TCP, TLS or a unix socket."""

    __slots__ = ()

    def write(self, data: bytes, /) -> None:
        """As `ClientTransport.write`. Counting and the guard cost 0.1 us; there is one write per connection and loop
        turn."""
        if not self.closing:
            self.traffic.bytes_sent += len(data)
            self.transport.write(data)


def _reason(exc: Exception | None) -> str:
    """The reason of an end without DISCONNECT."""
    if exc is None:
        return "closed"
    if isinstance(exc, ConnectionResetError | BrokenPipeError):
        return "connection_reset"
    return "timeout" if isinstance(exc, TimeoutError) else "socket_error"
