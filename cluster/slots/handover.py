"""Hands the empty slots of a primary to the nodes that should have them.

    open   --the slot is empty-->                               closed: no session may begin in it
    closed --the target is in sync-->                           closed, and the target is asked to be primary
    closed --another primary, or none-->                        not of this node
    closed --the row has changed, or the target has left-->     open

A request travels slowly, and may be applied late. So a slot stays closed while its last request could still be
accepted: until the row has a higher version, or the named target has left the view. While the target is in sync, the
slot stays closed in any case: the target would become primary without the sessions that begin here (H-40). A target
that is a follower already is asked to be primary at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .placement import wanted
from .table import Holder, SlotRow, SlotTable

Place = Callable[[int, Mapping[str, str]], str]
"""Returns the node that should have a slot, of those that serve: node -> its zone."""


def first_wanted(slot: int, zones: Mapping[str, str]) -> str:
    """As `Place`: the first node of `placement.wanted`."""
    return wanted(slot, zones, 1)[0]


def misplaced(table: SlotTable, own: Holder, zones: Mapping[str, str], place: Place = first_wanted) -> dict[int, str]:
    """Returns slot -> the node that should have it, for the slots of which `own` is primary and that belong elsewhere.

    `zones`: serving node -> its zone.
    """
    found = {}
    for slot in table.slots_by_primary.get(own.node, ()):
        if table.row(slot).primary == own:
            node = place(slot, zones)
            if node != own.node:
                found[slot] = node
    return found


class Handover:
    """The slots that this process is handing over. `closed`: slot -> the last request for its row."""

    def __init__(self) -> None:
        self.closed: dict[int, SlotRow] = {}
        self._targets: dict[int, Holder] = {}

    def close(self, row: SlotRow, target: Holder) -> None:
        """Begin to hand over an empty slot, or one that the target has. Other holders may be in sync: they leave the
        in-sync set when the target becomes primary."""
        self._targets[row.slot] = target
        self.closed[row.slot] = self._request(row)

    def _request(self, row: SlotRow) -> SlotRow:
        target = self._targets[row.slot]
        if target in row.in_sync:
            return SlotRow(row.slot, row.epoch, row.version, target, (target,))
        return SlotRow(row.slot, row.epoch, row.version, row.primary, (*row.in_sync, target))

    def follow(self, table: SlotTable, own: Holder | None, present: Mapping[str, Holder]) -> list[int]:
        """Take note of the applied table and view. Returns the slots that are open again at this node.

        `own`: this process in the view, None while it is not in it. `present`: node -> its incarnation in the view.
        """
        opened = []
        for slot, asked in list(self.closed.items()):
            row, target = table.row(slot), self._targets[slot]
            if own is None or row.primary != own:
                self._end(slot)
            elif target in row.in_sync:
                self.closed[slot] = self._request(row)
            elif row.version > asked.version or target not in present.values():
                self._end(slot)
                opened.append(slot)
        return opened

    def _end(self, slot: int) -> None:
        del self.closed[slot], self._targets[slot]

    def requests(self) -> list[SlotRow]:
        """Returns the requests to send, and to repeat until the rows have changed."""
        return list(self.closed.values())
