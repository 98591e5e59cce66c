"""The operators' side of a node, beside the broker in its process: the local door and the HTTP listeners."""

from __future__ import annotations

from pathlib import Path

from ..broker.server import Server
from .context import Context
from .door import LocalDoor
from .http_listeners import HttpListeners
from .http_pages import pages_for
from .metrics import Metrics


class AdminService:
    """An extension of the daemon: `start(server)` once the server runs, `stop` before it stops.

    `start` raises `ListenError` if the socket or an HTTP listener cannot be opened; then nothing of it is left open.
    """

    def __init__(self) -> None:
        self.context: Context | None = None
        self._door: LocalDoor | None = None

    async def start(self, server: Server) -> None:
        """Open `node.admin_socket` and every `listener.http.*` and `listener.https.*`."""
        http = HttpListeners(server.log)
        self.context = context = Context(server, http, Metrics(server))
        self._door = LocalDoor(context, Path(str(server.settings["node.admin_socket"])))
        try:
            await self._door.start()
            await http.start(server.settings.listeners(), lambda settings: pages_for(context, settings))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close everything."""
        if self.context is not None:
            await self.context.http.close()
        if self._door is not None:
            await self._door.stop()
