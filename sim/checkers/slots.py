"""The slot table is the same on every node, and names one primary for each slot and epoch (H-22 to H-25)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...cluster.slots.table import Holder, SlotTable


class SlotHistory:
    """Remembers the tables that nodes had, by the log index of their last change, and the primary or deputy of each
    epoch."""

    def __init__(self) -> None:
        self._tables: dict[int, tuple[str, SlotTable]] = {}
        self._registrars: dict[tuple[int, int], tuple[str, Holder]] = {}

    def judge(self, node: str, table: SlotTable, present: Mapping[str, Holder]) -> Iterator[str]:
        """Yield the violations in the table of a node. `present`: the incarnations in the view that it has applied."""
        if not table.index:
            return
        first, known = self._tables.setdefault(table.index, (node, table))
        if known.rows != table.rows:
            yield f"slots: {first} and {node} have different tables after entry {table.index}"
        for row in table.rows:
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
