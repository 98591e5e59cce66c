"""Which slots with sessions should move to other nodes so that the primaries are spread again. Pure, without I/O.

    the view changes                    each slot that is not where the placement wants it may move
    a slot moves, by whatever cause     it stays there until the view changes again

The placement is a function of the slot and the serving nodes. So a slot moves at most once for each view, straight to
its place, and no two nodes can want it back and forth. A slot that an operator has moved, or that a leaving node has
given away, is not given back either.
"""

from __future__ import annotations

from collections.abc import Mapping

from .table import SlotTable


def may_move(misplaced: Mapping[int, str], table: SlotTable, since: int) -> dict[int, str]:
    """Returns those of the misplaced slots that have not moved since the log index `since`, at which the view changed.

    `misplaced`: slot -> the node that should have it, as `handover.misplaced` returns it.
    """
    return {slot: node for slot, node in misplaced.items() if table.row(slot).epoch <= since}


def lacking_copies(table: SlotTable, copies: int) -> list[int]:
    """Returns the slots that have no primary, or fewer holders than `copies`."""
    return [row.slot for row in table.rows if row.primary is None or len(row.in_sync) < copies]
