"""All MQTT listeners of a node, as the node's start and `vmq-admin listener` handle them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ...configs import ListenerSettings
from ..connection.transport import MakeConnection
from .limiter import ConnectionLimiter, LimiterOptions
from .listener import Listener, ListenerRow
from .sockets import ListenError
from .tls import TlsError
from .traffic import Traffic
from .websocket import SHUTTING_DOWN

TYPES = ("tcp", "ssl", "ws", "wss")
"""The listeners that speak MQTT; all others in the configuration are somebody else's."""
_ABORT_GRACE_S = 1.0

__all__ = ["TYPES", "ListenError", "ListenerRow", "Listeners"]


class Listeners:
    """The doors of a node. All methods belong to the running event loop; `log` takes a level and a line."""

    def __init__(
        self, log: Callable[[str, str], None], options: LimiterOptions | None = None, traffic: Traffic | None = None
    ) -> None:
        self.traffic = traffic if traffic is not None else Traffic()
        self._log = log
        self._options = options if options is not None else LimiterOptions()
        self._listeners: dict[str, Listener] = {}
        self._former: list[ConnectionLimiter] = []
        """Doors of deleted listeners through which somebody is still connected."""
        self._make_front: MakeConnection | None = None

    async def start(self, settings: Iterable[ListenerSettings], make_front: MakeConnection) -> None:
        """Open all MQTT listeners, or none: the first that cannot be opened raises `ListenError`."""
        self._make_front = make_front
        try:
            for one in settings:
                if one.type in TYPES:
                    await self.add(one)
        except ListenError:
            for listener in self._listeners.values():
                await listener.stop()
                listener.end_connections(SHUTTING_DOWN)
                self._former.append(listener.door)
            self._listeners.clear()
            raise

    async def add(self, settings: ListenerSettings) -> ListenerRow:
        """Open one more listener. Raises `ListenError`; the others go on."""
        assert self._make_front is not None, "start comes first"
        if settings.key in self._listeners:
            raise ListenError(f"{settings.key}: there is a listener of that name")
        if settings.type not in TYPES:
            raise ListenError(f"{settings.key}: not a listener for MQTT")
        listener = Listener(settings, self._make_front, self.traffic, self._options, self._log)
        await listener.start()
        self._listeners[settings.key] = listener
        listener.door.log("info", f"listening on {listener.settings.address}")
        return listener.row()

    async def stop(self, which: str, kill_sessions: bool = False) -> None:
        """Suspend a listener: its port is closed, its connections stay unless they are to be killed too."""
        listener = self.find(which)
        await listener.stop()
        if kill_sessions:
            listener.end_connections("listener_stopped")

    async def suspend(self, kill_sessions: bool) -> None:
        """Suspend all of them, as `stop` does one."""
        for key in list(self._listeners):
            await self.stop(key, kill_sessions)
        for door in self._former if kill_sessions else ():
            for connection in list(door.connections):
                connection.end("listener_stopped")

    async def restart(self, which: str) -> None:
        """Resume a listener, on the port that it had."""
        await self.find(which).start()

    async def delete(self, which: str, kill_sessions: bool = False) -> None:
        """Stop a listener and forget it."""
        listener = self.find(which)
        await self.stop(which, kill_sessions)
        del self._listeners[listener.settings.key]
        self._former = [door for door in (*self._former, listener.door) if door.connections]

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
        doors = [listener.door for listener in self._listeners.values()] + self._former
        return sum(len(door.connections) for door in doors if not types or door.settings.type in types)

    async def reload_tls(self) -> list[str]:
        """Read all certificates, keys and revocation lists again; what went wrong, a line per listener."""
        problems = []
        for listener in self._listeners.values():
            try:
                await listener.reload_tls()
            except TlsError as error:
                problems.append(f"{listener.settings.key}: {error}")
        return problems

    async def close(self, grace_s: float) -> None:
        """Stop accepting and close every connection; what is not gone after `grace_s` seconds is cut off."""
        doors = [listener.door for listener in self._listeners.values()] + self._former
        for listener in self._listeners.values():
            await listener.stop()
        for door in doors:
            for connection in list(door.connections):
                connection.end(SHUTTING_DOWN)
        if not await _emptied(doors, grace_s):
            for door in doors:
                for connection in list(door.connections):
                    connection.abort()
            await _emptied(doors, _ABORT_GRACE_S)
        self._listeners.clear()
        self._former.clear()


async def _emptied(doors: list[ConnectionLimiter], within_s: float) -> bool:
    """Wait until nobody is connected any more; False if that takes too long."""
    empty = asyncio.Event()

    def check() -> None:
        if not any(door.connections for door in doors):
            empty.set()

    for door in doors:
        door.when_empty = check
    check()
    try:
        async with asyncio.timeout(within_s):
            await empty.wait()
    except TimeoutError:
        return False
    return True
