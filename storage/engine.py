"""The port to a disk: ordered keys and values as bytes, atomic batches, one batch at a time.

The contract of all engines:

* `write` returns before it calls `done`. `done` runs once, on the owner's event loop: with None when the batch is as
  durable as `durability` says, or with an error. The owner may write a failed batch again, because writing a batch
  twice has the same effect as once.
* After a crash the disk has all of an unfinished batch, or nothing of it. Batches survive in the order of their writes.
* During a write, reads may return old or new values. `Store` merges its own writes into them.
* After `close` the engine calls no `done`. An unfinished batch is written or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

Batch = dict[bytes, bytes | None]
"""Key -> value; None deletes. The last write to a key wins."""

Done = Callable[[Exception | None], None]
"""The callback of a write. It gets None, or the error: then the batch may be on the disk or not."""

Durability = Literal["sync", "os"]
"""When a write is done: `sync` after fsync (survives power loss), `os` once it has left the process (a kill)."""


class StorageError(Exception):
    """An operation on the disk failed. The text names the place, the meaning and the remedy."""


class Passing(StorageError):
    """The cause may go away without a repair. The write may be repeated."""


class DiskFull(Passing):
    """No space is left, or the quota is used up."""


class OutOfDescriptors(Passing):
    """The process or the machine has no file descriptor left."""


class Corrupted(StorageError):
    """Data on the disk is damaged. Only an operator starts a repair.

    `data_missing` is True if a file with data does not exist any more. A repair cannot restore this data.
    """

    def __init__(self, file: str, loss: str, remedy: str, *, data_missing: bool = False) -> None:
        super().__init__(f"{file}: {loss}. {remedy}")
        self.file = file
        self.loss = loss
        self.remedy = remedy
        self.data_missing = data_missing


class DirectoryInUse(StorageError):
    """Another process, or another object of this one, has locked the directory."""

    def __init__(self, path: str, pid: int | None) -> None:
        holder = f"by process {pid}" if pid is not None else "by another process"
        super().__init__(f"{path} is in use {holder}: stop that process first, or give this node its own directory")
        self.path = path
        self.pid = pid


class WrongDirectory(StorageError):
    """The directory holds data of another node, an unknown format, or foreign files."""


class Engine(Protocol):
    """The disk of a `Store`. Reads are synchronous and may raise `StorageError`. A batch that is done is as durable as
    `durability` says: `none` is memory alone."""

    @property
    def durability(self) -> Durability | Literal["none"]:
        """What a write waits for."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None if the key does not exist."""

    def scan(self, start: bytes, stop: bytes, limit: int = 0, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        """Keys and values with start <= key < stop in order of keys, at most `limit` of them (0: all)."""

    def keys(self, start: bytes, stop: bytes, limit: int = 0) -> list[bytes]:
        """As `scan`, without the values."""

    def write(self, batch: Batch, done: Done) -> None:
        """Write a batch atomically. Do not change the batch before `done`. At most one write runs at a time."""

    def close(self) -> None:
        """Close the engine. May wait for the running write."""
