"""`node`: figures of this node."""

from __future__ import annotations

from ..context import Context
from ..grammar import Call, Command
from ..result import Part, Table
from ..status import figures


async def _status(context: Context, call: Call) -> list[Part]:
    return [Table(("Status", "Value"), list(figures(context).items()))]


COMMANDS = (
    Command("node status", "Show figures of this node since its start or the last reset of the metrics.", _status),
)
