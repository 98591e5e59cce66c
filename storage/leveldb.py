"""LevelDB through plyvel: reads on the loop's thread, one thread for writes.

Precautions against the behaviour of LevelDB (each has a test):

* A backward scan checks `start` itself, because plyvel misses a range with one key that equals `start`.
* Each opening and each read verifies checksums. Without that a flipped bit was returned as a wrong value.
* The engine creates a database only if the marker of the folder says that there never was one.
* A scan that finds nothing passes over all deleted keys up to the next one that exists, because an iterator of LevelDB
  has no upper bound: 133,000 deleted keys took 26 ms. So there are fences: keys that always exist, between the ranges
  that the owner scans. With a fence for each slot it took 0.3 ms. No read returns a fence.
* The engine has its own lock. LevelDB's lock is lost when a process opens a path twice.
* LevelDB does not notice that its folder was removed, and still writes to the deleted files. So each write checks this.
* After a failed write the engine closes and opens the database before the next write. The log may end with half a
  record, and LevelDB would take the next record for damage. If the disk is full, or no file descriptor is left, the
  engine reopens the database only when they are available again. Until then reads still work.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from .durations import Durations
from .engine import Batch, DiskFull, Done, Durability, StorageError
from .leveldb_binding import plyvel
from .leveldb_damage import check_logs, explain, tables_of
from .leveldb_folder import Folder

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class LevelDBOptions:
    """Options of LevelDB, sizes in bytes.

    A larger `write_buffer_size` means fewer compactions, more memory (twice the size) and a longer start (about 25 ms
    per MiB).
    """

    write_buffer_size: int = 16 * MIB
    block_size: int = 4096
    compression: bool = True
    bloom_filter_bits: int = 10
    max_open_files: int = 500
    lru_cache_size: int = 32 * MIB

    def arguments(self) -> dict[str, Any]:
        """The arguments of plyvel for opening and repair. Checksums are always verified."""
        return {
            "paranoid_checks": True,
            "write_buffer_size": self.write_buffer_size,
            "block_size": self.block_size,
            "compression": "snappy" if self.compression else None,
            "bloom_filter_bits": self.bloom_filter_bits,
            "max_open_files": self.max_open_files,
            "lru_cache_size": self.lru_cache_size,
        }


class _Fences:
    """The fences of a database; `unwritten` until the first batch."""

    def __init__(self, fences: Sequence[bytes]) -> None:
        self._sorted = fences
        self.has = frozenset(fences).__contains__
        self.unwritten = fences

    def within(self, start: bytes, stop: bytes) -> bool:
        """True if a fence is in this range of keys."""
        return bisect_left(self._sorted, start) < bisect_left(self._sorted, stop)


class LevelDBEngine:
    """The engine on LevelDB. `call_threadsafe` is `loop.call_soon_threadsafe`; it runs the completions.

    `fences`: sorted keys that the owner neither reads nor writes, best at the start of each range that it scans. They
    are written with the first batch.

    The constructor raises `DirectoryInUse`, `WrongDirectory`, `Corrupted`, `DiskFull` or `StorageError`.
    """

    def __init__(
        self,
        path: Path,
        call_threadsafe: Callable[[Callable[[], None]], object],
        durability: Durability = "sync",
        options: LevelDBOptions | None = None,
        fences: Sequence[bytes] = (),
    ) -> None:
        assert durability in ("sync", "os"), durability
        self.path = Path(path).absolute()
        self.durability: Durability = durability
        self.options = options or LevelDBOptions()
        self.commits = Durations()
        """How long each write took, failed ones included."""
        self._call_threadsafe = call_threadsafe
        self._fences = _Fences(fences)
        self._folder = Folder(self.path)
        self._db: Any = None
        try:
            self._open(create=self._folder.is_new)
            self._folder.made()
        except BaseException:
            self._shut()
            self._folder.close()
            raise
        self._lock = threading.Lock()  # guards the handle: the event loop reads while the writer's thread may reopen
        self._gone: StorageError | None = None  # why there is no handle
        self._broken = False  # a write failed: reopen before the next one
        self._busy = False
        self._closed = False
        self._jobs: SimpleQueue[tuple[Batch, Done] | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._run, name=f"leveldb {self.path.name}", daemon=True)
        self._writer.start()

    # Reading

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, None if the key does not exist. Raises `Corrupted`."""
        with self._lock:
            try:
                value: bytes | None = self._handle().get(key, verify_checksums=True)
            except (plyvel.Error, OSError) as error:
                raise self._explain_read(error, key) from error
        return value

    def scan(self, start: bytes, stop: bytes, limit: int = 0, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        """As `Engine.scan`. Raises `Corrupted` instead of returning a part of the range."""
        return self._range(start, stop, limit, reverse, include_value=True)

    def keys(self, start: bytes, stop: bytes, limit: int = 0) -> list[bytes]:
        """As `Engine.keys`. Raises `Corrupted`."""
        return self._range(start, stop, limit, reverse=False, include_value=False)

    def _range(self, start: bytes, stop: bytes, limit: int, reverse: bool, include_value: bool) -> list[Any]:
        rows: list[Any] = []
        is_fence = self._fences.has
        if is_fence(start):
            start += b"\x00"  # the first key behind it
        if start >= stop:
            return rows
        fenced = self._fences.within(start, stop)
        with self._lock:
            try:
                # No `start` in a backward scan: plyvel 1.5.1 finds nothing if it is the only key of the range.
                with self._handle().iterator(
                    start=None if reverse else start,
                    stop=stop,
                    reverse=reverse,
                    include_value=include_value,
                    verify_checksums=True,
                ) as found:
                    inside = takewhile(lambda row: row[0] >= start, found) if reverse else found
                    if fenced:
                        inside = (row for row in inside if not is_fence(row[0] if include_value else row))
                    # extend, not list(): the rows before a damaged block tell which block it is
                    rows.extend(islice(inside, limit) if limit else inside)
            except (plyvel.Error, OSError) as error:
                last = rows[-1] if rows else start
                raise self._explain_read(error, last[0] if isinstance(last, tuple) else last) from error
        return rows

    def _explain_read(self, error: Exception, key: bytes) -> StorageError:
        listing = self._db.get_property(b"leveldb.sstables") if self._db is not None else None
        return explain(self.path, error, suspects=tables_of((listing or b"").decode("latin-1"), key))

    # Writing

    def write(self, batch: Batch, done: Done) -> None:
        """Queue the batch for the writer's thread."""
        assert not self._busy, "a write is under way"
        assert not self._closed, "written after close"
        self._busy = True
        self._jobs.put((batch, done))

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            batch, done = job
            began_s = time.monotonic()
            error = self._attempt(batch)
            took_s = time.monotonic() - began_s
            try:
                self._call_threadsafe(partial(self._finished, done, error, took_s))
            except RuntimeError:
                # The owner's event loop is closed, so nothing was acknowledged.
                return

    def _finished(self, done: Done, error: Exception | None, took_s: float) -> None:
        self._busy = False
        self.commits.add(took_s)
        if not self._closed:
            done(error)

    def _attempt(self, batch: Batch) -> Exception | None:
        """Write a batch. Returns the error, because the owner's thread has to handle it."""
        try:
            if self._broken:
                self._open_anew()
            # Not `with`: if the loop raised, it would write the first half of the batch.
            writes = self._handle().write_batch(sync=self.durability == "sync")
            for fence in self._fences.unwritten:
                writes.put(fence, b"")
            for key, value in batch.items():
                if value is None:
                    writes.delete(key)
                else:
                    writes.put(key, value)
            writes.write()
            self._fences.unwritten = ()
            self._folder.check()
        except StorageError as error:
            return error
        except (plyvel.Error, OSError) as error:
            self._broken = True
            return explain(self.path, error)
        except Exception as error:  # our bug: the thread survives to report it, and the store fails
            self._broken = True
            return error
        return None

    # The handle

    def check(self) -> None:
        """Raise `StorageError` if the folder of the database was removed or replaced. Any thread may call this."""
        self._folder.check()

    def _handle(self) -> Any:
        if self._db is None:
            raise self._gone or StorageError(f"{self.path} is closed")
        return self._db

    def _open(self, create: bool) -> None:
        if not create and (self.path / "CURRENT").exists():
            check_logs(self.path)
        try:
            self._db = plyvel.DB(str(self.path), create_if_missing=create, **self.options.arguments())
        except (plyvel.Error, OSError) as error:
            raise explain(self.path, error, opening=True) from error

    def _open_anew(self) -> None:
        """Close and open the database after a failed write. Raises `DiskFull` and stays readable without space."""
        self._check_space()
        with self._lock:
            self._shut()
            try:
                self._open(create=False)
            except StorageError as error:
                self._gone = error  # reads raise this error until the next write reopens the database
                raise
            self._gone = None
        self._broken = False

    def _check_space(self) -> None:
        """Raise `DiskFull` if the disk lacks space to open the database, which turns up to two logs into tables."""
        needed = 2 * self.options.write_buffer_size + MIB
        probe = self.path / "strogoff.probe"
        try:
            handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
            try:
                os.posix_fallocate(handle, 0, needed)
            finally:
                os.close(handle)
                probe.unlink()
        except OSError as error:
            full = explain(self.path, error)
            if isinstance(full, DiskFull):
                raise DiskFull(
                    f"{self.path}: no space left, writes continue when {needed // MIB} MiB are free"
                ) from error
            raise full from error

    def _shut(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def close(self) -> None:
        """Wait for the running write, then close and release the directory. Another call has no effect."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            self._writer.join()
            self._shut()
            self._folder.close()
