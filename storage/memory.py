"""An engine in memory, for tests, for brokers that need not remember, and for the simulator's diskless nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from .engine import Batch, Done
from .sorted_keys import SortedKeys


class Table:
    """A map with ordered keys: the readable half of an engine that holds everything in memory."""

    def __init__(self, content: Mapping[bytes, bytes] | None = None) -> None:
        self.values = dict(content or {})
        self._order: SortedKeys[bytes] = SortedKeys(self.values)

    def put(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set a value (None deletes) and give back the one before."""
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
        """Set several; what undoes it comes back, to be applied from its end."""
        return [(key, self.put(key, value)) for key, value in items]

    def scan(self, start: bytes, stop: bytes, limit: int = 0, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        """As `Engine.scan`."""
        values = self.values
        return [(key, values[key]) for key in self._order.between(start, stop, limit, reverse)]

    def keys(self, start: bytes, stop: bytes, limit: int = 0) -> list[bytes]:
        """As `Engine.keys`."""
        return self._order.between(start, stop, limit)


class VolatileMemoryEngine:
    """VOLATILE: everything is gone when the process ends, however it ends. `done` means "in memory" and nothing more.

    `schedule` is the loop's `call_soon`: writes complete a turn later, as they would on a disk.
    """

    durability = "none"

    def __init__(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._schedule = schedule
        self._table = Table()
        self._busy = False
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None when there is none."""
        return self._table.values.get(key)

    def scan(self, start: bytes, stop: bytes, limit: int = 0, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        """As `Engine.scan`."""
        return self._table.scan(start, stop, limit, reverse)

    def keys(self, start: bytes, stop: bytes, limit: int = 0) -> list[bytes]:
        """As `Engine.keys`."""
        return self._table.keys(start, stop, limit)

    def write(self, batch: Batch, done: Done) -> None:
        """Land the batch in the next turn."""
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
        """End it; the content stays readable for whoever still looks."""
        self._closed = True
