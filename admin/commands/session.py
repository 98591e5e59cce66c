"""`session`: the sessions of all nodes of the cluster, and sending clients away."""

from __future__ import annotations

from ...broker import operations
from ..context import Context
from ..elsewhere import ANSWER_BYTES, Answers, Found, Here, everywhere
from ..fields import Query, field_flags
from ..reply import DONE, CommandError, Part, Table
from ..session_rows import DEFAULT, FIELDS, rows
from ..words import Call, Command, Flag, Key, number

_MOUNTPOINT = Flag("mountpoint", "the mountpoint of the client; default: none", "m", "MOUNTPOINT")
_CLEANUP = Flag("cleanup", "end the session too: its subscriptions and messages are deleted", "c")


async def _show_here(context: Context, call: Call) -> Found:
    query = Query(call, DEFAULT)
    found, size = Found([]), 0
    if not query.limit:
        return found
    async for row in rows(context, query):
        cells = query.cells(row)
        size += sum(len(str(cell)) for cell in cells)
        if size > ANSWER_BYTES and found.rows:
            found.cut = True
            break
        found.rows.append(cells)
        if len(found.rows) >= query.limit:
            break
    return found


async def _show(context: Context, call: Call) -> list[Part]:
    query = Query(call, DEFAULT)
    answers = await everywhere(context, "session show", _show_here, call)
    table = Table(query.columns, [row for found in answers.found for row in found.rows][: query.limit])
    if answers.found[0].cut:
        answers.missing.append("There are more rows than one answer holds: ask for fewer columns, or with a filter.")
    return [table, *answers.alerts()]


async def _disconnect_here(context: Context, call: Call) -> Found:
    mountpoint, cleanup = call.flag("mountpoint", ""), call.has("cleanup")
    pace = context.pace()
    found = Found([])
    for client_id in _client_ids(call):
        await pace.breathe()
        if not operations.disconnect(context.node, mountpoint, client_id, cleanup):
            found.unknown.append(client_id)
    await context.committed()
    return found


def _client_ids(call: Call) -> list[str]:
    if "client-id" in call.keys:
        return [call.keys["client-id"]]
    return [name for name in call.keys["client-ids"].split(",") if name]


async def _disconnect(context: Context, call: Call) -> list[Part]:
    answers = await everywhere(context, "session disconnect", _disconnect_here, call)
    _all_known(answers, _client_ids(call), call.flag("mountpoint", ""))
    return [DONE, *answers.alerts()]


async def _unsubscribe_here(context: Context, call: Call) -> Found:
    mountpoint, client_id, topic = call.flag("mountpoint", ""), call.keys["client-id"], call.keys["topic"]
    session = context.node.slots.get(mountpoint, client_id)
    if session is None:
        return Found(unknown=[client_id])
    if not operations.unsubscribe(context.node, session, topic):
        return Found(without=[client_id])
    await context.committed()
    return Found([])


async def _unsubscribe(context: Context, call: Call) -> list[Part]:
    client_id = call.keys["client-id"]
    answers = await everywhere(context, "session unsubscribe", _unsubscribe_here, call)
    _all_known(answers, [client_id], call.flag("mountpoint", ""))
    if all(found.unknown or found.without for found in answers.found):
        raise CommandError(_with_missing(f"{client_id} has no subscription to {call.keys['topic']}.", answers))
    return [DONE, *answers.alerts()]


def _all_known(answers: Answers, client_ids: list[str], mountpoint: str) -> None:
    """Raise `CommandError` for clients that no node has a session of."""
    unknown = [name for name in client_ids if all(name in found.unknown for found in answers.found)]
    if unknown:
        raise CommandError(_with_missing(_no_session(", ".join(unknown), mountpoint), answers))


def _with_missing(text: str, answers: Answers) -> str:
    return "\n".join([text, *answers.missing])


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
        _disconnect,
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

HERE: dict[str, Here] = {
    "session show": _show_here,
    "session disconnect": _disconnect_here,
    "session unsubscribe": _unsubscribe_here,
}
"""What another node of the cluster may ask this one for."""
