"""All MQTT listeners of a node, for the node's start and for `vmq-admin listener`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ...configs import ListenerSettings
from ..connection.transport import MakeConnection
from .limiter import ConnectionLimiter, LimiterOptions
from .listener import Listener, ListenerRow
from .sockets import ListenError
from .tls import reload_each
from .traffic import Traffic
from .websocket import SHUTTING_DOWN

TYPES = ("tcp", "ssl", "ws", "wss")
"""The types of listeners for MQTT; other modules open the other listeners of the configuration."""
_ABORT_GRACE_S = 1.0

__all__ = ["TYPES", "ListenError", "ListenerRow", "Listeners"]


class Listeners:
    """The MQTT listeners of a node. Call all methods in the running event loop. `log` takes a level and a line."""

    def __init__(
        self, log: Callable[[str, str], None], options: LimiterOptions | None = None, traffic: Traffic | None = None
    ) -> None:
        self.traffic = traffic if traffic is not None else Traffic()
        self._log = log
        self._options = options if options is not None else LimiterOptions()
        self._listeners: dict[str, Listener] = {}
        self._former: list[ConnectionLimiter] = []
        """Limiters of deleted listeners that still have connections."""
        self._make_handler: MakeConnection | None = None

    async def start(self, settings: Iterable[ListenerSettings], make_handler: MakeConnection) -> None:
        """Open all MQTT listeners. Raises `ListenError` for the first that fails, and then none is open."""
        self._make_handler = make_handler
        try:
            for one in settings:
                if one.type in TYPES:
                    await self.add(one)
        except ListenError:
            for listener in self._listeners.values():
                await listener.stop()
                listener.end_connections(SHUTTING_DOWN)
                self._former.append(listener.limiter)
            self._listeners.clear()
            raise

    async def add(self, settings: ListenerSettings) -> ListenerRow:
        """Open one more listener. Raises `ListenError`; the other listeners stay open."""
        assert self._make_handler is not None, "start comes first"
        if settings.key in self._listeners:
            raise ListenError(f"{settings.key}: a listener of that name exists already")
        if settings.type not in TYPES:
            raise ListenError(f"{settings.key}: not a listener for MQTT")
        listener = Listener(settings, self._make_handler, self.traffic, self._options, self._log)
        await listener.start()
        self._listeners[settings.key] = listener
        listener.limiter.log("info", f"listening on {listener.settings.address}")
        return listener.row()

    async def stop(self, which: str, kill_sessions: bool = False) -> None:
        """Suspend a listener: close its port. Its connections stay open unless `kill_sessions` is set."""
        listener = self.find(which)
        await listener.stop()
        if kill_sessions:
            listener.end_connections("listener_stopped")

    async def suspend(self, kill_sessions: bool) -> None:
        """Suspend all listeners; see `stop`."""
        for key in list(self._listeners):
            await self.stop(key, kill_sessions)
        for limiter in self._former if kill_sessions else ():
            for connection in list(limiter.connections):
                connection.end("listener_stopped")

    async def restart(self, which: str) -> None:
        """Resume a listener on its former port."""
        await self.find(which).start()

    async def delete(self, which: str, kill_sessions: bool = False) -> None:
        """Stop a listener and forget it."""
        listener = self.find(which)
        await self.stop(which, kill_sessions)
        del self._listeners[listener.settings.key]
        self._former = [limiter for limiter in (*self._former, listener.limiter) if limiter.connections]

    def find(self, which: str) -> Listener:
        """By `listener.TYPE.NAME`, `TYPE.NAME`, `HOST:PORT` or the path of a unix socket. Raises `ListenError`."""
        for key, listener in self._listeners.items():
            settings = listener.settings
            if which in (key, key.removeprefix("listener."), settings.address, settings.unix_path):
                return listener
        raise ListenError(f"there is no listener {which}")

    def show(self) -> list[ListenerRow]:
        """All listeners, in the order in which they were opened."""
        return [listener.row() for listener in self._listeners.values()]

    def active(self, *types: str) -> int:
        """Connections of the listeners of these types, of all if none is named."""
        limiters = [listener.limiter for listener in self._listeners.values()] + self._former
        return sum(len(limiter.connections) for limiter in limiters if not types or limiter.settings.type in types)

    async def reload_tls(self) -> list[str]:
        """Read all certificates, keys and revocation lists again. Returns a line for each listener that failed."""
        return await reload_each(list(self._listeners.values()))

    async def close(self, grace_s: float) -> None:
        """Stop accepting and close every connection; abort those that are still open after `grace_s` seconds."""
        limiters = [listener.limiter for listener in self._listeners.values()] + self._former
        for listener in self._listeners.values():
            await listener.stop()
        for limiter in limiters:
            for connection in list(limiter.connections):
                connection.end(SHUTTING_DOWN)
        if not await _emptied(limiters, grace_s):
            for limiter in limiters:
                for connection in list(limiter.connections):
                    connection.abort()
            await _emptied(limiters, _ABORT_GRACE_S)
        self._listeners.clear()
        self._former.clear()


async def _emptied(limiters: list[ConnectionLimiter], within_s: float) -> bool:
    """Wait until no connection is left. Returns False if that takes longer than `within_s`."""
    empty = asyncio.Event()

    def check() -> None:
        if not any(limiter.connections for limiter in limiters):
            empty.set()

    for limiter in limiters:
        limiter.when_empty = check
    check()
    try:
        async with asyncio.timeout(within_s):
            await empty.wait()
    except TimeoutError:
        return False
    return True
