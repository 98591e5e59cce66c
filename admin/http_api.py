"""The management API: every command of vmq-admin over HTTP (docs/operations.md#management-api).

`GET /api/v1/session/show?--client_id&--limit=10` is VerneMQ's form: words in the path, `key=value` and flags behind it.
`POST /api/v1` with `{"words": [...]}` is what vmq-admin itself uses: of any length, and answered line by line.
"""

from __future__ import annotations

import msgspec
from aiohttp import web
from multidict import MultiMapping

from .context import Context
from .dispatch import DONE, REFUSED, handle_request, log_command, run_command
from .render import as_object

ALIASES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("cluster",): ("cluster", "show"),
    ("sessions",): ("session", "show"),
    ("listeners",): ("listener", "show"),
    ("plugins",): ("plugin", "show"),
}
"""Short paths -> commands. VerneMQ's `cluster` leads to a command that it has not any more."""
_CROSS_ORIGIN = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS",
    "Access-Control-Allow-Headers": "authorization, x-api-key",
}
_STATUS = {DONE: 200, REFUSED: 400}


def command_line(path: str, query: MultiMapping[str]) -> list[str]:
    """The words of `session/show?--limit=10&client-id=x`; a flag without a value, or with an empty one, is a switch."""
    named = tuple(word for word in path.split("/") if word)
    words = [*ALIASES.get(named, named)]
    for name, value in query.items():
        words.append(name if name.startswith("-") and not value else f"{name}={value}")
    return words


async def by_path(context: Context, request: web.Request) -> web.StreamResponse:
    """Carry out the command that path and query say: 200, 400 if it is wrong or not possible, 500."""
    words = command_line(request.match_info["command"], request.query)
    log_command(context, words, str(request.remote))
    parts, status = await run_command(context, words)
    objects = [as_object(part) for part in parts]
    body = msgspec.json.encode(objects[0] if len(objects) == 1 else objects)
    return web.Response(body=body, status=_STATUS.get(status, 500), content_type="application/json")


async def by_words(context: Context, request: web.Request) -> web.StreamResponse:
    """Carry out the command of the body."""
    return await handle_request(context, request, str(request.remote))


async def options(request: web.Request) -> web.StreamResponse:
    """What browsers ask before they let a page of another host in; needs no key, and tells nothing."""
    return web.Response(headers=_CROSS_ORIGIN)
