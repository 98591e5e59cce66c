"""An engine in memory, for tests, for brokers without persistence, and for nodes of the simulator without a disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Literal

from .engine import Batch, Done
from .sorted_keys import SortedKeys


class Table:
    """A map with ordered keys, for engines in memory."""

    def __init__(self, content: Mapping[bytes, bytes] | None = None) -> None:
        self.values = dict(content or {})
        self._order: SortedKeys[bytes] = SortedKeys(self.values)

    def put(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set a value (None deletes) and return the previous one."""
        before = self.values.get(key)
        if value is None:
            if before is not None:
                del self.values[key]
                self._order.remove(key)
        else:
            if before is None:
                self._order.add(key)
            self.values[key] = value
        return before

    def put_all(self, items: Iterable[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
        """Set several values. Returns the previous ones: applied in reverse order they undo the call."""
        return [(key, self.put(key, value)) for key, value in items]

    def scan(self, start: bytes, stop: bytes, limit: int = 0, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        """As `Engine.scan`."""
        values, found = self.values, self._order.between(start, stop, limit, reverse)
        return [(key, values[key]) for key in found] if found else []

    def keys(self, start: bytes, stop: bytes, limit: int = 0) -> list[bytes]:
        """As `Engine.keys`."""
        return self._order.between(start, stop, limit)


class VolatileMemoryEngine:
    """VOLATILE: all data is lost when the process ends. `done` only means that the batch is in memory.

    `schedule` is the loop's `call_soon`. Writes complete in a later turn, as on a disk.
    """

    durability: Literal["none"] = "none"

    def __init__(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._schedule = schedule
        self._table = Table()
        self._busy = False
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None if the key does not exist."""
        return self._table.values.get(key)

    def scan(self, start: bytes, stop: bytes, limit: int = 0, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        """As `Engine.scan`."""
        return self._table.scan(start, stop, limit, reverse)

    def keys(self, start: bytes, stop: bytes, limit: int = 0) -> list[bytes]:
        """As `Engine.keys`."""
        return self._table.keys(start, stop, limit)

    def write(self, batch: Batch, done: Done) -> None:
        """Write the batch in the next turn."""
        assert not self._busy, "a write is under way"
        assert not self._closed, "written after close"
        self._busy = True
        self._schedule(partial(self._land, batch, done))

    def _land(self, batch: Batch, done: Done) -> None:
        if self._closed:
            return
        self._busy = False
        self._table.put_all(batch.items())
        done(None)

    def close(self) -> None:
        """Close the engine. Its content stays readable."""
        self._closed = True
