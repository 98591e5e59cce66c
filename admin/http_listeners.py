"""The HTTP listeners of a node, on aiohttp. The commands of MQTT listeners also apply to them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from logging import WARNING, Logger, LoggerAdapter, getLogger
from traceback import format_exception
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from ..broker.listeners.handshake import SocketAcceptor
from ..broker.listeners.limiter import RESERVED, LimiterOptions, Refusals
from ..broker.listeners.listener import ListenerRow
from ..broker.listeners.revocations import stamp_of, watch
from ..broker.listeners.sockets import ListenError, backlog, bind, cannot_listen
from ..broker.listeners.tls import TlsError, check_depth, make_context, reload_each
from ..broker.reporting.log_line import Line
from ..configs import ListenerSettings

TYPES = ("http", "https")
REQUEST_S = 10.0
"""Time limit, in seconds, for receiving a request. A connection carries one request, so this ends slow clients."""
_LINGER_S = 1.0
"""Time for which the rest of a refused request is read and discarded, so that the client gets the response."""
_LEAVE_S = 2.0
"""Time limit for running requests when their listener stops."""
_CLOSE_TURNS = 100
"""Most turns of the loop to wait for a closed socket. uvloop closes it one or two turns later."""

Log = Callable[[str, str], None]
"""Writes a line of the log: level as in vernemq.conf, and text."""

ApplicationFactory = Callable[[ListenerSettings], web.Application]
"""Makes the application of a listener."""


class _Entrance(asyncio.Protocol):
    """The beginning of a connection: `admit` returns its handler, or None for one that must be closed."""

    def __init__(self, admit: Callable[[asyncio.BaseTransport], RequestHandler | None]) -> None:
        self._admit = admit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        handler = self._admit(transport)
        if handler is None:
            transport.close()
        else:
            transport.set_protocol(handler)
            handler.connection_made(transport)


class _TlsEntrance(SocketAcceptor):
    """Accepts connections as `_Entrance` does, with TLS. It calls `admit` before the handshake of a connection, so that
    unfinished handshakes count, and `fits` after the handshake. `context` returns the present certificates and the
    revocation list."""

    def __init__(
        self,
        admit: Callable[[int], RequestHandler | None],
        fits: Callable[[asyncio.BaseTransport], bool],
        context: Callable[[], ssl.SSLContext],
        timeout_s: float | None,
        log: Log,
    ) -> None:
        super().__init__(self._let_in, log)
        self._admit = admit
        self._fits = fits
        self._context = context
        self._timeout_s = timeout_s
        self.shaking: dict[RequestHandler, asyncio.Task[None]] = {}

    def _let_in(self, sock: socket.socket, _peer: tuple[Any, ...]) -> None:
        handler = self._admit(sock.fileno())
        if handler is None:
            sock.close()
        else:
            task = self.shaking[handler] = self.shake(self._shake(handler, sock))
            task.add_done_callback(lambda _: self.shaking.pop(handler))

    def end(self, handler: RequestHandler) -> None:
        """End the handshake of this connection, if it is not over."""
        task = self.shaking.get(handler)
        if task is not None:
            task.cancel()

    async def _shake(self, handler: RequestHandler, sock: socket.socket) -> None:
        with suppress(OSError):  # the client sends no TLS, or is gone
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Entrance(lambda transport: handler if self._fits(transport) else None),
                sock,
                ssl=self._context(),
                ssl_handshake_timeout=self._timeout_s,
            )


class _ServerLog(LoggerAdapter[Logger]):
    """The log of aiohttp: a malformed request is one line, a defect of this node is a line with its traceback."""

    def __init__(self, key: str, log: Log) -> None:
        super().__init__(getLogger("aiohttp.server"))
        self._key = key
        self._say = log

    def log(self, level: int, msg: object, *args: Any, exc_info: Any = None, **_: Any) -> None:
        """As `Logger.log`. It drops lines below the level warning, except those about malformed requests."""
        error = exc_info if isinstance(exc_info, BaseException) else sys.exc_info()[1] if exc_info else None
        if isinstance(error, HttpProcessingError):
            text = " ".join(error.message.split())
            self._say(
                "info",
                Line("http.malformed", f"{self._key}: malformed request", peer=args[0] if args else "", reason=text),
            )
        elif level >= WARNING:
            said = str(msg) % args if args else str(msg)
            cause = f": {''.join(format_exception(error))}" if error is not None else ""
            self._say("error", Line("http.failed", f"{self._key}: {said}{cause}"))


class HttpListener:
    """One HTTP listener, running or stopped."""

    def __init__(
        self, settings: ListenerSettings, pages: ApplicationFactory, log: Log, options: LimiterOptions
    ) -> None:
        self.settings = settings
        self._make_application = pages
        self._log = log
        self._options = options
        self._context: ssl.SSLContext | None = None
        self._refresh: asyncio.Task[None] | None = None
        self._refusals = Refusals(self._say, lambda: asyncio.get_running_loop().time())
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | _TlsEntrance | None = None
        self._socket: socket.socket | None = None
        self._accepted = 0
        self._awaiting_request: set[object] = set()
        """Connections that have not sent a whole request, each for at most `REQUEST_S` seconds."""

    @property
    def running(self) -> bool:
        """Whether it accepts connections."""
        return self._server is not None

    def row(self) -> ListenerRow:
        """The row of this listener for `listener show`."""
        settings = self.settings
        return ListenerRow(
            settings.key,
            settings.type,
            "running" if self.running else "stopped",
            f"local:{settings.unix_path}" if settings.unix_path is not None else settings.host,
            settings.port,
            settings.mountpoint,
            settings.max_connections,
            self._active,
            self._accepted,
        )

    @property
    def _active(self) -> int:
        server = self._runner.server if self._runner is not None else None
        shaking = len(self._server.shaking) if isinstance(self._server, _TlsEntrance) else 0
        return shaking + (len(server.connections) if server is not None else 0)

    async def start(self) -> None:
        """Listen. Raises `ListenError` and stays stopped."""
        if self._server is not None:
            return
        settings = self.settings
        seen = stamp_of(settings.crlfile) if settings.uses_tls and settings.crlfile else None
        if settings.uses_tls:
            try:
                self._context = make_context(settings)
            except TlsError as error:
                raise cannot_listen(settings, str(error)) from None
        listening = bind(settings)
        application = self._make_application(settings)
        application.middlewares.append(self._one_request)
        runner = web.AppRunner(
            application,
            access_log=None,
            logger=_ServerLog(settings.key, self._log),
            shutdown_timeout=_LEAVE_S,
            lingering_time=_LINGER_S,
            max_line_size=settings.max_request_line_length,
            max_field_size=settings.max_header_value_length,
        )
        await runner.setup()
        if settings.uses_tls:
            self._server = _TlsEntrance(
                self._admit, self._fits, self._present_context, settings.tls_handshake_timeout_s, self._say
            )
            self._server.start(listening, backlog(settings))
        else:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: _Entrance(self._admit_plain), sock=listening, backlog=backlog(settings)
            )
        self._runner = runner
        self._socket = listening
        if settings.unix_path is None:
            self.settings = msgspec.structs.replace(settings, port=listening.getsockname()[1])
        if settings.uses_tls and settings.crlfile and self._options.crl_refresh_interval_s > 0:
            watching = watch(settings.crlfile, seen, self._options.crl_refresh_interval_s, self.reload_tls, self._say)
            self._refresh = asyncio.get_running_loop().create_task(watching)

    async def reload_tls(self) -> None:
        """Read certificate, key and revocation list again, for connections from now on.

        Raises `TlsError`; then the earlier ones stay in force.
        """
        if self.settings.uses_tls:
            self._context = await asyncio.to_thread(make_context, self.settings)

    def _present_context(self) -> ssl.SSLContext:
        assert self._context is not None
        return self._context

    def _fits(self, transport: asyncio.BaseTransport) -> bool:
        """Whether the client's chain of certificates is short enough."""
        settings, tls = self.settings, transport.get_extra_info("ssl_object")
        if not settings.require_certificate or check_depth(tls, settings.depth):
            return True
        why = f"the chain of certificates is longer than depth = {settings.depth} allows"
        self._log("info", Line("tls.fail", f"{settings.key}: TLS handshake failed: {why}"))
        return False

    def _say(self, level: str, text: str) -> None:
        self._log(level, f"{self.settings.key}: {text}")

    def _admit_plain(self, transport: asyncio.BaseTransport) -> RequestHandler | None:
        return self._admit(transport.get_extra_info("socket").fileno())

    def _admit(self, descriptor: int) -> RequestHandler | None:
        """The handler of a new connection with this file descriptor; None if it is beyond a limit."""
        limit = self.settings.max_connections
        if self._runner is None or self._runner.server is None or (limit is not None and self._active >= limit):
            return None
        if 0 < self._options.max_descriptor < descriptor:
            self._refusals.note(RESERVED)
            return None
        self._accepted += 1
        handler = self._runner.server()
        self._awaiting_request.add(handler)
        asyncio.get_running_loop().call_later(REQUEST_S, self._close_if_silent, handler)
        return handler

    @web.middleware
    async def _one_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Handle the request, and close the connection.

        `_close_if_silent` ends a connection whose headers take too long. The page reads the body if it needs one, after
        the check of the API key: a stranger's body takes no memory.
        """
        self._awaiting_request.discard(request.protocol)
        response = await handler(request)
        response.force_close()
        return response

    def _close_if_silent(self, handler: RequestHandler) -> None:
        if handler in self._awaiting_request:
            self._awaiting_request.discard(handler)
            if isinstance(self._server, _TlsEntrance):
                self._server.end(handler)
            handler.force_close()

    async def stop(self) -> asyncio.Task[None] | None:
        """Close the port. The returned task waits for running requests and closes the connections.

        The caller need not wait for the task: the request to stop this listener may be one of them.
        """
        server, self._server = self._server, None
        runner, self._runner = self._runner, None
        listening, self._socket = self._socket, None
        refresh, self._refresh = self._refresh, None
        if refresh is not None:
            refresh.cancel()
        if isinstance(server, _TlsEntrance):
            for handler in list(server.shaking):
                server.end(handler)
            await server.close()
        elif server is not None:
            server.close()
        for _ in range(_CLOSE_TURNS):
            if listening is None or listening.fileno() == -1:
                break
            await asyncio.sleep(0)
        return None if runner is None else asyncio.create_task(runner.cleanup())


class HttpListeners:
    """The HTTP listeners of a node, by key. Of the `options` the limit of descriptors and the interval of revocation
    lists count."""

    def __init__(self, log: Log, options: LimiterOptions | None = None) -> None:
        self._log = log
        self._options = options if options is not None else LimiterOptions()
        self._listeners: dict[str, HttpListener] = {}
        self._make_application: ApplicationFactory | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def start(self, settings: Iterable[ListenerSettings], pages: ApplicationFactory) -> None:
        """Open the listeners of HTTP types. Raises the `ListenError` of the first that fails."""
        self._make_application = pages
        for one in settings:
            if one.type in TYPES:
                await self.add(one)

    async def reload_tls(self) -> list[str]:
        """Read all certificates, keys and revocation lists again. Returns a line for each listener that failed."""
        return await reload_each(list(self._listeners.values()))

    async def add(self, settings: ListenerSettings) -> ListenerRow:
        """Open a listener. Raises `ListenError`; the other listeners continue."""
        assert self._make_application is not None, "call start first"
        if settings.key in self._listeners:
            raise ListenError(f"{settings.key}: there is a listener of that name")
        listener = HttpListener(settings, self._make_application, self._log, self._options)
        await listener.start()
        self._listeners[settings.key] = listener
        self._log("info", f"{settings.key}: listening on {listener.settings.address}")
        return listener.row()

    async def stop(self, which: str) -> None:
        """Stop a listener. Raises `ListenError` if there is none."""
        await self._stop(self.find(which))

    async def restart(self, which: str) -> None:
        """Start a stopped listener on its port. Raises `ListenError`."""
        await self.find(which).start()

    async def delete(self, which: str) -> None:
        """Stop a listener and remove it. Raises `ListenError` if there is none."""
        listener = self.find(which)
        await self._stop(listener)
        del self._listeners[listener.settings.key]

    def find(self, which: str) -> HttpListener:
        """Find a listener by key or `HOST:PORT`. Raises `ListenError`."""
        for key, listener in self._listeners.items():
            if which in (key, listener.settings.address):
                return listener
        raise ListenError(f"there is no listener {which}")

    def show(self) -> list[ListenerRow]:
        """The rows of all listeners, in the order in which they were opened."""
        return [listener.row() for listener in self._listeners.values()]

    async def close(self) -> None:
        """Stop all listeners and wait for their requests."""
        for listener in self._listeners.values():
            await self._stop(listener)
        self._listeners.clear()
        await asyncio.gather(*self._ending)

    async def _stop(self, listener: HttpListener) -> None:
        ending = await listener.stop()
        if ending is not None:
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
