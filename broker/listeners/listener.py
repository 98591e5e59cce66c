"""One listener: its socket, its limiter, and the factory of its connections."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable

import msgspec

from ...configs import ListenerSettings
from ..connection.transport import MakeConnection
from .connection import Connection, StreamConnection
from .handshake import TlsAcceptor
from .limiter import ConnectionLimiter, LimiterOptions
from .revocations import stamp_of, watch
from .sockets import backlog, bind, cannot_listen, end_listening, os_reason, remove_socket_file
from .tls import TlsError, make_context, notices
from .traffic import Traffic
from .websocket import WebSocketConnection

_CLOSE_TURNS = 100
"""Turns of the loop to wait at most: uvloop closes a listening socket one or two turns later."""
_KINDS = {"tcp": "mqtt", "ssl": "mqtts", "ws": "mqttws", "wss": "mqttwss"}
"""Type in the configuration -> type in `vmq-admin listener show`."""


class ListenerRow(msgspec.Struct, frozen=True):
    """A listener as `vmq-admin listener show` shows it; `max_conns` None is "no bound"."""

    key: str
    type: str
    status: str
    address: str
    port: int
    mountpoint: str
    max_conns: int | None
    active_conns: int
    all_conns: int


class Listener:
    """A listener, running or stopped. Stopping it does not close its connections."""

    def __init__(
        self,
        settings: ListenerSettings,
        make_handler: MakeConnection,
        traffic: Traffic,
        options: LimiterOptions,
        log: Callable[[str, str], None],
    ) -> None:
        self.limiter = ConnectionLimiter(settings, make_handler, traffic, options, log, asyncio.get_running_loop().time)
        self._server: asyncio.AbstractServer | TlsAcceptor | None = None
        self._socket: socket.socket | None = None
        self._inode = 0
        self._context: ssl.SSLContext | None = None
        self._refresh: asyncio.Task[None] | None = None

    @property
    def settings(self) -> ListenerSettings:
        """Its options; `port` is the real one once it has run."""
        return self.limiter.settings

    @property
    def running(self) -> bool:
        """Whether it accepts connections."""
        return self._server is not None

    def row(self) -> ListenerRow:
        """The row for `vmq-admin listener show`."""
        settings = self.settings
        return ListenerRow(
            settings.key,
            _KINDS[settings.type],
            "running" if self.running else "stopped",
            f"local:{settings.unix_path}" if settings.unix_path is not None else settings.host,
            settings.port,
            settings.mountpoint,
            settings.max_connections,
            len(self.limiter.connections),
            self.limiter.accepted,
        )

    async def start(self) -> None:
        """Listen. Raises `ListenError`, and then changes nothing."""
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
        try:
            self._server = await self._serve(listening)
        except OSError as error:
            listening.close()
            raise cannot_listen(settings, os_reason(error)) from None
        self._socket = listening
        if settings.unix_path is not None:
            self._inode = os.stat(settings.unix_path).st_ino
        else:
            # keep an automatically chosen port for a restart of this listener
            self.limiter.settings = msgspec.structs.replace(settings, port=listening.getsockname()[1])
        for notice in (*notices(settings), *_proxy_notices(settings)):
            self.limiter.log("warning", notice)
        interval_s = self.limiter.options.crl_refresh_interval_s
        if settings.uses_tls and settings.crlfile and interval_s > 0:
            watching = watch(settings.crlfile, seen, interval_s, self.reload_tls, self.limiter.log)
            self._refresh = asyncio.get_running_loop().create_task(watching)

    async def _serve(self, listening: socket.socket) -> asyncio.AbstractServer | TlsAcceptor:
        loop = asyncio.get_running_loop()
        waiting = backlog(self.settings)
        if self._context is not None:
            acceptor = TlsAcceptor(self._connection, self._current_context)
            acceptor.start(listening, waiting)
            return acceptor
        if self.settings.unix_path is not None:
            return await loop.create_unix_server(self._connection, sock=listening, backlog=waiting)
        return await loop.create_server(self._connection, sock=listening, backlog=waiting)

    def _connection(self) -> Connection:
        websocket = self.settings.type in ("ws", "wss")
        return WebSocketConnection(self.limiter) if websocket else StreamConnection(self.limiter)

    def _current_context(self) -> ssl.SSLContext:
        assert self._context is not None
        return self._context

    async def stop(self) -> None:
        """Accept no more connections; open ones stay. The port is free afterwards."""
        server, self._server = self._server, None
        if server is None:
            return
        if self._refresh is not None:
            self._refresh.cancel()
            self._refresh = None
        listening, self._socket = self._socket, None
        if isinstance(server, TlsAcceptor):
            await server.close()
        else:
            if listening is not None:
                end_listening(listening)
            server.close()
        for _ in range(_CLOSE_TURNS):
            if listening is None or listening.fileno() == -1:
                break
            await asyncio.sleep(0)
        if self.settings.unix_path is not None:
            remove_socket_file(self.settings.unix_path, self._inode)

    def end_connections(self, reason: str) -> None:
        """Close every connection of this listener."""
        for connection in list(self.limiter.connections):
            connection.end(reason)

    async def reload_tls(self) -> None:
        """Read certificates, keys and revocation lists again, for connections from now on.

        Raises `TlsError`; then the earlier ones stay in force.
        """
        if self.settings.uses_tls:
            self._context = await asyncio.to_thread(make_context, self.settings)


def _proxy_notices(settings: ListenerSettings) -> list[str]:
    if settings.proxy_xff_support and not settings.proxy_xff_trusted_intermediate:
        return ["proxy_xff_support = on has no effect without proxy_xff_trusted_intermediate"]
    return []
