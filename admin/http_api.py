"""The management API: every command of vmq-admin over HTTP (docs/operations.md#management-api).

`GET /api/v1/session/show?--client_id&--limit=10` is VerneMQ's form: the words in the path, arguments and flags in the
query. vmq-admin uses `POST /api/v1` with `{"words": [...]}`: it has no limit of length, and the result is streamed.
"""

from __future__ import annotations

import msgspec
from aiohttp import web
from multidict import MultiMapping

from .context import Context
from .dispatch import DONE, REFUSED, handle_request, log_command, run_command
from .grammar import find
from .registry import COMMANDS
from .render import as_object
from .result import CommandError, Part, Table
from .wire import pieces

ALIASES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("cluster",): ("cluster", "show"),
    ("sessions",): ("session", "show"),
    ("listeners",): ("listener", "show"),
    ("plugins",): ("plugin", "show"),
}
"""Short paths -> commands. In VerneMQ the path `cluster` names a command that no longer exists."""
_CROSS_ORIGIN = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS",
    "Access-Control-Allow-Headers": "authorization, x-api-key",
}
_STATUS = {DONE: 200, REFUSED: 400}


def command_line(path: str, query: MultiMapping[str]) -> list[str]:
    """The words of `session/show?--limit=10&client-id=x`. A flag without a value is a switch, unless it needs one."""
    named = tuple(word for word in path.split("/") if word)
    words = [*ALIASES.get(named, named)]
    needing = _flags_with_value(words)
    for name, value in query.items():
        switch = name.startswith("-") and not value and name not in needing
        words.append(name if switch else f"{name}={value}")
    return words


def _flags_with_value(words: list[str]) -> set[str]:
    """The flags of this command that need a value. An empty one must not take the next word of the line instead."""
    try:
        command, _ = find(COMMANDS, words)
    except CommandError:
        return set()
    return {
        name
        for flag in command.flags
        if flag.value and not flag.optional
        for name in (f"--{flag.name}", f"-{flag.short}")
    }


async def by_path(context: Context, request: web.Request) -> web.StreamResponse:
    """Run the command of path and query. Status 200; 400 if it is refused; 500 if the node failed."""
    words = command_line(request.match_info["command"], request.query)
    log_command(context, words, str(request.remote))
    parts, status = await run_command(context, words)
    objects = [await _encoded(context, part) for part in parts]
    body = objects[0] if len(objects) == 1 else b"[" + b",".join(objects) + b"]"
    return web.Response(body=body, status=_STATUS.get(status, 500), content_type="application/json")


async def _encoded(context: Context, part: Part) -> bytes:
    """A part as a status object of VerneMQ. Other tasks run between the pieces of a long table."""
    if not isinstance(part, Table):
        return msgspec.json.encode(as_object(part))
    time_slice = context.time_slice()
    encoded = []
    for rows in pieces(part.rows):
        piece = as_object(Table(part.columns, rows))["table"]
        encoded.append(msgspec.json.encode(piece)[1:-1])  # without the brackets
        await time_slice.yield_if_due()
    return b'{"type":"table","table":[' + b",".join(encoded) + b"]}"


async def by_words(context: Context, request: web.Request) -> web.StreamResponse:
    """Run the command of the body."""
    return await handle_request(context, request, str(request.remote))


async def options(request: web.Request) -> web.StreamResponse:
    """Answer the preflight request of a browser (CORS). It needs no API key."""
    return web.Response(headers=_CROSS_ORIGIN)
