"""`retain`: the retained messages of this node, or of its cluster: every node has all of them."""

from __future__ import annotations

from ...broker import operations
from ..context import Context
from ..fields import Query, Row, field_flags
from ..reply import DONE, CommandError, Part, Table
from ..words import Call, Command, Flag, number

_FIELDS = ("payload", "topic", "mountpoint")


async def _show(context: Context, call: Call) -> list[Part]:
    query = Query(call, ("payload", "topic"))
    table = Table(query.columns, [])
    pace = context.pace()
    for mountpoint in context.node.retained_mountpoints if query.limit else []:
        for step in operations.retained_messages(context.node, mountpoint):
            await pace.breathe()
            for message in step:
                payload = message.payload.decode("utf-8", "backslashreplace")
                row: Row = {"payload": payload, "topic": message.topic, "mountpoint": mountpoint}
                if query.holds(row):
                    table.rows.append(query.cells(row))
                    if len(table.rows) >= query.limit:
                        return [table]
    return [table]


async def _delete(context: Context, call: Call) -> list[Part]:
    topic, mountpoint = call.flag("topic", None), call.flag("mountpoint", "")
    if topic is None:
        raise CommandError("--topic=TOPIC must be given.")
    if not operations.delete_retained(context.node, mountpoint, topic):
        raise CommandError(f"There is no retained message on {topic}.")
    await context.spread()
    return [DONE]


async def _delete_expired(context: Context, call: Call) -> list[Part]:
    pace = context.pace()
    total = 0
    for deleted in operations.delete_expired_retained(context.node):
        total += deleted
        await pace.breathe()
    await context.spread()
    return [Table(("expired",), [(total,)])]


COMMANDS = (
    Command(
        "retain show",
        "Retained messages: --FIELD selects a column, --FIELD=VALUE and --FIELD=~REGEX filter as well.",
        _show,
        flags=(*field_flags(_FIELDS), Flag("limit", "most rows; default 100", value="N", convert=number)),
    ),
    Command(
        "retain delete",
        "Delete one retained message.",
        _delete,
        flags=(
            Flag("topic", "its topic", "t", "TOPIC"),
            Flag("mountpoint", "its mountpoint; default: none", "m", "MOUNTPOINT"),
        ),
    ),
    Command("retain delete-expired", "Delete the retained messages that have expired; how many.", _delete_expired),
)
