"""The HTTP listeners of a node: opened, suspended and shown like those for MQTT, served by aiohttp."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import Callable, Iterable
from logging import WARNING, Logger, LoggerAdapter, getLogger
from traceback import format_exception
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from ..broker.listeners.listener import ListenerRow
from ..broker.listeners.sockets import ListenError, backlog, bind, cannot_listen
from ..broker.listeners.tls import TlsError, make_context
from ..broker.reporting.log_line import Line
from ..configs import ListenerSettings

TYPES = ("http", "https")
REQUEST_S = 10.0
"""How long a connection may take to bring its request; each brings one, so that nobody can hold one for ever."""
_LINGER_S = 1.0
"""How long the rest of a request that is refused is read and thrown away, so that its sender sees the answer."""
_LEAVE_S = 2.0
"""How long requests under way may go on when their listener is stopped."""
_CLOSE_TURNS = 100
"""uvloop closes a listening socket one or two turns later; this many are enough, and an end."""

Log = Callable[[str, str], None]
"""Takes a level of vernemq.conf and a line."""

ApplicationFactory = Callable[[ListenerSettings], web.Application]
"""Makes what a listener serves."""


class _RefusedConnection(asyncio.Protocol):
    """A connection above `max_connections`."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class _ServerLog(LoggerAdapter[Logger]):
    """What aiohttp logs: a client that speaks no HTTP/1 is a line without a traceback, a defect of ours one with it."""

    def __init__(self, key: str, log: Log) -> None:
        super().__init__(getLogger("aiohttp.server"))
        self._key = key
        self._say = log

    def log(self, level: int, msg: object, *args: Any, exc_info: Any = None, **_: Any) -> None:
        """As `Logger.log`; what is less than a warning is left out, unless it tells of a malformed request."""
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
    """One of them, running or stopped."""

    def __init__(self, settings: ListenerSettings, pages: ApplicationFactory, log: Log) -> None:
        self.settings = settings
        self._make_application = pages
        self._log = log
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._socket: socket.socket | None = None
        self._accepted = 0
        self._awaiting_request: set[object] = set()
        """Connections whose request has not come; each for `REQUEST_S` at most."""

    @property
    def running(self) -> bool:
        """Whether it accepts connections."""
        return self._server is not None

    def row(self) -> ListenerRow:
        """What there is to show."""
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
        return len(server.connections) if server is not None else 0

    async def start(self) -> None:
        """Listen. Raises `ListenError`; then it is stopped as before."""
        if self._server is not None:
            return
        settings = self.settings
        if settings.proxy_protocol:
            raise cannot_listen(settings, "HTTP listeners do not read PROXY headers; set proxy_protocol = off")
        context: ssl.SSLContext | None = None
        if settings.uses_tls:
            try:
                context = make_context(settings)
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
        handshake_s = settings.tls_handshake_timeout_s if context is not None else None
        self._server = await asyncio.get_running_loop().create_server(
            self._connection,
            sock=listening,
            backlog=backlog(settings),
            ssl=context,
            ssl_handshake_timeout=handshake_s,
        )
        self._runner = runner
        self._socket = listening
        if settings.unix_path is None:
            self.settings = msgspec.structs.replace(settings, port=listening.getsockname()[1])

    def _connection(self) -> asyncio.Protocol:
        assert self._runner is not None and self._runner.server is not None
        limit = self.settings.max_connections
        if limit is not None and self._active >= limit:
            return _RefusedConnection()
        self._accepted += 1
        handler = self._runner.server()
        self._awaiting_request.add(handler)
        asyncio.get_running_loop().call_later(REQUEST_S, self._close_if_silent, handler)
        return handler

    @web.middleware
    async def _one_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer when the whole request has come, and close the connection then.

        A body that comes too slowly ends with its connection, as headers do: `_close_if_silent`.
        """
        try:
            await request.read()
        except ConnectionError:
            return web.Response(status=web.HTTPRequestTimeout.status_code)  # nobody is there to read it
        finally:
            self._awaiting_request.discard(request.protocol)
        response = await handler(request)
        response.force_close()
        return response

    def _close_if_silent(self, handler: RequestHandler) -> None:
        if handler in self._awaiting_request:
            self._awaiting_request.discard(handler)
            handler.force_close()

    async def stop(self) -> asyncio.Task[None] | None:
        """Close the port; the task that is returned closes the connections, for no session hangs on them.

        It waits for requests under way: that this listener be stopped may be one of them.
        """
        server, self._server = self._server, None
        runner, self._runner = self._runner, None
        listening, self._socket = self._socket, None
        if server is not None:
            server.close()
        for _ in range(_CLOSE_TURNS):
            if listening is None or listening.fileno() == -1:
                break
            await asyncio.sleep(0)
        return None if runner is None else asyncio.create_task(runner.cleanup())


class HttpListeners:
    """All of a node, by key."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._listeners: dict[str, HttpListener] = {}
        self._make_application: ApplicationFactory | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def start(self, settings: Iterable[ListenerSettings], pages: ApplicationFactory) -> None:
        """Open those among the configured listeners that are for HTTP; the first that fails raises `ListenError`."""
        self._make_application = pages
        for one in settings:
            if one.type in TYPES:
                await self.add(one)

    async def add(self, settings: ListenerSettings) -> ListenerRow:
        """Open one more. Raises `ListenError`; the others go on."""
        assert self._make_application is not None, "start comes first"
        if settings.key in self._listeners:
            raise ListenError(f"{settings.key}: there is a listener of that name")
        listener = HttpListener(settings, self._make_application, self._log)
        await listener.start()
        self._listeners[settings.key] = listener
        self._log("info", f"{settings.key}: listening on {listener.settings.address}")
        return listener.row()

    async def stop(self, which: str) -> None:
        """Suspend one."""
        await self._stop(self.find(which))

    async def restart(self, which: str) -> None:
        """Resume one, on the port that it had."""
        await self.find(which).start()

    async def delete(self, which: str) -> None:
        """Stop one and forget it."""
        listener = self.find(which)
        await self._stop(listener)
        del self._listeners[listener.settings.key]

    def find(self, which: str) -> HttpListener:
        """By key or `HOST:PORT`. Raises `ListenError`."""
        for key, listener in self._listeners.items():
            if which in (key, listener.settings.address):
                return listener
        raise ListenError(f"there is no listener {which}")

    def show(self) -> list[ListenerRow]:
        """All, in the order in which they were opened."""
        return [listener.row() for listener in self._listeners.values()]

    async def close(self) -> None:
        """Stop all."""
        for listener in self._listeners.values():
            await self._stop(listener)
        self._listeners.clear()
        await asyncio.gather(*self._ending)

    async def _stop(self, listener: HttpListener) -> None:
        ending = await listener.stop()
        if ending is not None:
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
