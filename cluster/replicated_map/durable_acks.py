"""What waits until the map's writes are on the disk: acknowledgements, and the ends of exchanges.

What this node has said that it knows it has to know after `kill -9`, too: whoever said so before may be away when it is
back. A disk that is full holds nobody up, and neither does one that failed: then what is in memory has to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ...storage.store import Store

Then = Callable[[], None]


class DurableAcks:
    """The writes of one map to its store, which may be None: then nothing is waited for."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._last = 0
        self._waiting: deque[tuple[int, Then]] = deque()

    def wrote(self) -> None:
        """Something was given to the store in this turn."""
        if self._store is not None:
            self._last = self._store.open_commit

    def when_durable(self, then: Then) -> None:
        """Call back, in the order of the calls, when all that was written so far is on the disk; at once if it is."""
        if self._store is None or (not self._waiting and self._has(self._last)):
            then()
            return
        if not self._waiting or self._waiting[-1][0] < self._last:
            self._store.when_committed(self._last, self.look)
        self._waiting.append((self._last, then))

    def look(self) -> None:
        """Whether the disk has, or will not take, what is waited for."""
        while self._waiting and self._has(self._waiting[0][0]):
            self._waiting.popleft()[1]()

    def _has(self, commit: int) -> bool:
        assert self._store is not None
        return commit <= self._store.committed or not self._store.accepting
