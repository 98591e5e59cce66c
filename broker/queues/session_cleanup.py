"""Deletes the queue entries of ended sessions from disk, in small steps and across restarts.

The batch that ends a session has one marker with the prefix of its entries. The entries are deleted in steps, at most
one per commit, so that a million of them do not block the loop. After a restart the markers show what is left, and also
at the next node of a slot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ...storage.engine import StorageError
from ...storage.keys import after, cleanup_key, parse_cleanup_key, slot_range
from ...storage.store import Store
from . import shared_payloads
from .records import RELEASED, RecordError, decode_entry

STEP = 500
"""The most entries of one step."""

STEP_BYTES = 1 << 20
"""An entry may be as large as a message. A step ends when it has read so much."""


class SessionCleanup:
    """Key ranges of queue entries that no session will read again."""

    def __init__(self, store: Store, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._store = store
        self._schedule = schedule
        self._ranges: deque[bytes] = deque()
        self._scheduled = False
        self._elsewhere: set[int] = set()
        """The slots for which another node deletes."""

    def load(self) -> None:
        """Find the deletions that a restart interrupted. Raises `StorageError`."""
        for key in self._store.keys(b"j", b"k"):
            self._start(parse_cleanup_key(key))

    def load_slot(self, slot: int) -> None:
        """The slot is here: find the deletions that its former node has not completed. Raises `StorageError`."""
        self._elsewhere.discard(slot)
        for key in self._store.keys(*slot_range(b"j", slot)):
            if parse_cleanup_key(key) not in self._ranges:
                self._start(parse_cleanup_key(key))

    def drop(self, slot: int) -> None:
        """The slot is at another node, or moving: delete nothing more of it. The markers stay."""
        self._elsewhere.add(slot)
        self._ranges = deque([prefix for prefix in self._ranges if prefix[1] != slot])

    def add(self, prefix: bytes) -> None:
        """Delete all queue entries with this `queue_prefix` in later turns. The open batch has the marker."""
        try:
            if not self._store.keys(prefix, after(prefix), 1):
                return
        except StorageError:
            pass  # the store reports the error; the marker lets a start after a repair delete the entries
        self._store.put(cleanup_key(prefix), b"")
        self._start(prefix)

    def has(self, slot: int) -> bool:
        """True if entries of a session of this slot are being deleted."""
        return any(prefix[1] == slot for prefix in self._ranges)

    def _start(self, prefix: bytes) -> None:
        if prefix[1] in self._elsewhere:
            return
        self._ranges.append(prefix)
        if not self._scheduled:
            self._next()

    def _step(self) -> None:
        self._scheduled = False
        if not self._ranges:
            return  # their slots have left this node
        prefix = self._ranges[0]
        store = self._store
        found: list[bytes] = []
        complete = False
        try:
            found = store.keys(prefix, after(prefix), STEP)
            complete = self._delete(prefix[1], found) and len(found) < STEP
        except StorageError:
            # the store reports the error; the marker stays, and a start after a repair deletes the rest
            self._ranges.popleft()
            found = []
        if complete:
            store.delete(cleanup_key(prefix))
            self._ranges.popleft()
        if self._ranges:
            # one step per commit, so that the deletions of a large session never outweigh the traffic in a batch
            self._scheduled = True
            store.when_committed(store.open_commit if found else store.committed, self._next)

    def _delete(self, slot: int, entries: list[bytes]) -> bool:
        """Delete these entries, until what was read is large. True if that was all. Raises `StorageError`."""
        size = 0
        for number, key in enumerate(entries, 1):
            value = self._store.get(key) or b""
            try:
                record = decode_entry(key, value)
                if record.mid and record.state != RELEASED:
                    shared_payloads.let_go(self._store, slot, record.mid)
            except RecordError:
                # unreadable, but nothing needs it: delete it as well
                pass
            self._store.delete(key)
            size += len(value)
            if size >= STEP_BYTES:
                return number == len(entries)
        return True

    def _next(self) -> None:
        self._scheduled = True
        self._schedule(self._step)

    def __len__(self) -> int:
        return len(self._ranges)
