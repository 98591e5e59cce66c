"""Accepts sockets of a listener with TLS and runs their handshakes; HTTP listeners have an acceptor of their own.

asyncio's own TLS server reports a connection only after its handshake, and never changes its context. Here a connection
enters its limiter first, so that unfinished handshakes count against `max_connections`. Each handshake gets the present
context, so a revocation list takes effect as soon as it is read again. Renewed certificates do so too if the list has
changed with them; otherwise they wait for the next start of the listener.

If the listener expects a PROXY header, it comes before the handshake, as a proxy in TCP mode sends it. Nothing behind
the header is read from the socket before the handshake begins.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from ..connection.transport import CLOSE_BOUND_S, ConnectionOrigin
from .alerts import handshake_socket
from .connection import Connection
from .proxy_protocol import ProxyError, ProxyReader, unmapped
from .sockets import end_listening

_AT_ONCE = 64
"""Sockets accepted in one turn of the loop."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_PAUSE_S = 1.0
_FOR_EVER_S = 10 * 365 * 86400.0
"""asyncio has no handshake without a time limit; the limiter's own limit applies."""


class SocketAcceptor:
    """Accepts connections from a bound socket until it is closed. `take` gets the socket and the address of each one,
    `log` a level and a line."""

    def __init__(self, take: Callable[[socket.socket, tuple[Any, ...]], None], log: Callable[[str, str], None]) -> None:
        self._take = take
        self._log = log
        self._accepting: asyncio.Task[None] | None = None
        self._handshakes: set[asyncio.Task[None]] = set()
        self._listening: socket.socket | None = None

    def start(self, listening: socket.socket, backlog: int) -> None:
        """Listen. Raises OSError."""
        listening.listen(backlog)
        self._listening = listening
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listening))

    async def close(self) -> None:
        """Stop listening. Handshakes that have begun continue."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        if self._listening is not None:
            end_listening(self._listening)
            self._listening.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        accepted = 0
        while True:
            try:
                sock, peer = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._log("error", f"cannot accept connections: {error.strerror}")
                    await asyncio.sleep(_EXHAUSTED_PAUSE_S)
                continue
            self._take(sock, peer)
            accepted += 1
            if accepted % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def shake(self, handshake: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run the handshake of a connection in a task of its own."""
        task = asyncio.get_running_loop().create_task(handshake)
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)
        return task


class TlsAcceptor(SocketAcceptor):
    """The acceptor of an MQTT listener with TLS."""

    def __init__(self, make_connection: Callable[[], Connection], context: Callable[[], ssl.SSLContext]) -> None:
        super().__init__(self._let_in, lambda level, text: make_connection().limiter.log(level, text))
        self._make_connection = make_connection
        self._context = context

    def _let_in(self, sock: socket.socket, peer: tuple[Any, ...]) -> None:
        connection = self._make_connection()
        if not connection.limiter.enter(connection, sock.fileno()):
            sock.close()
            return
        connection.opening = self.shake(self._shake(connection, sock, peer))

    async def _shake(self, connection: Connection, sock: socket.socket, peer: tuple[Any, ...]) -> None:
        settings = connection.limiter.settings
        timeout = settings.tls_handshake_timeout_s
        if settings.proxy_protocol and not await self._introduced(connection, sock, peer):
            return
        handshake_socket.set(sock)  # visible only in this task and its child tasks
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                sock,
                ssl=self._context(),
                ssl_handshake_timeout=_FOR_EVER_S if timeout is None else timeout,
                ssl_shutdown_timeout=CLOSE_BOUND_S,
            )
        except OSError as error:
            connection.traffic.tls_handshake_error += 1
            why = _why(error)
            if why:
                host = peer[0] if connection.origin is None else connection.origin.peer_host
                connection.limiter.log_refused("tls.fail", f"TLS handshake failed: {why}", host)
            connection.connection_lost(None)
        except asyncio.CancelledError:
            connection.connection_lost(None)
            raise

    async def _introduced(self, connection: Connection, sock: socket.socket, peer: tuple[Any, ...]) -> bool:
        """Read the PROXY header into the connection's origin. False: there is none, and the connection has ended."""
        limiter, reader, header = connection.limiter, ProxyReader(), None
        origin = ConnectionOrigin(unmapped(peer[0]), peer[1], limiter.settings, transport=limiter.settings.type)
        taken = False
        try:
            async with asyncio.timeout(limiter.options.opening_timeout_s):
                while header is None and (data := await asyncio.get_running_loop().sock_recv(sock, reader.missing)):
                    connection.traffic.bytes_received += len(data)
                    header = reader.feed(data)
            # without a header the peer has closed the connection, as health checks do
            if header is not None:
                connection.take_header(header, origin)
                connection.origin = origin
                taken = True
        except ProxyError as error:
            limiter.refuse_proxy(origin.peer_host, str(error))
        except TimeoutError:
            limiter.refuse_proxy(origin.peer_host, f"no PROXY header within {limiter.options.opening_timeout_s:g} s")
        except OSError:
            pass  # the peer has reset the connection, as health checks do
        finally:
            if not taken:
                sock.close()
                connection.connection_lost(None)
        return taken


def _why(error: OSError) -> str:
    """Return a reason for the log; none if the peer closed the connection, as health checks do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return ""
    return str(error) or type(error).__name__
