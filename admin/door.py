"""The node's local door: the unix socket at which vmq-admin reaches it. Who may open the file (mode 0600) may command.

`POST /command` with `{"words": [...]}` is answered with the lines of `wire`.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path
from traceback import format_exception

import msgspec
from aiohttp import web

from ..broker.sockets import ListenError, bind, remove_socket_file
from ..configs import ListenerSettings
from ..storage.engine import StorageError
from .catalogue import COMMANDS
from .context import Context
from .reply import Alert, CommandError, Part, Text
from .wire import to_lines
from .words import find, overview, parse

_SECRETS = ("--keypasswd",)
_LARGEST_REQUEST = 1 << 20


class Request(msgspec.Struct):
    """What vmq-admin sends."""

    words: list[str]


async def perform(context: Context, words: Sequence[str]) -> tuple[list[Part], int]:
    """Carry out a command line; its answer and exit status. Whatever is wrong with it is an alert."""
    try:
        if words[-1:] in (["--help"], ["-h"]) and (family := [c for c in COMMANDS if c.name.split()[:1] == words[:-1]]):
            return [Text(overview(family))], 0
        command, rest = find(COMMANDS, words)
        if "--help" in rest or "-h" in rest:
            return [Text(command.explain())], 0
        call = parse(command, rest)
        return await command.run(context, call), 0
    except (CommandError, ListenError) as error:
        return [Alert(str(error))], 1
    except StorageError as error:
        context.server.log("error", f"vmq-admin {' '.join(words[:2])}: {error}")
        return [Alert(f"The message store cannot be read: {error}")], 1
    except TimeoutError:
        detail = context.node.store.detail or "the disk is slow"
        return [Alert(f"Done, but it is not on the disk yet ({detail}); after a crash it may have to be repeated.")], 1
    except Exception as error:
        context.server.log("error", f"vmq-admin {loggable(words)}: {''.join(format_exception(error))}")
        return [Alert(f"The node failed to do that, which is a defect; its log has the details: {error!r}")], 1


def loggable(words: Sequence[str]) -> str:
    """The command line without secrets."""
    shown: list[str] = []
    for word in words:
        name = word.partition("=")[0]
        secret = name in _SECRETS and "=" in word
        hidden = bool(shown) and shown[-1] in _SECRETS
        shown.append(f"{name}=(hidden)" if secret else "(hidden)" if hidden else word)
    return " ".join(shown)


class LocalDoor:
    """The socket; `start`, then `stop`."""

    def __init__(self, context: Context, path: Path) -> None:
        self._context = context
        self._path = path
        self._inode = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. Raises `ListenError`."""
        application = web.Application(client_max_size=_LARGEST_REQUEST)
        application.router.add_post("/command", self._command)
        listening = self._bind()
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.SockSite(self._runner, listening).start()

    def _bind(self) -> socket.socket:
        """A socket file that nobody else may open: nobody can connect before it listens, and then it has its mode."""
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
        try:
            words = msgspec.json.decode(await request.read(), type=Request).words
        except msgspec.MsgspecError as error:
            return web.Response(status=400, text=f"{error}\n")
        # a container's health check asks for the status every few seconds
        level = "debug" if words[:2] == ["node", "status"] else "info"
        self._context.server.log(level, f"vmq-admin {loggable(words)}")
        parts, status = await perform(self._context, words)
        response = web.StreamResponse()
        response.content_type = "application/x-ndjson"
        await response.prepare(request)
        for line in to_lines(parts, status):
            await response.write(line)
        await response.write_eof()
        return response
