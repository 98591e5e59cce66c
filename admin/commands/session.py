"""`session`: show, disconnect and unsubscribe the sessions of all nodes of the cluster."""

from __future__ import annotations

from ...broker import operations
from ..columns import LIMITS, Query, field_flags
from ..context import Context
from ..fan_out import MAX_RESULT_BYTES, ClusterResult, LocalHandler, NodeResult, run_on_all_nodes
from ..grammar import NO_EFFECT, Argument, Call, Command, Flag
from ..result import DONE, Alert, CommandError, Part
from ..session_rows import DEFAULT, FIELDS, rows

_MOUNTPOINT = Flag("mountpoint", "the mountpoint of the client; default: none", "m", "MOUNTPOINT")
_CLEANUP = Flag("cleanup", "also end the session and delete its subscriptions and messages", "c")


MAX_OWN_BYTES = 256 << 20
"""Most bytes of rows of the node that the operator asks, because it keeps them in memory until it has all."""


async def _show_own(context: Context, call: Call) -> NodeResult:
    return await _rows(context, call, MAX_OWN_BYTES)


async def _show_to_peer(context: Context, call: Call) -> NodeResult:
    return await _rows(context, call, MAX_RESULT_BYTES)


async def _rows(context: Context, call: Call, max_bytes: int) -> NodeResult:
    query = Query(call, DEFAULT)
    found, size = NodeResult([]), 0
    if not query.limit:
        return found
    async for row in rows(context, query):
        cells = query.cells(row)
        size += sum(len(str(cell)) for cell in cells)
        if size > max_bytes and found.rows:
            found.truncated = True
            break
        found.rows.append(cells)
        if len(found.rows) > query.limit:
            break
    return found


async def _show(context: Context, call: Call) -> list[Part]:
    query = Query(call, DEFAULT)
    answers = await run_on_all_nodes(context, "session show", _show_own, call)
    own, *others = answers.results
    for found in others:
        own.rows.extend(found.rows)
    if own.truncated:
        answers.incomplete = True
        said = f"{context.node.name} has more rows than one result holds: select fewer columns, or add a filter."
        answers.failures.append(said)
    return [*query.table(own.rows), *[Alert(text, answers.incomplete) for text in answers.failures]]


async def _disconnect_local(context: Context, call: Call) -> NodeResult:
    mountpoint, cleanup = call.flag("mountpoint", ""), call.has("cleanup")
    time_slice = context.time_slice()
    found = NodeResult([])
    for client_id in _client_ids(call):
        await time_slice.yield_if_due()
        if not operations.disconnect(context.node, mountpoint, client_id, cleanup):
            found.unknown.append(client_id)
    await context.safe()
    return found


def _client_ids(call: Call) -> list[str]:
    if "client-id" in call.arguments:
        return [call.arguments["client-id"]]
    return [name for name in call.arguments["client-ids"].split(",") if name]


async def _disconnect(context: Context, call: Call) -> list[Part]:
    if not _client_ids(call):
        raise CommandError("client-ids= names no client.")
    answers = await run_on_all_nodes(context, "session disconnect", _disconnect_local, call)
    _all_known(answers, _client_ids(call), call.flag("mountpoint", ""))
    return [DONE, *answers.alerts()]


async def _unsubscribe_local(context: Context, call: Call) -> NodeResult:
    mountpoint, client_id, topic = call.flag("mountpoint", ""), call.arguments["client-id"], call.arguments["topic"]
    session = context.node.sessions.get(mountpoint, client_id)
    if session is None:
        return NodeResult(unknown=[client_id])
    if not operations.unsubscribe(context.node, session, topic):
        return NodeResult(unchanged=[client_id])
    await context.safe()
    return NodeResult([])


async def _unsubscribe(context: Context, call: Call) -> list[Part]:
    client_id = call.arguments["client-id"]
    answers = await run_on_all_nodes(context, "session unsubscribe", _unsubscribe_local, call)
    _all_known(answers, [client_id], call.flag("mountpoint", ""))
    if all(found.unknown or found.unchanged for found in answers.results):
        raise CommandError(_with_failures(f"{client_id} has no subscription to {call.arguments['topic']}.", answers))
    return [DONE, *answers.alerts()]


def _all_known(answers: ClusterResult, client_ids: list[str], mountpoint: str) -> None:
    """Raise `CommandError` for clients without a session on any node."""
    unknown = [name for name in client_ids if all(name in found.unknown for found in answers.results)]
    if unknown:
        clients = ", ".join(unknown) + (f" at mountpoint {mountpoint}" if mountpoint else "")
        said = "No node that answered has a session of" if answers.failures else "There is no session of"
        raise CommandError(_with_failures(f"{said} {clients}.", answers))


def _with_failures(text: str, answers: ClusterResult) -> str:
    return "\n".join([text, *answers.failures])


COMMANDS = (
    Command(
        "session show",
        "Show sessions: --FIELD selects a column, --FIELD=VALUE and --FIELD=~REGEX also filter; rows pass all filters.",
        _show,
        flags=(*field_flags(FIELDS), *LIMITS),
    ),
    Command(
        "session disconnect",
        "Close the connection of a client. MQTT 5 clients get reason code 0x98, administrative action.",
        _disconnect,
        arguments=(Argument("client-id", "the client"),),
        flags=(_CLEANUP, _MOUNTPOINT),
    ),
    Command(
        "session disconnect clients",
        "Close the connections of several clients.",
        _disconnect,
        arguments=(Argument("client-ids", "the clients, separated by commas"),),
        flags=(_CLEANUP, _MOUNTPOINT),
    ),
    Command(
        "session unsubscribe",
        "Remove a subscription on behalf of its client.",
        _unsubscribe,
        arguments=(Argument("client-id", "the client"), Argument("topic", "the filter as the client wrote it")),
        flags=(_MOUNTPOINT, Flag("plugin", NO_EFFECT, "p", "PLUGIN", optional=True)),
    ),
)

LOCAL_HANDLERS: dict[str, LocalHandler] = {
    "session show": _show_to_peer,
    "session disconnect": _disconnect_local,
    "session unsubscribe": _unsubscribe_local,
}
"""The commands that other nodes of the cluster may run on this node."""
