"""The port to a disk: ordered keys and values as bytes, atomic batches, one at a time.

All engines keep one contract:

* `write` never calls `done` before it returns; `done` runs on the owner's loop, once, after the batch is as durable as
  the engine's `durability` says, or with the reason why it is not. A failed batch may be given again: values are
  absolute, so writing it twice is the same as once.
* Of a batch that was under way at a crash there is all or nothing, and batches survive in the order they were given.
* While a batch is under way reads show it or do not; `Store` lays its own writes over them.
* After `close` no `done` is called any more, and what was under way has landed or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

Batch = dict[bytes, bytes | None]
"""Key -> value; None deletes. The last write to a key wins."""

Done = Callable[[Exception | None], None]
"""What a write calls when it is over: None, or why nothing of it may be relied on."""

Durability = Literal["sync", "os"]
"""When a write is done: `sync` after fsync (survives power loss), `os` once it has left the process (a kill)."""


class StorageError(Exception):
    """The disk did not do what it was asked; the text says where, what that means and what to do."""


class Passing(StorageError):
    """What is missing may come back without anybody mending the disk: the write may be repeated."""


class DiskFull(Passing):
    """No space is left, or the quota is used up."""


class OutOfDescriptors(Passing):
    """The process, or the machine, has no file descriptor left to open a file with."""


class Corrupted(StorageError):
    """What is on the disk is not what was written. Never repaired without being asked."""

    def __init__(self, file: str, loss: str, remedy: str) -> None:
        super().__init__(f"{file}: {loss}. {remedy}")
        self.file = file
        self.loss = loss
        self.remedy = remedy


class DirectoryInUse(StorageError):
    """Another process, or another part of this one, has the directory."""

    def __init__(self, path: str, pid: int | None) -> None:
        holder = f"by process {pid}" if pid is not None else "by another process"
        super().__init__(f"{path} is in use {holder}: stop that one first, or give this node a directory of its own")
        self.path = path
        self.pid = pid


class WrongDirectory(StorageError):
    """The directory holds something else than asked for: another node's data, an unknown format, strange files."""


class Engine(Protocol):
    """What a `Store` needs of a disk. Reads are synchronous and may raise `StorageError`."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None when there is none."""

    def scan(self, start: bytes, stop: bytes, limit: int = 0, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        """Keys and values with start <= key < stop in order of keys, at most `limit` of them (0: all)."""

    def keys(self, start: bytes, stop: bytes, limit: int = 0) -> list[bytes]:
        """As `scan`, without the values."""

    def write(self, batch: Batch, done: Done) -> None:
        """Write all of a batch or nothing; the batch must not be changed before `done`. At most one at a time."""

    def close(self) -> None:
        """Give the disk back. May wait for the write that is under way."""
