"""`node` and `cluster`: figures of this node, and its cluster."""

from __future__ import annotations

from ..context import Context
from ..reply import Part, Table
from ..status import figures, members
from ..words import Call, Command


async def _status(context: Context, call: Call) -> list[Part]:
    return [Table(("Status", "Value"), list(figures(context).items()))]


async def _cluster_show(context: Context, call: Call) -> list[Part]:
    return [Table(("Node", "Running"), list(members(context).items()))]


COMMANDS = (
    Command("node status", "Figures of this node since its start or the last reset of the metrics.", _status),
    Command("cluster show", "The nodes of the cluster, and whether they run.", _cluster_show),
)
