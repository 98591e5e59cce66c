"""The slot table is the same on every node, names one primary for each slot and epoch (H-22 to H-25), and gives up no
slot of which a disk still has all that was acknowledged (H-23).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import zip_longest

from ...cluster.slots.table import Holder, SlotRow, SlotTable


class SlotHistory:
    """Remembers the tables that nodes had, by the log index of their last change, and the primary or deputy of each
    epoch."""

    def __init__(self) -> None:
        self._tables: dict[int, tuple[str, SlotTable]] = {}
        self._registrars: dict[tuple[int, int], tuple[str, Holder]] = {}
        self._passed: dict[str, tuple[tuple[SlotRow, ...], Mapping[str, Holder]]] = {}
        """The last rows of each node, if they were right, with its view: the same row is right in the same view."""

    def judge(self, node: str, table: SlotTable, present: Mapping[str, Holder]) -> Iterator[str]:
        """Yield the violations in the table of a node. `present`: the incarnations in the view that it has applied."""
        if not table.index:
            return
        first, known = self._tables.setdefault(table.index, (node, table))
        if known.rows != table.rows:
            yield f"slots: {first} and {node} have different tables after entry {table.index}"
        passed, view = self._passed.get(node, ((), {}))
        right = passed if view == present else ()
        for row, former in zip_longest(table.rows, right):
            if row is former:
                continue
            holder = row.primary or row.deputy
            if holder is None:
                continue
            named = (holder,) if row.primary is None else (holder, *row.in_sync)
            if any(present.get(each.node) != each for each in named) or row.primary not in (None, *row.in_sync):
                yield f"slots: {node} has a holder of slot {row.slot} that is not in its view: {row}"
                return
            source, other = self._registrars.setdefault((row.slot, row.epoch), (node, holder))
            if other != holder:
                yield f"slots: slot {row.slot} has two primaries in epoch {row.epoch}: {other} at {source}, {holder}"
                return
        self._passed[node] = table.rows, present


def judge_losses(former: SlotTable, table: SlotTable, disks: Container[str]) -> Iterator[str]:
    """Yield each slot that a log entry gives up, although one of these `disks` was in its in-sync set.

    A slot that was given up excuses all other checkers.
    """
    for row in table.changes_since(former):
        holders = {each.disk for each in former.row(row.slot).in_sync}
        if holders.isdisjoint([each.disk for each in row.in_sync]):
            for disk in sorted(holders):
                if disk in disks:
                    yield f"slots: slot {row.slot} was given up, and {disk} has it"
