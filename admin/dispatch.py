"""Runs a command line that the unix socket or the management API has received."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from traceback import format_exception

import msgspec
from aiohttp import web

from ..broker.clustering.operator_port import ClusterError
from ..broker.listeners.sockets import ListenError
from ..broker.reporting.journal import ADMIN_COMMAND
from ..broker.reporting.log_line import Line
from ..storage.engine import StorageError
from .context import Context
from .grammar import Report, find, overview, parse
from .registry import COMMANDS
from .result import Alert, CommandError, Part, Text
from .secret_words import redacted
from .wire import progress_line, to_lines

CONTENT_TYPE = "application/x-ndjson"
MAX_REQUEST_BYTES = 1 << 20
REQUEST_S = 10.0
"""Time limit for receiving a command line."""
DONE, REFUSED, FAILED = 0, 1, 2
"""Status of a command: done, refused (the command is wrong or impossible, or its result is incomplete), failed (the
cause is in the node)."""


class Request(msgspec.Struct):
    """The body of a request of vmq-admin."""

    words: list[str]


async def run_command(context: Context, words: Sequence[str], report: Report | None = None) -> tuple[list[Part], int]:
    """Run a command line. Returns its result, and DONE, REFUSED or FAILED. An error is an alert in the result.

    Lines of progress go to `report`; without `report` they are the beginning of the result.
    """
    told: list[Part] = []

    async def keep(line: str) -> None:
        told.append(Text(line))

    parts, status = await _dispatch(context, words, report or keep)
    return told + parts, status


async def _dispatch(context: Context, words: Sequence[str], report: Report) -> tuple[list[Part], int]:
    try:
        if words[-1:] in (["--help"], ["-h"]) and (family := [c for c in COMMANDS if c.name.split()[:1] == words[:-1]]):
            return [Text(overview(family))], DONE
        command, rest = find(COMMANDS, words)
        if "--help" in rest or "-h" in rest:
            return [Text(command.explain())], DONE
        call = parse(command, rest, report)
        parts = await command.run(context, call)
        incomplete = any(isinstance(part, Alert) and part.incomplete for part in parts)
        return parts, REFUSED if incomplete else DONE
    except (CommandError, ListenError, ClusterError) as error:
        return [Alert(str(error))], REFUSED
    except StorageError as error:
        context.server.log("error", f"vmq-admin {redacted(words)}: {error}")
        return [Alert(f"The message store cannot be read: {error}")], FAILED
    except TimeoutError:
        said = f"Done, but it is not durable yet ({context.delay}); after a crash repeat the command."
        return [Alert(said)], FAILED
    except Exception as error:
        context.server.log("error", f"vmq-admin {redacted(words)}: {''.join(format_exception(error))}")
        said = f"The command failed because of a defect of the node; the log of the node has the details: {error!r}"
        return [Alert(said)], FAILED


async def handle_request(context: Context, request: web.Request, source: str = "") -> web.StreamResponse:
    """Read `{"words": [...]}`, run the command, and send the lines of `wire` as they come.

    The command runs to its end even if the client disconnects, because an interrupted `cluster leave` would be worse.
    """
    try:
        async with asyncio.timeout(REQUEST_S):
            body = await request.read()
        words = msgspec.json.decode(body, type=Request).words
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return web.Response(status=400, text=f"{error}\n")
    except (TimeoutError, ConnectionError):  # if the client has gone, it gets no answer
        return web.Response(status=408, text=f"No command line was received within {REQUEST_S:.0f} s.\n")
    log_command(context, words, source)
    response = web.StreamResponse()
    response.content_type = CONTENT_TYPE
    response.force_close()
    try:
        await response.prepare(request)
    except ConnectionError:
        context.server.log("notice", f"vmq-admin {redacted(words)}: the client had gone; the command was not run")
        return response
    disconnected = False

    async def write(line: bytes) -> None:
        nonlocal disconnected
        if not disconnected:
            try:
                await response.write(line)
            except ConnectionError:
                disconnected = True
                said = "the client has disconnected; the command continues"
                context.server.log("notice", f"vmq-admin {redacted(words)}: {said}")

    async def report(line: str) -> None:
        await write(progress_line(line))

    parts, status = await run_command(context, words, report)
    time_slice = context.time_slice()
    for line in to_lines(parts, min(status, 1)):
        await time_slice.yield_if_due()
        await write(line)
    if not disconnected:
        with suppress(ConnectionError):  # a client may go as soon as it has the last line
            await response.write_eof()
    return response


def log_command(context: Context, words: Sequence[str], source: str) -> None:
    """Log the command. `source` is the address of the client; empty for the unix socket."""
    # the health check of a container runs `node status` every few seconds
    level = "debug" if words[:2] == ["node", "status"] else "info"
    said = f"vmq-admin {redacted(words)}{f', from {source}' if source else ''}"
    context.server.log(level, Line(ADMIN_COMMAND, said))
