"""Which slots have too few copies to accept anything new for their durable sessions (`queue_min_in_sync`).

Each node reads this from the slot table that it has applied, for the slots of all nodes: a node that accepts a PUBLISH
for a session elsewhere decides by the same rows as the primary of that session. The copies that count are those of the
in-sync set whose nodes are in the view. What was accepted before a copy was lost goes on with the copy that is left
(H-13).
"""

from __future__ import annotations

from ...cluster.node import ClusterNode
from ...cluster.slots.table import SlotRow, ranges
from ..node import Node


class CopyMinimum:
    """Keeps `OperationPolicy.few_copies` of one node up to date."""

    def __init__(self, node: Node, member: ClusterNode) -> None:
        self._node = node
        self._member = member
        self._seen: tuple[tuple[SlotRow, ...], int] | None = None

    def follow(self) -> None:
        """The table or the setting may have changed: call it often, and before anything is accepted by a new table.

        A process outside the view reads old tables again, and accepts nothing, so it keeps what it knows.
        """
        minimum, rows = self._node.options.queue_min_in_sync, self._member.slots.rows
        if self._member.own_holder is None or self._seen == (rows, minimum):
            return
        known, last_minimum = self._seen or (rows, 0)
        self._seen = rows, minimum
        policy, former = self._node.policy, self._node.policy.few_copies
        changed = [row for row, old in zip(rows, known, strict=True) if row is not old or minimum != last_minimum]
        few = former.difference([row.slot for row in changed])
        few = few.union([row.slot for row in changed if copies(row) < minimum] if minimum > 1 else ())
        policy.set_few_copies(few)
        if former - few:
            self._node.env.after_turn(self._more_copies)
        if bool(few) is not bool(former):
            self._node.env.event("slot.few", count=len(few), slots=ranges(few))

    def _more_copies(self) -> None:
        self._node.env.tick()
        self._node.policy.look_again()


def copies(row: SlotRow) -> int:
    """The number of nodes of the view that have every acknowledged change of the slot."""
    return sum([holder.entered_in_view > 0 for holder in row.in_sync])
