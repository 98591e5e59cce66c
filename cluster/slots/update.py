"""Computes the next slot table: what follows from a change of the members or the view, and which requests are valid.

    primary in the view           --it leaves, another holder is in the view-->  that holder alone, in a new epoch
                                  --it leaves, no holder is in the view------->  no primary; the holders are away
    no primary, holders away      --a complete one enters with its disk------->  that one alone, in a new epoch
                                  --all of them are back, none is complete---->  one of them alone; it may lack changes
                                  --an operator gives them up (`recovery.py`)->  one with an older copy, or an empty one
    any                           --the last holder's disk is given up-------->  lost: empty, at a serving node

A slot without primary gets a serving node as its deputy, in a new epoch, and keeps it while that node serves.

The rows are a function of the log, the same on every node. A new primary is alone in the in-sync set: a copy on
another node followed the former one, and may have changes that nobody acknowledged and that the new primary lacks. So
it is filled anew. The in-sync set loses its last holder only with that holder's disk (H-23). It loses a follower that
leaves the view, that takes itself out, or whose place another one takes; never because its primary says so (H-46).

A holder is complete unless its machine has lost power since its last logged start, and its disk was not synced. An
incomplete holder stays in the set while the slot has no primary, and waits for the others: one of them may have all.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import is_not

from msgspec import Struct
from msgspec.structs import replace

from .recovery import back, wrong_recovery
from .requests import taken_out
from .table import HOLDERS_MOST, Holder, SlotRow, SlotTable


class Roll(Struct, frozen=True):
    """The members, after a log entry.

    `present`: node -> its incarnation in the view, joining ones too. `serving`: the nodes that serve. `disks`: node and
    disk of each member that is not stale. `incomplete`: the nodes that have started with this entry, and whose disk may
    lack the last changes.
    """

    present: dict[str, Holder]
    serving: tuple[str, ...]
    disks: Collection[tuple[str, str]]
    incomplete: tuple[str, ...] = ()


class TableUpdate:
    """The changes of one log entry, at `index`, to a table. Call `begin`, `follow`, `change` or `recover`, then read
    `table`.

    `lost`: node -> the slots whose last copy was on the disk of that node, which the cluster has given up. `doubtful`:
    node -> the former rows of the slots that it has got, and of which it may lack acknowledged changes.
    """

    def __init__(self, table: SlotTable, roll: Roll, index: int) -> None:
        self.table = table
        self.roll = roll
        self.index = index
        self.lost: dict[str, list[int]] = {}
        self.doubtful: dict[str, list[SlotRow]] = {}
        self._here = frozenset(roll.present.values())
        self._primaries: dict[str, int] = {}
        self._deputies: dict[str, int] = {}

    def begin(self, node: str) -> None:
        """The table begins: all slots go to this node, which is in the view."""
        holder = self.roll.present[node]
        rows = tuple(
            [SlotRow(row.slot, self.index, self.index, holder, (holder,), None, self.index) for row in self.table.rows]
        )
        self.table = SlotTable(rows, self.index)

    def follow(self) -> None:
        """Change the rows that follow from the members and the view."""
        self._primaries = dict.fromkeys(self.roll.present, 0)
        self._deputies = dict.fromkeys(self.roll.serving, 0)
        for row in self.table.rows:
            if row.primary is not None and row.primary in self._here:
                self._primaries[row.primary.node] += 1
            elif row.deputy is not None and self.is_serving(row.deputy):
                self._deputies[row.deputy.node] += 1
        self._replace([self._followed(row) for row in self.table.rows])

    def change(self, changes: tuple[SlotRow, ...], leaving: str = "") -> list[tuple[SlotRow, str]]:
        """Change rows on request, each for itself. Returns the changes that are refused, with the reasons. `leaving` is
        the follower that asks to be taken out; "" if primaries ask.

        `epoch` and `version` of a change are those of the row for which it was made (compare and set).
        """
        rows = list(self.table.rows)
        refused = []
        for change in changes:
            row = rows[change.slot]
            reason = self.wrong(change, row) or self.taken_out(change, row, leaving)
            if reason:
                refused.append((change, reason))
            else:
                rows[change.slot] = self.changed(row, change.primary, tuple(sorted(change.in_sync)))
        self._replace(rows)
        return refused

    def recover(self, changes: tuple[SlotRow, ...]) -> list[tuple[SlotRow, str]]:
        """Give slots without primary to other nodes, as an operator asks. As `change`; only slot, epoch, version and
        primary of a change count."""
        rows = list(self.table.rows)
        refused = []
        for change in changes:
            row, target = rows[change.slot], change.primary
            reason = self._stale(change, row) or self.wrong_recovery(row, target)
            if reason or target is None:
                refused.append((change, reason))
                continue
            self.doubtful.setdefault(target.node, []).append(row)
            rows[change.slot] = self.changed(row, target, (target,))
        self._replace(rows)
        return refused

    def _replace(self, rows: list[SlotRow]) -> None:
        if any(map(is_not, rows, self.table.rows)):
            self.table = SlotTable(tuple(rows), self.index)

    # -- the view

    def is_present(self, holder: Holder) -> bool:
        """Whether exactly this incarnation is in the view."""
        return self.roll.present.get(holder.node) == holder

    def is_serving(self, holder: Holder) -> bool:
        """Whether exactly this incarnation is in the view and serves."""
        return holder.node in self.roll.serving and self.is_present(holder)

    def _followed(self, row: SlotRow) -> SlotRow:
        """Returns the row that follows from the members and the view; this row if nothing changes."""
        if row.primary is not None and self._here.issuperset(row.in_sync):
            return row
        known = self.known(row)
        if not known:
            if row.in_sync:
                self.lost.setdefault(row.in_sync[0].node, []).append(row.slot)
            return self._given(row)
        incomplete = self.incomplete(row, known)
        holders = tuple([holder for holder in known if self.is_present(holder)]) or self.returned(known, incomplete)
        if not holders:
            # first a node that is out of the view: messages for the slot are kept for it
            ordered = sorted(known, key=lambda holder: holder.node in self.roll.present)
            away = tuple([Holder(holder.node, holder.disk, 0) for holder in ordered])
            return self.changed(row, None, away, self._deputy(row), incomplete)
        if row.primary in holders:
            return self.changed(row, row.primary, holders)
        primary = self._fewest(holders)
        if primary.node in incomplete:
            self.doubtful.setdefault(primary.node, []).append(row)
        return self.changed(row, primary, (primary,))

    def known(self, row: SlotRow) -> tuple[Holder, ...]:
        """Returns the holders whose disks belong to members. If none is left, the slot is lost."""
        return tuple([holder for holder in row.in_sync if (holder.node, holder.disk) in self.roll.disks])

    def incomplete(self, row: SlotRow, known: tuple[Holder, ...]) -> tuple[str, ...]:
        """Returns the nodes of the known holders whose disk may lack the last changes of the slot."""
        named = {*row.incomplete, *self.roll.incomplete}
        return tuple([holder.node for holder in sorted(known) if holder.node in named])

    def returned(self, holders: tuple[Holder, ...], incomplete: tuple[str, ...]) -> tuple[Holder, ...]:
        """Returns the incarnations in the view that may take back a slot of which all `holders` were away.

        The holders have the disks of their members. Each complete one has every acknowledged change, so the first to
        enter gets the slot and waits for no other. If all are back and none is complete, nobody has more to offer.
        """
        here = back(holders, self.roll.present)
        complete = [holder for holder in here if holder.node not in incomplete]
        return tuple(here if len(here) == len(holders) and not complete else complete)

    def _given(self, row: SlotRow) -> SlotRow:
        """Returns the row of a slot without any copy: empty, at the serving node with the fewest primaries."""
        if not self.roll.serving:
            return self.changed(row, None, ())
        holder = self._fewest(tuple([self.roll.present[node] for node in self.roll.serving]))
        return self.changed(row, holder, (holder,))

    def _fewest(self, holders: tuple[Holder, ...]) -> Holder:
        """Returns the holder that is primary of the fewest slots, by name if equal, and counts one more for it."""
        best = min(holders, key=lambda holder: (self._primaries[holder.node], holder.node))
        self._primaries[best.node] += 1
        return best

    def _deputy(self, row: SlotRow) -> Holder | None:
        """Returns the node that becomes deputy of a slot without primary. Returns None if no node serves.

        A deputy stays while it serves. Its successor is the serving node that is deputy of the fewest slots.
        """
        if row.deputy is not None and self.is_serving(row.deputy):
            return row.deputy
        if not self.roll.serving:
            return None
        node = min(self.roll.serving, key=lambda node: (self._deputies[node], node))
        self._deputies[node] += 1
        return self.roll.present[node]

    def changed(
        self,
        row: SlotRow,
        primary: Holder | None,
        in_sync: tuple[Holder, ...],
        deputy: Holder | None = None,
        incomplete: tuple[str, ...] = (),
    ) -> SlotRow:
        """Returns the row with this primary, in-sync set, deputy and incomplete holders; this row if it has them
        already."""
        present = row.primary, row.in_sync, row.deputy, row.incomplete
        if present == (primary, in_sync, deputy, incomplete):
            return row
        epoch = self.epoch_of(row, primary, deputy)
        after = SlotRow(row.slot, epoch, self.index, primary, in_sync, deputy, row.moved, incomplete)
        return after if after.home == row.home else replace(after, moved=self.index)

    def epoch_of(self, row: SlotRow, primary: Holder | None, deputy: Holder | None) -> int:
        """Returns the epoch of a row that gets this primary and deputy. Another primary or deputy begins an epoch. The
        same node with another incarnation is another one."""
        begins = (primary is not None and primary != row.primary) or (deputy is not None and deputy != row.deputy)
        return self.index if begins else row.epoch

    # -- requests

    def wrong(self, change: SlotRow, row: SlotRow) -> str:
        """Returns the reason why the change of the row is refused; "" if it is valid."""
        if stale := self._stale(change, row):
            return stale
        if row.primary is None:
            return "it has no primary: one of its holders has to enter first"
        if change.primary is None:
            return "it names no primary"
        if len(change.in_sync) > HOLDERS_MOST:
            return f"it names {len(change.in_sync)} holders, {HOLDERS_MOST} are allowed"
        nodes = [holder.node for holder in change.in_sync]
        if len(set(nodes)) < len(nodes):
            return f"it names {next(node for node in nodes if nodes.count(node) > 1)} twice"
        named = (change.primary, *change.in_sync)
        absent = None if self._here.issuperset(named) else next((h for h in named if not self.is_present(h)), None)
        if absent is not None:
            return self._absence(absent)
        if change.primary not in change.in_sync:
            return f"its primary {change.primary.node} is not in its in-sync set"
        if change.primary not in row.in_sync:
            return f"{change.primary.node} is not in sync yet, and may lack acknowledged changes"
        return ""

    def _stale(self, change: SlotRow, row: SlotRow) -> str:
        if (change.epoch, change.version) == (row.epoch, row.version):
            return ""
        made, present = f"{change.epoch}, version {change.version}", f"{row.epoch}, version {row.version}"
        return f"made for epoch {made}; the row has epoch {present}"

    def taken_out(self, change: SlotRow, row: SlotRow, leaving: str) -> str:
        """As `requests.taken_out`."""
        return taken_out(change, row, leaving)

    def wrong_recovery(self, row: SlotRow, target: Holder | None) -> str:
        """As `recovery.wrong_recovery`."""
        return wrong_recovery(row, target, self.roll.present, self.roll.serving)

    def _absence(self, holder: Holder) -> str:
        here = self.roll.present.get(holder.node)
        named = f"{holder.node} with disk {holder.disk} that entered in view {holder.entered_in_view}"
        if here is None:
            return f"it names {named}, which is not in the view"
        return f"it names {named}; the view has disk {here.disk} that entered in view {here.entered_in_view}"
