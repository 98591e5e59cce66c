"""`cluster incidents`: partitions that this node has seen, and how long each was undetected (P10)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..context import Context
from ..grammar import Call, Command, Flag, number
from ..result import Cell, Part, Table
from .cluster import require_cluster

_COLUMNS = (
    "Number", "Incident", "Begin (UTC)", "Detected (UTC)", "Healed (UTC)", "Window (ms)", "Split (ms)", "State",
    "Worst", "Peers", "View", "Uncertain", "Counts",
)  # fmt: skip
LIMIT = 20


async def _incidents(context: Context, call: Call) -> list[Part]:
    rows = require_cluster(context).incidents()[::-1][: call.flag("limit", LIMIT)]
    return [Table(_COLUMNS, [_cells(row) for row in rows])]


def _cells(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    return (
        row["number"],
        row["incident"],
        _utc(row["begin_ms"]),
        _utc(row["detected_ms"]),
        _utc(row["healed_ms"]),
        row["window_ms"],
        row["split_ms"],
        row["state"],
        row["worst"],
        ", ".join(row["peers"]) or None,
        row["view"],
        _counted(row["uncertain"]),
        _counted(row["counts"]),
    )


def _utc(ms: int | None) -> str | None:
    """A time in UTC with milliseconds; None if there is none yet."""
    if ms is None:
        return None
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}"


def _counted(counts: Mapping[str, int]) -> str | None:
    return ", ".join(f"{name} {number}" for name, number in counts.items()) or None


COMMANDS = (
    Command(
        "cluster incidents",
        "Show when this node lost other nodes, when it noticed, and what it accepted and refused; newest first.",
        _incidents,
        flags=(Flag("limit", f"most rows; default {LIMIT}", value="N", convert=number),),
    ),
)
