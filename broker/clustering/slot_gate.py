"""Which slots of a copy from another node this node takes, so that no slot gets a message twice or never (H-44).

A copy names slots, and the index of the slot table by which its origin chose this node for them. This node follows that
table first: else it would skip a slot that it is about to get. Then it takes the slots that it has had since that
table, and skips those that have left it, also if they have come back since. Their present node gets a copy for them, in
order, when the origin follows the table (`ForwardSender.follow`).

Copies for one slot carry rising numbers, also after the slot has moved. The last number from each origin is stored with
the slot, in the batch of the queue entries. So the present node takes no copy that a former one has taken.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from ...cluster.identity import SLOTS
from ...cluster.links.ports import Refuse
from ...storage import keys
from ...storage.store import Store
from .forward_codec import Head


class SlotGate:
    """`here_since` returns the index of the table since which this node has a slot, by the table that it follows. It
    returns None if this node has not got the slot. `closed` are the slots whose sessions are not open here."""

    def __init__(self, store: Store, here_since: Callable[[int], int | None], closed: Container[int] = ()) -> None:
        self._store = store
        self._here_since = here_since
        self._closed = closed
        self.table = 0
        """Index of the slot table that this node follows."""
        self.noted = 0
        """The highest index under which an earlier process of this node acknowledged a copy."""
        self.entered = False
        """This process has been in a view. Before that its table may be older than the one of its last process."""
        self.barrier = 0
        """The commit with the rows of the slots that this node got last. Before it ends, the disk may lack the numbers
        of the copies that these slots have taken."""
        self.sealed: set[int] = set()
        """Slots that this node has got and has not opened yet: it takes no copy for them."""
        self.contested = False
        """This node is out of the view, and is the first holder of slots that another node may get instead."""
        self._last: list[dict[str, int]] = [{} for _ in range(SLOTS)]
        """For each slot and origin boot and number of the last copy, as one number (`_number`)."""

    @property
    def applied(self) -> int:
        """The index that goes with an acknowledgement."""
        return self.table if self.table >= self.noted else self.noted

    @property
    def unsafe(self) -> int:
        """The commit that the acknowledgement of a copy waits for which its slots have already; 0 if for none."""
        return self.barrier if self.barrier > self._store.committed else 0

    def load(self, slots: Iterable[int]) -> None:
        """Read from the store what these slots have taken."""
        for slot in slots:
            rows = self._store.scan(*keys.slot_range(b"y", slot))
            self._last[slot] = {keys.parse_taken_key(key): int.from_bytes(value, "big") for key, value in rows}

    def drop(self, slot: int) -> None:
        """The slot has left this node: forget what it has taken."""
        self._last[slot] = {}

    def check(self, head: Head) -> None:
        """Raises `Refuse` if this node cannot take the copy now."""
        if head.table > self.table:
            raise Refuse(f"it belongs to slot table {head.table}, this node follows table {self.table}")
        if not self.entered:
            raise Refuse("this process has not been in a view yet, and may not know which slots have left it")
        if self.contested:
            raise Refuse("this node is out of the view, and the next primary of its slots may be another one")
        if self.sealed and not self.sealed.isdisjoint(head.slots):
            raise Refuse(f"slot {min(self.sealed.intersection(head.slots))} is not read yet")
        for slot in head.slots:
            if slot in self._closed and self._here_since(slot) is not None:
                # it would count as having the message (H-44)
                raise Refuse(f"slot {slot} is not open here")

    def fresh(self, origin: str, boot: int, head: Head) -> tuple[int, ...]:
        """Return the slots of a copy that it is for, and that have not taken it. `boot` is that of the origin."""
        slots, number, table = head.slots, _number(boot, head.number), head.table
        fresh = []
        for slot in slots:
            since = self._here_since(slot)
            # it is here, has been here without a break since that table, and has not taken the copy
            if since is not None and since <= table and self._last[slot].get(origin, 0) < number:
                fresh.append(slot)
        return slots if len(fresh) == len(slots) else tuple(fresh)

    def last(self, slot: int, origin: str) -> tuple[int, int]:
        """Return boot and number of the last copy that a slot took from an origin."""
        return divmod(self._last[slot].get(origin, 0), 1 << 64)

    def note(self, origin: str, boot: int, head: Head, slots: tuple[int, ...], stored: bool) -> None:
        """These slots have taken a copy; with `stored` its queue entries are in the open batch."""
        number = _number(boot, head.number)
        value = number.to_bytes(12, "big")
        for slot in slots:
            self._last[slot][origin] = number
            if stored:
                self._store.put(keys.taken_key(slot, origin), value)

    def forget(self, origin: str, before: int) -> None:
        """The boots of the origin before this one have left the cluster for good."""
        for slot, last in enumerate(self._last):
            if origin in last and last[origin] < _number(before, 0):
                del last[origin]
                self._store.delete(keys.taken_key(slot, origin))


def _number(boot: int, number: int) -> int:
    """Numbers of a later boot are higher."""
    return boot << 64 | number
