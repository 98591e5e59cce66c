"""The administration server of a node: the unix socket and the HTTP listeners, in the process of the broker."""

from __future__ import annotations

import random
import time
from pathlib import Path

from ..broker.listeners.limiter import limiter_options
from ..broker.process.server import Server
from . import http_pages
from .api_keys import ApiKeys, key_store_of
from .commands import session, slot
from .context import Context
from .fan_out import answer_peers
from .http_listeners import HttpListeners
from .metrics import Metrics
from .unix_socket import AdminSocket


class AdminServer:
    """An extension of the daemon, which calls `start(server)` after the start of the broker and `stop` before its stop.

    `start` raises `ListenError` if the unix socket or an HTTP listener cannot be opened, and leaves none of them open.
    """

    def __init__(self) -> None:
        self.context: Context | None = None
        self._socket: AdminSocket | None = None

    async def start(self, server: Server) -> None:
        """Open `node.admin_socket` and every `listener.http.*` and `listener.https.*`."""
        settings = server.settings
        http = HttpListeners(server.log, limiter_options(settings, server.descriptors.for_connections))
        api_keys = ApiKeys(
            key_store_of(server),
            int(settings["min_apikey_length"]),
            settings["max_apikey_expiry_days"],
            time.time,
            random.SystemRandom().choice,
        )
        self.context = context = Context(server, http, Metrics(server), api_keys)
        answer_peers(context, {**session.LOCAL_HANDLERS, **slot.LOCAL_HANDLERS, **http_pages.LOCAL_HANDLERS})
        self._socket = AdminSocket(context, Path(str(settings["node.admin_socket"])))
        try:
            await context.metrics.start()
            server.systree.values = context.metrics.since_start
            await self._socket.start()
            await http.start(settings.listeners(), lambda one: http_pages.application_for(context, one))
        except BaseException:
            await self.stop()
            raise

    async def reload(self) -> list[str]:
        """Read the certificates of the HTTP listeners again. Returns a line for each listener that failed."""
        return [] if self.context is None else await self.context.http.reload_tls()

    async def stop(self) -> None:
        """Close the unix socket and the HTTP listeners."""
        if self.context is not None:
            await self.context.http.close()
            await self.context.metrics.stop()
        if self._socket is not None:
            await self._socket.stop()
