"""Delays acknowledgements and ends of exchanges until the map's writes are on disk.

A node acknowledges a write to peers only after the write is on disk. After `kill -9` the peer that sent it may be
unreachable, so this node must not have forgotten it. If the disk is full or has failed, nothing is delayed: then the
copy in memory is enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ...storage.store import Store

Then = Callable[[], None]


class DurableAcks:
    """The writes of one map to its store. Without a store (None) callbacks run at once."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._last = 0
        self._waiting: deque[tuple[int, Then]] = deque()

    def wrote(self) -> None:
        """The map wrote to the store in this turn."""
        if self._store is not None:
            self._last = self._store.open_commit

    def when_durable(self, then: Then) -> None:
        """Call `then` once all writes so far are on disk, perhaps at once. Callbacks run in order."""
        if self._store is None or (not self._waiting and self._has(self._last)):
            then()
            return
        if not self._waiting or self._waiting[-1][0] < self._last:
            self._store.when_landed(self._last, self.look)
        self._waiting.append((self._last, then))

    def look(self) -> None:
        """Run the callbacks whose writes are on disk, or all of them if the disk takes no more writes."""
        while self._waiting and self._has(self._waiting[0][0]):
            self._waiting.popleft()[1]()

    def _has(self, commit: int) -> bool:
        assert self._store is not None
        return commit <= self._store.landed or not self._store.accepting
