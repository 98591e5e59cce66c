"""A disk on virtual time. It can be slow or full, hang, or lose power. The same seed gives the same behaviour.

The disk has every guarantee of a real LevelDB on a real file system, and no other:

* The process is killed: all finished writes stay. The unfinished write is on the disk completely or not at all.
* Power is lost with `sync`: the same, because each finished write was synced.
* Power is lost with `os`: a random number of the latest writes since the last flush of the system is lost. Batches are
  lost as a whole: LevelDB detects an incomplete batch by its checksum and drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from ...storage.engine import Batch, DiskFull, Done, Durability, StorageError
from ...storage.memory import Table

UNSYNCED_MAX = 500
"""The number of batches that may be unsynced with `os`; the system has synced older ones."""

Undo = list[tuple[bytes, bytes | None]]


class SimDisk:
    """A storage engine on virtual time.

    Ports: `rng` makes all random decisions; `call_later(delay_s, function)` and `now()` are the virtual clock. A write
    takes between `latency_s[0]` and `latency_s[1]` seconds; both may be set. Faults set these attributes: `full`
    (writes fail with `DiskFull`), `stall_until` (no write ends before that time, in s; reads work; `math.inf` means
    until the next change) and `failing` (the next write to end fails with `StorageError`, and yet may be on the disk).
    """

    def __init__(
        self,
        rng: Random,
        call_later: Callable[[float, Callable[[], None]], object],
        now: Callable[[], float],
        durability: Durability = "sync",
        latency_s: tuple[float, float] = (0.0002, 0.005),
        content: Mapping[bytes, bytes] | None = None,
    ) -> None:
        self.full = False
        self.failing = False
        self.latency_s = latency_s
        self.durability = durability
        self._rng = rng
        self._call_later = call_later
        self._now = now
        self._stall_until = 0.0
        self._table = Table(content)
        self._unsynced: list[Undo] = []
        self._writing: tuple[Batch, Done] | None = None
        self._attempt = 0  # timers of earlier attempts do nothing
        self._ends_at = 0.0
        self._gone = ""

    # The engine

    def get(self, key: bytes) -> bytes | None:
        """Returns the value of a key, or None."""
        self._check()
        return self._table.values.get(key)

    def scan(self, start: bytes, stop: bytes, limit: int = 0, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        """Returns pairs of key and value in a range of keys (`Engine.scan`)."""
        if self._gone:
            self._check()
        return self._table.scan(start, stop, limit, reverse)

    def keys(self, start: bytes, stop: bytes, limit: int = 0) -> list[bytes]:
        """Returns the keys in a range (`Engine.keys`)."""
        if self._gone:
            self._check()
        return self._table.keys(start, stop, limit)

    def write(self, batch: Batch, done: Done) -> None:
        """Begin a write. It ends after a random latency, or later while the disk is stalled."""
        self._check()
        assert self._writing is None, "a write is under way"
        self._writing = (batch, done)
        self._ends_at = self._now() + self._rng.uniform(*self.latency_s)
        self._arm()

    def close(self) -> None:
        """Close the engine as an orderly process does. An unfinished write is stored, without a call of its `done`."""
        if not self._gone:
            if self._writing is not None and not self.full:
                self._land(self._writing[0])
            self._end("closed")

    # Faults

    @property
    def stall_until(self) -> float:
        """The virtual time in seconds before which no write ends."""
        return self._stall_until

    @stall_until.setter
    def stall_until(self, time: float) -> None:
        self._stall_until = time
        if self._writing is not None:
            self._arm()

    def crash(self, power: bool) -> None:
        """Kill the process or, with `power`, cut the power of the machine. Afterwards only `reopen` and `content` may
        be called."""
        assert not self._gone, f"the disk is {self._gone}"
        if self._writing is not None and not self.full and self._rng.random() < 0.5:
            self._land(self._writing[0])
        if power:
            lost = self._rng.randint(0, len(self._unsynced))
            for undo in reversed(self._unsynced[len(self._unsynced) - lost :]):
                self._table.put_all(reversed(undo))
            self._unsynced.clear()  # everything that is left is durable
        self._end("crashed")

    def rot(self, key: bytes, value: bytes | None) -> None:
        """Change a row, or lose it (None), although nobody has written it. No read reports an error."""
        self._table.put(key, value)

    def sync(self) -> None:
        """A process that stops in order syncs everything."""
        self._unsynced.clear()

    def reopen(self) -> SimDisk:
        """Returns the disk for the next process, with the surviving data. After a kill, unsynced writes are still
        unsynced."""
        assert self._gone, "the disk is in use"
        after = SimDisk(self._rng, self._call_later, self._now, self.durability, self.latency_s)
        after.full = self.full
        after._stall_until = self._stall_until
        after._table = self._table
        after._unsynced = self._unsynced
        return after

    def content(self) -> dict[bytes, bytes]:
        """Returns a copy of everything on the disk, for checkers and backups."""
        return dict(self._table.values)

    # Inside

    def _check(self) -> None:
        if self._gone:
            raise StorageError(f"the simulated disk is {self._gone}")

    def _arm(self) -> None:
        self._attempt += 1
        attempt = self._attempt
        end = max(self._ends_at, self._stall_until)
        if end != float("inf"):
            self._call_later(max(0.0, end - self._now()), lambda: self._finish(attempt))

    def _finish(self, attempt: int) -> None:
        if attempt != self._attempt or self._writing is None:
            return
        (batch, done), self._writing = self._writing, None
        if self.full:
            done(DiskFull("the simulated disk is full"))
        elif self.failing:
            self.failing = False
            if self._rng.random() < 0.5:
                self._land(batch)
            done(StorageError("the simulated disk could not write"))
        else:
            self._land(batch)
            done(None)

    def _land(self, batch: Batch) -> None:
        undo = self._table.put_all(batch.items())
        if self.durability == "os":
            self._unsynced.append(undo)
            if len(self._unsynced) > UNSYNCED_MAX:
                del self._unsynced[: self._rng.randint(1, UNSYNCED_MAX)]

    def _end(self, how: str) -> None:
        self._gone = how
        self._writing = None


class ReplaceableDisk:
    """The engine of a machine over all its restarts. It stays the same object while the `SimDisk` behind it changes."""

    def __init__(self, disk: SimDisk) -> None:
        self.use(disk)

    def use(self, disk: SimDisk) -> None:
        """Read and write this disk from now on."""
        self.disk = disk
        self.durability = disk.durability
        self.get = disk.get
        self.scan = disk.scan
        self.keys = disk.keys

    def write(self, batch: Batch, done: Done) -> None:
        """Write a batch (`Engine.write`)."""
        self.disk.write(batch, done)

    def close(self) -> None:
        """Close the disk (`Engine.close`)."""
        self.disk.close()

    def crash(self, power: bool) -> None:
        """Kill the process or, with `power`, cut the power of the machine. An unfinished write may be on the disk."""
        self.disk.crash(power)
        self.reopen()

    def reopen(self) -> None:
        """Open the disk for the next process."""
        self.use(self.disk.reopen())

    def replace(self, disk: SimDisk) -> None:
        """Replace the disk by another one."""
        self.use(disk)
