"""A disk in memory that outlives its broker: after a kill it has the committed data, as with files.

`MemoryDisk` is the data; the test owns it. `MemoryDiskEngine` is the storage engine of one boot of a node on it. A
batch is committed as a whole, one turn of the loop after it was written. A batch in progress is lost when the engine
closes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...storage.engine import Batch, Done, Durability, StorageError
from ...storage.memory import Table


class MemoryDisk:
    """The content of a disk. `commits` counts the committed batches."""

    def __init__(self) -> None:
        self.table = Table()
        self.commits = 0


Disks = dict[str, MemoryDisk]
"""The disks of a node, by the name of the folder that each one replaces."""


class MemoryDiskEngine:
    """An `Engine` on a `MemoryDisk`. `schedule` runs a function in a later turn of the loop."""

    durability: Durability = "os"

    def __init__(self, disk: MemoryDisk, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._disk = disk
        self._schedule = schedule
        self._busy = False
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        """Returns the value of a key, or None."""
        return self._table().values.get(key)

    def scan(self, start: bytes, stop: bytes, limit: int = 0, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        """Returns pairs of key and value in a range of keys (`Engine.scan`)."""
        return self._table().scan(start, stop, limit, reverse)

    def keys(self, start: bytes, stop: bytes, limit: int = 0) -> list[bytes]:
        """Returns the keys in a range (`Engine.keys`)."""
        return self._table().keys(start, stop, limit)

    def _table(self) -> Table:
        if self._closed:
            raise StorageError("the disk in memory is closed: this boot of the node is over")
        return self._disk.table

    def write(self, batch: Batch, done: Done) -> None:
        """Commit the batch in a later turn of the loop, then call `done`."""
        assert not self._busy, "a write is under way"
        assert not self._closed, "written after close"
        self._busy = True
        self._schedule(partial(self._land, batch, done))

    def _land(self, batch: Batch, done: Done) -> None:
        if self._closed:
            return
        self._busy = False
        self._disk.table.put_all(batch.items())
        self._disk.commits += 1
        done(None)

    def close(self) -> None:
        """Close the engine; the disk keeps the committed batches."""
        self._closed = True
