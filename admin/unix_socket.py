"""The unix socket on which a node takes commands of vmq-admin. The mode of the file, 0600, is the access control.

`POST /command` with `{"words": [...]}` is answered with the lines of `wire`.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from aiohttp import web

from ..broker.listeners.sockets import ListenError, bind, remove_socket_file
from ..configs import ListenerSettings
from .context import Context
from .dispatch import MAX_REQUEST_BYTES, handle_request

_LEAVE_S = 2.0
"""Time for which `stop` waits for running commands."""


class AdminSocket:
    """The unix socket and its HTTP server."""

    def __init__(self, context: Context, path: Path) -> None:
        self._context = context
        self._path = path
        self._inode = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. Raises `ListenError`."""
        application = web.Application(client_max_size=MAX_REQUEST_BYTES)
        application.router.add_post("/command", self._command)
        listening = self._bind()
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=_LEAVE_S)
        await self._runner.setup()
        await web.SockSite(self._runner, listening).start()

    def _bind(self) -> socket.socket:
        """Create the socket file. It gets its mode before it listens, so no other user can connect."""
        settings = ListenerSettings(type="http", name="admin", host="", port=0, unix_path=str(self._path))
        try:
            listening = bind(settings)
        except ListenError as error:
            problem = str(error).removeprefix(f"{settings.key}: ")
            raise ListenError(f"node.admin_socket: {problem}") from None
        os.chmod(self._path, stat.S_IRUSR | stat.S_IWUSR)
        self._inode = os.stat(self._path).st_ino
        return listening

    async def stop(self) -> None:
        """Close it and remove the file."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
            remove_socket_file(str(self._path), self._inode)

    async def _command(self, request: web.Request) -> web.StreamResponse:
        return await handle_request(self._context, request)
