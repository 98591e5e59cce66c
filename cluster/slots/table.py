"""The slot table: for each slot its primary and its in-sync set. It is part of the replicated membership.

Rows are replaced, never changed in place. `update.py` computes the next rows, and `placement.py` where copies should
be. A holder is compared as a whole, never by its node: a node that restarts, or that left the view and came back, is
another holder, because it may lack what the former one had in memory (H-22).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from ..identity import SLOTS, Slot

Name = Annotated[str, Meta(min_length=1)]
Natural = Annotated[int, Meta(ge=0)]


HOLDERS_MOST = 16
"""The most holders of a slot in a requested change."""


class Holder(Struct, array_like=True, frozen=True, order=True):
    """A node with a copy of a slot. `entered_in_view`: id of the view in which its incarnation entered, 0 while it is
    away."""

    node: Name
    disk: Name
    entered_in_view: Natural


class SlotRow(Struct, array_like=True, frozen=True):
    """One slot.

    `epoch`: log index of the entry that set the primary or the deputy, another one also if the same node gets the slot
    again. `version`: log index of the row's last change. `primary` is None while no holder is in the view. Each holder
    of `in_sync` has every acknowledged change of the slot. If all of them are away, they stay in `in_sync`, marked as
    away. `in_sync` is empty if no node has a copy. `deputy`: while there is no primary, the serving node that registers
    the clients without durable state (P3); None if no node serves. `moved`: log index of the entry since which the
    node with the sessions (`home`) has them. `incomplete`: while there is no primary, the nodes of `in_sync` whose disk
    may lack the last changes, because their machine has lost power. They may be in the view, and come last in `in_sync`
    then.
    """

    slot: Slot
    epoch: Natural
    version: Natural
    primary: Holder | None = None
    in_sync: tuple[Holder, ...] = ()
    deputy: Holder | None = None
    moved: Natural = 0
    incomplete: tuple[Name, ...] = ()

    @property
    def home(self) -> str:
        """The node with the sessions: the primary, or the first holder while there is none; "" if there is none."""
        holder = self.primary or next(iter(self.in_sync), None)
        return "" if holder is None else holder.node


class SlotHome(NamedTuple):
    """The node with the sessions of a slot; "" if none is known. `present` is True if it is the primary of the slot, in
    the process that entered in view `since`; otherwise it has been the last primary. `moved` as in `SlotRow`."""

    node: str
    present: bool
    since: int
    moved: int = 0


NO_ROWS = tuple([SlotRow(slot, 0, 0) for slot in range(SLOTS)])
"""The rows before the table begins: no slot has a holder."""


class SlotTable(Struct, frozen=True, dict=True):
    """The rows of all slots, in order. `index`: log index of the last change; 0 before the table begins."""

    rows: tuple[SlotRow, ...] = NO_ROWS
    index: int = 0

    def row(self, slot: int) -> SlotRow:
        """Returns the row of a slot, 0 to 255."""
        return self.rows[slot]

    @cached_property
    def slots_by_primary(self) -> dict[str | None, tuple[int, ...]]:
        """Node -> the slots of which it is primary, in order; None -> the slots without primary."""
        found: dict[str | None, list[int]] = {}
        for row in self.rows:
            node = row.primary.node if row.primary is not None else None
            if node not in found:
                found[node] = []
            found[node].append(row.slot)
        return {node: tuple(slots) for node, slots in found.items()}

    def changes_since(self, former: SlotTable) -> tuple[SlotRow, ...]:
        """Returns the rows that differ from those of another table, in the order of their slots."""
        if self.rows is former.rows:
            return ()
        return tuple([row for row, old in zip(self.rows, former.rows, strict=True) if row is not old and row != old])


def standalone_table(node: str, disk: str) -> SlotTable:
    """Returns the table of a node that is in no cluster: it owns all slots, without epochs and views."""
    holder = Holder(node, disk, 0)
    return SlotTable(tuple([SlotRow(row.slot, 0, 0, holder, (holder,)) for row in NO_ROWS]))


class PackedTable(Struct, array_like=True, frozen=True):
    """A table in a snapshot. `rows`, one for each slot: epoch, version, primary and in-sync set, as positions in
    `holders`; -1 stands for no primary. `deputies`: slot -> position of its deputy. `moved`: slot -> `SlotRow.moved`,
    if that is not 0. `incomplete`: slot -> `SlotRow.incomplete`, if that is not empty."""

    index: Natural
    holders: tuple[Holder, ...]
    rows: tuple[tuple[Natural, Natural, int, tuple[Natural, ...]], ...]
    deputies: dict[Slot, Natural] = {}
    moved: dict[Slot, Natural] = {}
    incomplete: dict[Slot, tuple[Name, ...]] = {}


def pack(table: SlotTable) -> PackedTable:
    """Returns the compact form, which names each holder once. Equal tables give equal forms."""
    holders = sorted({holder for row in table.rows for holder in _named(row)})
    number: dict[Holder | None, int] = {holder: at for at, holder in enumerate(holders)}
    number[None] = -1
    rows = tuple(
        [(row.epoch, row.version, number[row.primary], tuple([number[h] for h in row.in_sync])) for row in table.rows]
    )
    deputies = {row.slot: number[row.deputy] for row in table.rows if row.deputy is not None}
    moved = {row.slot: row.moved for row in table.rows if row.moved}
    incomplete = {row.slot: row.incomplete for row in table.rows if row.incomplete}
    return PackedTable(table.index, tuple(holders), rows, deputies, moved, incomplete)


def unpack(packed: PackedTable) -> SlotTable:
    """Returns the table of a compact form. Raises `ValueError` if it has not one row for each slot, or if a position is
    wrong."""
    if len(packed.rows) != SLOTS:
        raise ValueError(f"{len(packed.rows)} rows of slots, {SLOTS} are expected")
    holders = packed.holders
    rows = []
    for slot, (epoch, version, primary, in_sync) in enumerate(packed.rows):
        deputy = packed.deputies.get(slot, -1)
        if not -1 <= primary < len(holders) or any(at >= len(holders) for at in (deputy, *in_sync)):
            raise ValueError(f"slot {slot}: a holder that is not among the {len(holders)} of this table")
        held = tuple([holders[at] for at in in_sync])
        named = [None if at < 0 else holders[at] for at in (primary, deputy)]
        more = packed.moved.get(slot, 0), packed.incomplete.get(slot, ())
        rows.append(SlotRow(slot, epoch, version, named[0], held, named[1], *more))
    return SlotTable(tuple(rows), packed.index)


def ranges(slots: Iterable[int]) -> list[str]:
    """Returns slots as texts of ranges, such as `["0-84", "90"]`."""
    found: list[list[int]] = []
    ordered = sorted(slots)
    for former, slot in pairwise([-2, *ordered]):
        if slot == former + 1:
            found[-1][1] = slot
        else:
            found.append([slot, slot])
    return [str(first) if first == last else f"{first}-{last}" for first, last in found]


def _named(row: SlotRow) -> tuple[Holder, ...]:
    return (*row.in_sync, *[holder for holder in (row.primary, row.deputy) if holder is not None])
