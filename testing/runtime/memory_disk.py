"""A disk in memory that outlives its broker: what a kill leaves is what was committed, as with files.

`MemoryDisk` is the platter; it belongs to the test. `MemoryDiskEngine` is one opening of it, by one boot of a node. A
batch lands a turn after it was written, all of it or nothing; one that is under way when the engine closes never lands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...storage.engine import Batch, Done, Durability, StorageError
from ...storage.memory import Table


class MemoryDisk:
    """The content of a disk. `commits` counts the batches that have landed since it was made."""

    def __init__(self) -> None:
        self.table = Table()
        self.commits = 0


Disks = dict[str, MemoryDisk]
"""The disks of a node, by the name of the folder that each stands for."""


class MemoryDiskEngine:
    """An `Engine` on a `MemoryDisk`. `schedule` runs a function in a later turn of the loop."""

    durability: Durability = "os"

    def __init__(self, disk: MemoryDisk, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._disk = disk
        self._schedule = schedule
        self._busy = False
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None when there is none."""
        return self._table().values.get(key)

    def scan(self, start: bytes, stop: bytes, limit: int = 0, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        """As `Engine.scan`."""
        return self._table().scan(start, stop, limit, reverse)

    def keys(self, start: bytes, stop: bytes, limit: int = 0) -> list[bytes]:
        """As `Engine.keys`."""
        return self._table().keys(start, stop, limit)

    def _table(self) -> Table:
        if self._closed:
            raise StorageError("the disk in memory is closed: this boot of the node is over")
        return self._disk.table

    def write(self, batch: Batch, done: Done) -> None:
        """Land the batch in a later turn."""
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
        """End this opening; the disk keeps what has landed."""
        self._closed = True
