"""The contract of every engine, as tests to inherit, and the loop that drives the storage tests."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from typing import Any

import pytest

from strogoff.sim.engine.disk import SimDisk
from strogoff.storage.engine import Batch, Durability, StorageError
from strogoff.storage.leveldb import LevelDBEngine, LevelDBOptions
from strogoff.storage.memory import VolatileMemoryEngine

END = b"\xff" * 8
"""Behind all keys of these tests."""

WAIT_S = 20.0
"""How long a real thread may take before a test gives up."""


class Loop:
    """A loop that runs only on request: calls in order, timers on virtual time, calls from threads through a queue."""

    def __init__(self) -> None:
        self.time = 0.0
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def now(self) -> float:
        return self.time

    def call_soon(self, function: Callable[[], None]) -> None:
        self._calls.put(function)

    call_threadsafe = call_soon

    def call_later(self, delay_s: float, function: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._timers, (self.time + delay_s, self._count, function))

    def step(self) -> bool:
        """Run one call that is ready, or else the next timer. False when there is neither."""
        try:
            function = self._calls.get_nowait()
        except Empty:
            if not self._timers:
                return False
            at, _, function = heapq.heappop(self._timers)
            self.time = max(self.time, at)
        function()
        return True

    def turn(self) -> None:
        """Run the calls that are ready now; calls that they schedule wait for the next turn. No timers run."""
        for _ in range(self._calls.qsize()):
            self._calls.get()()

    def advance(self, seconds: float) -> None:
        """Advance the virtual time."""
        until = self.time + seconds
        self.turn()
        while self._timers and self._timers[0][0] <= until:
            at, _, function = heapq.heappop(self._timers)
            self.time = at
            function()
            self.turn()
        self.time = until

    def run_until(self, reached: Callable[[], bool]) -> None:
        """Run calls and timers, and wait for other threads, until the condition is true."""
        while not reached():
            if not self.step():
                self._calls.get(timeout=WAIT_S)()


class Harness(ABC):
    """An engine of one kind, and the means to close and open it again with the same content."""

    volatile = False

    def __init__(self) -> None:
        self.loop = Loop()
        self.engine: Any = None

    @abstractmethod
    def open(self) -> None:
        """Open `engine` with the existing content."""

    def write(self, batch: Batch) -> Exception | None:
        """Write a batch and wait until it is done."""
        ends: list[Exception | None] = []
        self.engine.write(batch, ends.append)
        self.loop.run_until(lambda: bool(ends))
        return ends[0]

    def all(self) -> dict[bytes, bytes]:
        """Returns the whole content of the engine."""
        return dict(self.engine.scan(b"", END))


FENCES = (b"\x00\x01", b"\x01", b"a\x01", b"a\x01\x01", b"k055x", b"k1x", b"l")
"""Fences among the keys of the contract."""


class MemoryHarness(Harness):
    volatile = True

    def open(self) -> None:
        self.engine = VolatileMemoryEngine(self.loop.call_soon)


class LevelDBHarness(Harness):
    def __init__(self, path: Path, durability: Durability, fences: Sequence[bytes] = ()) -> None:
        super().__init__()
        self.fences = fences
        self.path = path
        self.durability: Durability = durability
        self.options = LevelDBOptions(write_buffer_size=1 << 20)

    def open(self) -> None:
        self.engine = LevelDBEngine(self.path, self.loop.call_threadsafe, self.durability, self.options, self.fences)


class SimHarness(Harness):
    def __init__(self, durability: Durability, seed: int = 1) -> None:
        super().__init__()
        self.rng = Random(seed)
        self.durability: Durability = durability

    def open(self) -> None:
        if self.engine is None:
            self.engine = SimDisk(self.rng, self.loop.call_later, self.loop.now, self.durability)
        else:
            self.engine = self.engine.reopen()


def make_harness(kind: str, path: Path, seed: int = 1) -> Harness:
    """Returns an opened harness by name: memory, leveldb-sync, leveldb-os, leveldb-fenced, sim-sync or sim-os."""
    name, _, durability = kind.partition("-")
    level: Durability = "os" if durability == "os" else "sync"
    harness: Harness
    if name == "memory":
        harness = MemoryHarness()
    elif name == "leveldb":
        harness = LevelDBHarness(path, level, FENCES if durability == "fenced" else ())
    else:
        harness = SimHarness(level, seed)
    harness.open()
    return harness


KINDS = ("memory", "leveldb-sync", "leveldb-os", "sim-sync", "sim-os")


class EngineContract:
    """Tests of one engine: inherit and parametrize `kind`."""

    @pytest.fixture
    def harness(self, kind: str, tmp_path: Path) -> Iterator[Harness]:
        harness = make_harness(kind, tmp_path / "db")
        yield harness
        harness.engine.close()

    def test_writes_can_be_read(self, harness: Harness) -> None:
        assert harness.write({b"a": b"1", b"b": b"", b"\x00": b"\x00" * 100, b"\xfe": b"x"}) is None
        assert harness.engine.get(b"a") == b"1"
        assert harness.engine.get(b"b") == b""
        assert harness.engine.get(b"\x00") == b"\x00" * 100
        assert harness.engine.get(b"none") is None
        assert harness.write({b"a": None, b"b": b"2", b"none": None}) is None
        assert harness.engine.get(b"a") is None
        assert harness.engine.get(b"b") == b"2"
        assert harness.engine.keys(b"", END) == [b"\x00", b"b", b"\xfe"]

    def test_ranges_end_before_stop_and_honour_limit_and_direction(self, harness: Harness) -> None:
        rows = [(b"k%02d" % n, b"v%d" % n) for n in range(20)]
        assert harness.write(dict(rows)) is None
        engine = harness.engine
        assert engine.scan(b"k05", b"k10") == rows[5:10]
        assert engine.scan(b"k05", b"k10", limit=2) == rows[5:7]
        assert engine.scan(b"k05", b"k10", reverse=True) == rows[5:10][::-1]
        assert engine.scan(b"k05", b"k10", limit=2, reverse=True) == [rows[9], rows[8]]
        assert engine.scan(b"k10", b"k05") == engine.scan(b"k05", b"k05") == []
        assert engine.scan(b"", b"k00") == engine.scan(b"l", END) == []
        assert engine.keys(b"k05x", b"k10x", limit=3) == [b"k06", b"k07", b"k08"]
        assert engine.keys(b"", END) == [key for key, _ in rows]

    def test_ranges_of_one_key(self, harness: Harness) -> None:
        """Ranges that begin, end or have the key inside, in both directions (plyvel gets one of them wrong)."""
        for key in (b"", b"\x00", b"a", b"a\xff"):
            assert harness.write({key: b"1", b"\xff\xff\xff": b"2"}) is None
            for start in (b"", key):
                for stop in (key + b"\x00", key + b"\xff", b"z"):
                    for reverse in (False, True):
                        for limit in (0, 1, 2):
                            found = harness.engine.scan(start, stop, limit, reverse)
                            assert found == [(key, b"1")], (start, stop, reverse, limit)
            assert harness.engine.scan(key, key, reverse=True) == []
            assert harness.write({key: None}) is None
            assert harness.engine.scan(b"", b"z", reverse=True) == []

    def test_done_comes_later_once_and_on_the_loop(self, harness: Harness) -> None:
        ends: list[Exception | None] = []
        harness.engine.write({b"a": b"1"}, ends.append)
        assert ends == []
        harness.loop.run_until(lambda: bool(ends))
        harness.engine.write({b"b": b"2"}, ends.append)
        harness.loop.run_until(lambda: len(ends) > 1)
        assert ends == [None, None]

    def test_one_write_at_a_time(self, harness: Harness) -> None:
        ends: list[Exception | None] = []
        harness.engine.write({b"a": b"1"}, ends.append)
        with pytest.raises(AssertionError):
            harness.engine.write({b"a": b"2"}, ends.append)
        harness.loop.run_until(lambda: bool(ends))
        assert harness.engine.get(b"a") == b"1"

    def test_no_callback_after_close(self, harness: Harness) -> None:
        ends: list[Exception | None] = []
        harness.engine.write({b"a": b"1"}, ends.append)
        harness.engine.close()
        harness.engine.close()
        while harness.loop.step():
            pass
        assert ends == []
        if not harness.volatile:
            with pytest.raises(StorageError):
                harness.engine.get(b"a")
            harness.open()
            assert harness.all() in ({}, {b"a": b"1"})

    def test_content_outlives_a_close_but_for_a_volatile_engine(self, harness: Harness) -> None:
        assert harness.write({b"k%03d" % n: b"%d" % n for n in range(300)}) is None
        assert harness.write({b"k%03d" % n: None for n in range(0, 300, 2)}) is None
        harness.engine.close()
        harness.open()
        kept = {b"k%03d" % n: b"%d" % n for n in range(1, 300, 2)}
        assert harness.all() == ({} if harness.volatile else kept)

    def test_the_content_equals_a_dict(self, harness: Harness) -> None:
        rng = Random(7)
        model: dict[bytes, bytes] = {}
        for _ in range(60):
            batch: Batch = {}
            for _ in range(rng.randint(1, 80)):
                key = bytes(rng.choices(b"\x00ab\xff", k=rng.randint(1, 5)))
                batch[key] = rng.randbytes(rng.randint(0, 20)) if rng.random() < 0.7 else None
            assert harness.write(batch) is None
            for key, value in batch.items():
                if value is None:
                    model.pop(key, None)
                else:
                    model[key] = value
            start, stop = (bytes(rng.choices(b"\x00ab\xff", k=rng.randint(0, 3))) for _ in range(2))
            limit, reverse = rng.choice((0, 1, 3, 50)), rng.random() < 0.5
            want = sorted(((k, v) for k, v in model.items() if start <= k < stop), reverse=reverse)
            assert harness.engine.scan(start, stop, limit, reverse) == (want[:limit] if limit else want)
            ascending = sorted(key for key, _ in want)
            assert harness.engine.keys(start, stop, limit) == (ascending[:limit] if limit else ascending)
        if not harness.volatile:
            harness.engine.close()
            harness.open()
        assert harness.all() == model
