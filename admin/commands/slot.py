"""`slot`: the slot table as this node has applied it."""

from __future__ import annotations

from collections.abc import Mapping

from ...cluster.identity import SLOTS
from ...cluster.slots.table import Holder, SlotRow, ranges
from ..context import Context
from ..grammar import Argument, Call, Command
from ..result import Cell, Part, Table
from ..status import slot_table


def slot_number(text: str) -> int:
    """Parse the number of a slot. The ValueError says what is expected."""
    if not text.isascii() or not text.isdigit() or len(text) > 3 or int(text) >= SLOTS:
        raise ValueError(f"a slot, 0 to {SLOTS - 1}")
    return int(text)


async def _show(context: Context, call: Call) -> list[Part]:
    table, zones = slot_table(context)
    if "slot" in call.arguments:
        return [_one(table.row(call.arguments["slot"]), zones)]
    groups: dict[tuple[str, str], list[int]] = {}
    for row in table.rows:
        groups.setdefault(_owner(row), []).append(row.slot)
    idle = set(zones) - {node for node, _ in groups}
    groups.update({(node, "none"): [] for node in idle})
    rows: list[tuple[Cell, ...]] = [
        (nodes or None, zones.get(nodes), len(slots), " ".join(ranges(slots)) or None, state)
        for (nodes, state), slots in sorted(groups.items())
    ]
    return [Table(("Node", "Zone", "Count", "Slots", "State"), rows)]


def _owner(row: SlotRow) -> tuple[str, str]:
    """The node, or nodes, of a slot and its state: `primary`, `away` (all holders are away) or `empty` (no copy)."""
    if row.primary is not None:
        return row.primary.node, "primary"
    return " ".join(holder.node for holder in row.in_sync), "away" if row.in_sync else "empty"


def _one(row: SlotRow, zones: Mapping[str, str]) -> Table:
    nodes, state = _owner(row)
    held = ", ".join(map(_held, row.in_sync)) or None
    deputy = row.deputy.node if row.deputy is not None else None
    columns = ("Slot", "Node", "Zone", "State", "Epoch", "Version", "In sync", "Deputy")
    return Table(columns, [(row.slot, nodes or None, zones.get(nodes), state, row.epoch, row.version, held, deputy)])


def _held(holder: Holder) -> str:
    return f"{holder.node} since view {holder.entered_in_view}" if holder.entered_in_view else f"{holder.node} away"


COMMANDS = (
    Command(
        "slot show",
        "Show which node is primary of which slots, or one slot.",
        _show,
        arguments=(Argument("slot", f"one slot, 0 to {SLOTS - 1}, with its holders", slot_number, optional=True),),
    ),
)
