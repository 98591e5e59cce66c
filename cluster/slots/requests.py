"""Who may ask for which change of a slot's row, and which changes of the in-sync set are safe. Pure, without I/O.

    the primary                     adds holders that have everything; each may take the place of a follower
    the primary, giving it away     makes another holder primary, which is then alone in the in-sync set
    a follower                      takes itself out

The leader asks `may_ask` before it proposes a change. Each node asks `taken_out` when it applies one.
"""

from __future__ import annotations

from .table import HOLDERS_MOST, SlotRow


def may_ask(node: str, change: SlotRow, row: SlotRow, leaving: bool) -> bool:
    """True if the node may ask for this change of the row: as the primary, or as a follower that takes itself out. A
    change with more than `HOLDERS_MOST` holders does not get into the log.

    `leaving`: it asks as a follower. The node is known from its stream, so nobody else can take it out.
    """
    if len(change.in_sync) > HOLDERS_MOST:
        return False
    if leaving:
        return not taken_out(change, row, node)
    return row.primary is not None and row.primary.node == node


def taken_out(change: SlotRow, row: SlotRow, leaving: str) -> str:
    """Returns why the change must not remove the holders that it removes from the in-sync set; "" if it may.

    `leaving`: the follower that asks to be taken out; "" if the primary asks. A primary that stays takes out no
    follower: it might take out the one that has everything, and die (H-46). Only a new holder takes the place of a
    follower, and it has everything, too. A primary that gives the slot away leaves the new one alone, because nobody
    feeds the other followers any more.
    """
    if leaving:
        return _left(change, row, leaving)
    if change.primary != row.primary:
        alone = change.in_sync == (change.primary,)
        return "" if alone else "its new primary has to be alone in the in-sync set"
    out = [holder for holder in row.in_sync if holder not in change.in_sync]
    added = [holder for holder in change.in_sync if holder not in row.in_sync]
    if len(out) <= len(added):
        return ""
    return f"it takes {' and '.join([holder.node for holder in out])} out of the in-sync set and adds {len(added)}"


def _left(change: SlotRow, row: SlotRow, leaving: str) -> str:
    if row.primary is None or row.primary.node == leaving:
        return f"{leaving} is not a follower"
    rest = {holder for holder in row.in_sync if holder.node != leaving}
    if len(rest) == len(row.in_sync):
        return f"{leaving} is not in sync"
    if change.primary != row.primary or set(change.in_sync) != rest:
        return f"{leaving} may only take itself out"
    return ""
