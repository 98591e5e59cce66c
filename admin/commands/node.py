"""`node`: figures of this node."""

from __future__ import annotations

from ..context import Context
from ..grammar import Call, Command
from ..result import Alert, Part, Table
from ..status import figures


async def _status(context: Context, call: Call) -> list[Part]:
    parts: list[Part] = [Table(("Status", "Value"), list(figures(context).items()))]
    log, env = context.server.eventlog, context.node.env
    if log is not None and log.failing:
        parts.append(Alert("The files of the event log cannot be written: its events are dropped."))
    if env.observer.choice.sampling:
        parts.append(
            Alert(
                "The event log leaves out whole messages, because its writer does not keep up: "
                f"{env.counters.eventlog_messages_left_out} since the start."
            )
        )
    return parts


COMMANDS = (
    Command("node status", "Show figures of this node since its start or the last reset of the metrics.", _status),
)
