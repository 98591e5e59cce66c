"""The slot table as the broker uses it: which node runs the sessions of a slot, and which one registers its clients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from typing import NamedTuple

from ...cluster.identity import SLOTS
from ...cluster.node import ClusterNode
from ...cluster.slots.table import Holder, SlotHome, SlotRow, SlotTable
from ..routing.remote import MOVING


class _Homes(NamedTuple):
    """The homes of all slots by one table, for one process of this node: neither ever changes."""

    table: SlotTable
    own: Holder | None
    homes: tuple[SlotHome, ...]


class TableLocator:
    """The applied slot table of a cluster node, as `SlotLocator`.

    A node that has restarted reads its log again, and so meets tables in which an earlier process of this node was
    primary or deputy. This process has only the slots whose rows name its own entrance into the view. `closed`: the
    slots that this node is handing over. `sealed`: the slots that it has got and has not opened yet. `shut`: the slots
    whose rows this node has, but not as sessions, such as those of a copy. `perhaps_lost` returns True for a slot
    that another node may have got from an earlier process of this node.
    """

    def __init__(
        self,
        member: ClusterNode,
        closed: Container[int] = (),
        sealed: Collection[int] = (),
        shut: Container[int] = (),
        perhaps_lost: Callable[[int], bool] = lambda slot: False,
    ) -> None:
        self._member = member
        self._closed = closed
        self._sealed = sealed
        self._shut = shut
        self._perhaps_lost = perhaps_lost
        self._seen = _Homes(SlotTable(), None, (SlotHome("", False, 0),) * SLOTS)

    def _row(self, slot: int) -> SlotRow:
        return self._member.slots.row(slot)

    def primary_of(self, slot: int) -> str | None:
        """As `SlotLocator.primary_of`. A node in no cluster runs all its sessions. None for a closed slot."""
        member = self._member
        if not member.clustered:
            return member.me.node
        return None if slot in self._closed else self._named(self._row(slot).primary, member.own_holder)

    def home_of(self, slot: int) -> SlotHome:
        """As `SlotLocator.home_of`. While the slot has no primary, this is the first node of its in-sync set. For a
        sealed slot it is `MOVING`."""
        member, row = self._member, self._row(slot)
        if not member.clustered:
            return SlotHome(member.me.node, True, 0)
        if slot in self._sealed:
            return SlotHome(MOVING, False, 0, row.moved)
        return self._home(row, member.own_holder)

    def homes(self) -> tuple[SlotHome, ...]:
        """As `SlotLocator.homes`. A row that has not changed gives the same object again."""
        member = self._member
        if not member.clustered:
            return (SlotHome(member.me.node, True, 0),) * SLOTS
        table, own, seen = member.slots, member.own_holder, self._seen
        if table is not seen.table or own != seen.own:
            known = seen.table.rows if own == seen.own else (None,) * SLOTS
            both = zip(table.rows, known, seen.homes, strict=True)
            homes = tuple([home if row is old else self._home(row, own) for row, old, home in both])
            seen = self._seen = _Homes(table, own, homes)
        if not self._sealed:
            return seen.homes
        found = list(seen.homes)
        for slot in self._sealed:
            found[slot] = SlotHome(MOVING, False, 0, found[slot].moved)
        return tuple(found)

    def _home(self, row: SlotRow, own: Holder | None) -> SlotHome:
        last = row.primary or next(iter(row.in_sync), None)
        if last is None:
            return SlotHome("", False, 0, row.moved)
        present = self._named(row.primary, own) is not None
        return SlotHome(last.node, present, last.entered_in_view if present else 0, row.moved)

    def holders_of(self, slot: int) -> tuple[str, ...]:
        """As `SlotLocator.holders_of`."""
        if not self._member.clustered:
            return (self._member.me.node,)
        return tuple([holder.node for holder in self._row(slot).in_sync])

    def registrar_of(self, slot: int) -> str | None:
        """As `SlotLocator.registrar_of`."""
        if not self._member.clustered:
            return self._member.me.node
        row = self._row(slot)
        return self._named(row.primary or row.deputy, self._member.own_holder)

    def registered_by(self, node: str) -> dict[int, int]:
        """As `SlotLocator.registered_by`."""
        member = self._member
        table, own = member.slots, member.own_holder
        if not member.clustered:
            return dict.fromkeys(range(SLOTS), 0) if node == member.me.node else {}
        slots = sorted([*table.slots_by_primary.get(node, ()), *table.slots_by_primary.get(None, ())])
        rows = [table.row(slot) for slot in slots]
        return {row.slot: row.epoch for row in rows if self._named(row.primary or row.deputy, own) == node}

    def _named(self, holder: Holder | None, own: Holder | None) -> str | None:
        """The node of a holder; None if this holder is an earlier process of this node. `own`: the present one."""
        if holder is None or (holder.node == self._member.me.node and holder != own):
            return None
        return holder.node

    def holds(self, slot: int) -> bool:
        """As `SlotLocator.holds`. False for a closed slot: the leader may have given it away already (H-40). False also
        for a copy that no table has made this node's: its sessions are not to be read yet (H-46). False for a slot that
        an earlier process may have lost: its sessions may go on elsewhere (H-54)."""
        if slot in self._closed or slot in self._shut:
            return False
        if not self._member.clustered:
            return True
        me, row = self._member.me, self._row(slot)
        holders = row.in_sync if row.primary is None else (row.primary,)
        return (me.node, me.disk) in [(each.node, each.disk) for each in holders] and not self._perhaps_lost(slot)

    def epoch_of(self, slot: int) -> int:
        """As `SlotLocator.epoch_of`: 0 in no cluster, otherwise the index of a log entry."""
        return self._row(slot).epoch

    def when_changed(self, changed: Callable[[], None]) -> None:
        """As `SlotLocator.when_changed`: nothing to do, because `ClusterAdapter` reports changes to `Gateways`."""
