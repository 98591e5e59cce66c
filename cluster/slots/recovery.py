"""Slots without primary whose last holders do not come back: an operator gives them to other nodes. Pure, no I/O.

    all holders of the last set are out of the view     any serving node may get the slot, empty
    incomplete ones are in the view, others are not     one of these gets it, with its older copy

What was acknowledged, and only the last holders have, is lost. So nobody but an operator does this. When such a holder
returns, the slot is another node's, and its rows are leftovers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from .table import Holder, SlotRow, SlotTable


def orphans(table: SlotTable) -> list[SlotRow]:
    """Returns the rows of slots without primary that have holders, in order. None of these can serve."""
    return [row for row in map(table.row, table.slots_by_primary.get(None, ())) if row.in_sync]


def only_with(table: SlotTable, node: str) -> list[int]:
    """Returns the slots of which no other node than this one has everything, whether it serves them or is away."""
    return [row.slot for row in table.rows if _only(row, node)]


def lost_with(table: SlotTable, node: str) -> list[SlotRow]:
    """Returns the rows of slots without primary of which no other node than this one has everything."""
    return [row for row in orphans(table) if _only(row, node)]


def _only(row: SlotRow, node: str) -> bool:
    holders = {holder.node for holder in row.in_sync}
    return node in holders and holders <= {node, *row.incomplete}


def back(holders: Iterable[Holder], present: Mapping[str, Holder]) -> list[Holder]:
    """Returns the incarnations in the view of the last holders of a slot, which may lack its last changes.

    `present`: node -> its incarnation in the view.
    """
    found = [(holder, present[holder.node]) for holder in holders if holder.node in present]
    return [here for holder, here in found if here.disk == holder.disk]


def wrong_recovery(row: SlotRow, target: Holder | None, present: Mapping[str, Holder], serving: tuple[str, ...]) -> str:
    """Returns the reason why a slot cannot be given to `target`; "" if it can.

    `present`: node -> its incarnation in the view; `serving`: the nodes that serve.
    """
    if row.primary is not None:
        return f"it has a primary: {row.primary.node}"
    if not row.in_sync:
        return "no node has a copy that could come back: the next node that serves gets it"
    if target is None:
        return "no node is named that gets it"
    returned = back(row.in_sync, present)
    complete = [holder.node for holder in returned if holder.node not in row.incomplete]
    if complete:
        return f"{complete[0]} has every acknowledged change, and is in the view"
    if returned and target not in returned:
        return f"{' and '.join([holder.node for holder in returned])} is back with an older copy"
    if present.get(target.node) != target:
        return f"{target.node} is not in the view as the request names it"
    if target not in returned and target.node not in serving:
        return f"{target.node} does not serve"
    return ""


def requests(
    rows: list[SlotRow], present: Mapping[str, Holder], serving: tuple[str, ...], full: Collection[str] = ()
) -> list[SlotRow]:
    """Returns the changes to request, so that each of these slots without primary gets the best node there is.

    That is a last holder that is back, else a serving node; of several one that is not `full`, and of these the one
    that gets the fewest of these slots. No change is returned for a slot that no node can get.
    """
    given = dict.fromkeys(serving, 0)
    changes = []
    for row in rows:
        if able := back(row.in_sync, present) or [present[node] for node in serving]:
            target = min(able, key=lambda holder: (holder.node in full, given.get(holder.node, 0), holder.node))
            given[target.node] = given.get(target.node, 0) + 1
            changes.append(SlotRow(row.slot, row.epoch, row.version, target, (target,)))
    return changes
