"""`session`: who is there, and sending them away (INV 2.1, 2.2)."""

from __future__ import annotations

from ...broker import operations
from ..context import Context
from ..fields import Query, field_flags
from ..reply import DONE, CommandError, Part, Table
from ..session_rows import DEFAULT, FIELDS, rows
from ..words import Call, Command, Flag, Key, number

_MOUNTPOINT = Flag("mountpoint", "the mountpoint of the client; default: none", "m", "MOUNTPOINT")
_CLEANUP = Flag("cleanup", "end the session too: its subscriptions and messages are deleted", "c")


async def _show(context: Context, call: Call) -> list[Part]:
    query = Query(call, DEFAULT)
    table = Table(query.columns, [])
    if query.limit:
        async for row in rows(context, query):
            table.rows.append(query.cells(row))
            if len(table.rows) >= query.limit:
                break
    return [table]


async def _disconnect(context: Context, call: Call) -> list[Part]:
    return await _disconnect_all(context, call, [call.keys["client-id"]])


async def _disconnect_clients(context: Context, call: Call) -> list[Part]:
    return await _disconnect_all(context, call, [name for name in call.keys["client-ids"].split(",") if name])


async def _disconnect_all(context: Context, call: Call, client_ids: list[str]) -> list[Part]:
    mountpoint, cleanup = call.flag("mountpoint", ""), call.has("cleanup")
    pace = context.pace()
    unknown = []
    for client_id in client_ids:
        await pace.breathe()
        if not operations.disconnect(context.node, mountpoint, client_id, cleanup):
            unknown.append(client_id)
    await context.committed()
    if unknown:
        raise CommandError(_no_session(", ".join(unknown), mountpoint))
    return [DONE]


async def _unsubscribe(context: Context, call: Call) -> list[Part]:
    mountpoint, client_id, topic = call.flag("mountpoint", ""), call.keys["client-id"], call.keys["topic"]
    session = context.node.slots.get(mountpoint, client_id)
    if session is None:
        raise CommandError(_no_session(client_id, mountpoint))
    if not operations.unsubscribe(context.node, session, topic):
        raise CommandError(f"{client_id} has no subscription to {topic}.")
    await context.committed()
    return [DONE]


def _no_session(client_ids: str, mountpoint: str) -> str:
    where = f" at mountpoint {mountpoint}" if mountpoint else ""
    return f"There is no session of {client_ids}{where}."


COMMANDS = (
    Command(
        "session show",
        "Sessions: --FIELD selects a column, --FIELD=VALUE and --FIELD=~REGEX filter as well, all filters must hold.",
        _show,
        flags=(*field_flags(FIELDS), Flag("limit", "most rows; default 100", value="N", convert=number)),
    ),
    Command(
        "session disconnect",
        "Close the connection of a client; MQTT 5 clients are told 0x98, administrative action.",
        _disconnect,
        keys=(Key("client-id", "the client"),),
        flags=(_CLEANUP, _MOUNTPOINT),
    ),
    Command(
        "session disconnect clients",
        "The same for several clients.",
        _disconnect_clients,
        keys=(Key("client-ids", "the clients, separated by commas"),),
        flags=(_CLEANUP, _MOUNTPOINT),
    ),
    Command(
        "session unsubscribe",
        "Remove a subscription on behalf of its client.",
        _unsubscribe,
        keys=(Key("client-id", "the client"), Key("topic", "the filter as the client wrote it")),
        flags=(_MOUNTPOINT,),
    ),
)
