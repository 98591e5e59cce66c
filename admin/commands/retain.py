"""`retain`: retained messages. Every node of a cluster has all of them."""

from __future__ import annotations

from ...broker import operations
from ..columns import LIMITS, Query, Row, field_flags
from ..context import Context
from ..grammar import Call, Command, Flag
from ..result import DONE, Cell, CommandError, Part, Table

_FIELDS = ("payload", "topic", "mountpoint")


async def _show(context: Context, call: Call) -> list[Part]:
    query = Query(call, ("payload", "topic"))
    rows: list[tuple[Cell, ...]] = []
    time_slice = context.time_slice()
    for mountpoint in context.node.retained.mountpoints if query.limit else []:
        for step in operations.retained_messages(context.node, mountpoint):
            await time_slice.yield_if_due()
            for message in step:
                payload = message.payload.decode("utf-8", "backslashreplace")
                row: Row = {"payload": payload, "topic": message.topic, "mountpoint": mountpoint}
                if query.holds(row):
                    rows.append(query.cells(row))
                    if len(rows) > query.limit:
                        return query.table(rows)
    return query.table(rows)


async def _delete(context: Context, call: Call) -> list[Part]:
    topic, mountpoint = call.flag("topic", None), call.flag("mountpoint", "")
    if topic is None:
        raise CommandError("--topic=TOPIC must be given.")
    if not operations.delete_retained(context.node, mountpoint, topic):
        raise CommandError(f"There is no retained message on {topic}.")
    await context.replicated()
    return [DONE]


async def _delete_expired(context: Context, call: Call) -> list[Part]:
    time_slice = context.time_slice()
    total = 0
    for deleted in operations.delete_expired_retained(context.node):
        total += deleted
        await time_slice.yield_if_due()
    await context.replicated()
    return [Table(("expired",), [(total,)])]


COMMANDS = (
    Command(
        "retain show",
        "Show retained messages: --FIELD selects a column, --FIELD=VALUE and --FIELD=~REGEX also filter.",
        _show,
        flags=(*field_flags(_FIELDS), *LIMITS),
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
    Command("retain delete-expired", "Delete all expired retained messages, and print their number.", _delete_expired),
)
