"""Compares the copies of this node's slots with its own rows, one slot after another, as long as it runs (H-53).

A copy in sync gets all changes, and nobody reads it until its node becomes primary. So each primary sends digests of
its rows, as when a copy is made (`slot_comparison.py`), and the rows of the ranges that differ. The copy stays in sync
meanwhile. The follower counts the rows that it replaces, and reports them.

The comparison is exact: what differs is wrong at one of both nodes. The primary reads the rows as the last closed batch
has left them, without the open batch, and the changes of all closed batches are in the lane before the digests. The
follower compares after it has applied these changes, and before all later ones. The primary is right, because its rows
are what clients get. If it cannot read its own rows, it sends nothing.

Slot n of N is due whenever the cluster time passes `n / N` of an interval. So each slot is compared once in an
interval, whichever node is its primary and however often nodes restart.

    due        the time of the slot has come
    running    one item is under way at a time; the next step is one of `Environment.background`
    over       all rows were compared; or the copy is not in sync any more, or a disk cannot be read: then the slot is
               compared when it is due again
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Protocol

import msgspec

from ...cluster.identity import SLOTS
from ...cluster.slots.table import Holder
from ...storage.engine import StorageError
from ..environment import Environment
from .copy_codec import CopyAttempt, CopyItem, Digests, Rows
from .slot_comparison import Comparison

PATIENCE_MS = 2_000
"""How long a step waits while commits wait for the follower. A step takes 0.4 ms at either node."""
ANSWER_MS = 10_000
"""After this time without an answer the slot goes to the end of those that are due."""
ITEM_BYTES = 8 << 10
"""Bytes of rows in one item: a commit may wait behind it."""


class ComparedCopy(Protocol):
    """A copy that is in sync. `left`: what is left to compare, which takes the follower's answers."""

    attempt: CopyAttempt
    holder: Holder
    left: Comparison


class SyncedCopies(Protocol):
    """The copies of a primary, and the lane to their nodes."""

    def in_sync(self, slot: int) -> Sequence[ComparedCopy]:
        """Return the copies of a slot that are in sync, none while the slot is given away."""
        ...

    def is_idle(self, node: str) -> bool:
        """True if no commit has waited for a node for a while, and no copy is filled there."""
        ...

    def send(self, node: str, item: CopyItem) -> int:
        """Send an item behind all changes. Returns its number."""
        ...

    def has(self, node: str, number: int) -> bool:
        """True if a node has acknowledged the item with this number."""
        ...


class ClosedRows(Protocol):
    """The rows of a node's slots."""

    def rows(self, slot: int, after: bytes, upto: bytes, closed: bool) -> Iterator[tuple[bytes, bytes]]:
        """As `SlotSessions.rows`."""
        ...


class _Run(msgspec.Struct, eq=False):
    """The comparison of one copy. `sent_ms`: when the last item was sent, or the run began. `item`: its number.
    `ranges`: how many items with rows were sent."""

    copy: ComparedCopy
    sent_ms: float
    item: int = 0
    ranges: int = 0


class CopyCheck:
    """The comparisons of one primary. `now_ms` is the monotonic clock."""

    def __init__(self, env: Environment, now_ms: Callable[[], float], rows: ClosedRows, copies: SyncedCopies) -> None:
        self._env = env
        self._now_ms = now_ms
        self._rows = rows
        self._copies = copies
        self._interval_ms = 0
        self._place = 0
        """How many slots were due since the begin of time, with the present interval."""
        self._due: dict[int, None] = {}
        """The slots that are due, in their order."""
        self._next: deque[ComparedCopy] = deque()
        """Further copies of the slot that is compared now."""
        self._run: _Run | None = None
        self._planned = False

    @property
    def due(self) -> int:
        """The number of slots that are due and not compared to the end yet."""
        return len(self._due) + (self._run is not None)

    def begin(self, slots: Collection[int]) -> int:
        """Those of these slots that have copies in sync are due now. Returns how many they are."""
        found = [slot for slot in slots if self._copies.in_sync(slot)]
        self._due.update(dict.fromkeys(found))
        return len(found)

    def tick(self) -> None:
        """Note which slots are due, and plan the next step. Call it often."""
        if self._env.store.state != "serving":
            return
        self._note_due()
        if self._planned:
            return
        now_ms = self._now_ms()
        run = self._run
        if run is not None and run.copy not in self._copies.in_sync(run.copy.attempt.slot):
            run = None
        if run is not None and self._is_under_way(run):
            if now_ms - run.sent_ms < ANSWER_MS:
                return
            self.begin([run.copy.attempt.slot])
            run = None
        if run is not None and run.copy.left.complete:
            self._compared(run)
            run = None
        if run is None:
            run = self._begun(now_ms)
        self._run = run
        if run is not None and self._may_send(run, now_ms):
            self._planned = True
            self._env.background(self._step)

    def _note_due(self) -> None:
        interval_ms = self._env.options.queue_check_interval_s * 1000
        place = self._env.clock.now_ms() * SLOTS // interval_ms if interval_ms else 0
        if interval_ms != self._interval_ms:
            self._interval_ms, self._place = interval_ms, place
            self._due.clear()
        elif place < self._place:
            self._place = place  # the clock was set back
        self.begin([number % SLOTS for number in range(max(self._place, place - SLOTS), place)])
        self._place = place

    def _begun(self, now_ms: float) -> _Run | None:
        while not self._next and self._due:
            slot = next(iter(self._due))
            del self._due[slot]
            self._next.extend(self._copies.in_sync(slot))
        if not self._next:
            return None
        copy = self._next.popleft()
        copy.left = Comparison(True, copy.left.number)
        return _Run(copy, now_ms)

    def _is_under_way(self, run: _Run) -> bool:
        return run.copy.left.waits or not self._copies.has(run.copy.holder.node, run.item)

    def _may_send(self, run: _Run, now_ms: float) -> bool:
        return self._copies.is_idle(run.copy.holder.node) or now_ms - run.sent_ms >= PATIENCE_MS

    def _step(self) -> None:
        """Send the next item."""
        self._planned = False
        run = self._run
        if run is None or run.copy not in self._copies.in_sync(run.copy.attempt.slot):
            return
        copy, left = run.copy, run.copy.left
        node, slot = copy.holder.node, copy.attempt.slot
        between = partial(self._rows.rows, slot, closed=True)
        item: CopyItem
        try:
            if left.needs_digests:
                item = Digests(copy.attempt, *left.digests(between))
            else:
                after, upto, rows = left.rows(between, ITEM_BYTES)
                item = Rows(copy.attempt, rows, after, upto)
                run.ranges += 1
        except StorageError as error:
            text = f"slot {slot} cannot be compared with its copy at {node}, which stays as it is: {error}"
            self._env.log("error", text)
            self._run = None
            return
        run.item = self._copies.send(node, item)
        run.sent_ms = self._now_ms()

    def _compared(self, run: _Run) -> None:
        self._env.counters.queue_copy_checks += 1
        if run.ranges:
            slot, node = run.copy.attempt.slot, run.copy.holder.node
            text = f"the copy of slot {slot} at {node} had wrong rows: they were sent again. The log of {node} has more"
            self._env.log("error", text)
