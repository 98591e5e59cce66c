"""The simulated disk keeps the engine's contract, and loses at a crash only what a real disk may lose."""

from __future__ import annotations

import math
from functools import partial
from random import Random

import pytest

from strogoff.sim.engine.disk import UNSYNCED_MAX, SimDisk
from strogoff.storage.engine import Batch, DiskFull, Durability, StorageError
from strogoff.storage.store import Store

from ...storage.contract import EngineContract, Harness, Loop, SimHarness


@pytest.mark.parametrize("kind", ["sim-sync", "sim-os"])
class TestSimDisk(EngineContract):
    pass


def history(harness: Harness, seed: int) -> tuple[list[dict[bytes, bytes]], int]:
    """Write a random number of batches; return the state after each, and how many are finished."""
    rng = Random(seed)
    states: list[dict[bytes, bytes]] = [{}]
    done = 0
    count = rng.randint(0, 12)
    for number in range(count):
        batch: Batch = {b"batch": b"%d" % number}
        for _ in range(rng.randint(0, 6)):
            batch[b"k%d" % rng.randint(0, 9)] = rng.randbytes(3) if rng.random() < 0.7 else None
        state = {**states[-1]}
        for key, value in batch.items():
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
        states.append(state)
        if number == count - 1 and rng.random() < 0.5:
            harness.engine.write(batch, lambda error: None)
        else:
            assert harness.write(batch) is None
            done += 1
    return states, done


@pytest.mark.parametrize("durability", ["sync", "os"])
@pytest.mark.parametrize("power", [False, True])
def test_after_a_crash_there_is_a_prefix_of_whole_batches(durability: Durability, power: bool) -> None:
    """Finished batches are there, except after power loss with `os`; the one under way is there whole or not at all."""
    outcomes = set()
    for seed in range(300):
        harness = SimHarness(durability, seed)
        harness.open()
        states, done = history(harness, seed)
        harness.engine.crash(power)
        with pytest.raises(StorageError):
            harness.engine.get(b"batch")
        harness.open()
        left = harness.all()
        assert left in states
        survived = next(n for n in range(len(states) - 1, -1, -1) if states[n] == left)
        outcomes.add(survived - done)
        if durability == "sync" or not power:
            assert survived >= done
    assert {0, 1} <= outcomes
    assert (min(outcomes) < 0) == (durability == "os" and power)


def test_writes_kept_by_a_kill_may_be_lost_with_the_power() -> None:
    """With `os` the restarted process finds the write in the system's cache only."""
    lost = 0
    for seed in range(50):
        harness = SimHarness("os", seed)
        harness.open()
        assert harness.write({b"a": b"1"}) is None
        harness.engine.crash(power=False)
        harness.open()
        assert harness.all() == {b"a": b"1"}
        harness.engine.crash(power=True)
        harness.open()
        lost += harness.all() == {}
        harness.engine.crash(power=True)
        harness.open()
        assert harness.all() in ({}, {b"a": b"1"})
    assert 0 < lost < 50


def test_writes_that_survived_a_power_loss_survive_the_next() -> None:
    for seed in range(30):
        harness = SimHarness("os", seed)
        harness.open()
        for number in range(10):
            assert harness.write({b"k%d" % number: b""}) is None
        harness.engine.crash(power=True)
        harness.open()
        left = harness.all()
        harness.engine.crash(power=True)
        harness.open()
        assert harness.all() == left


def test_old_unsynced_writes_get_flushed_by_the_system() -> None:
    for seed in range(5):
        harness = SimHarness("os", seed)
        harness.open()
        total = UNSYNCED_MAX * 2
        for number in range(total):
            assert harness.write({b"%05d" % number: b""}) is None
        harness.engine.crash(power=True)
        harness.open()
        assert len(harness.all()) >= total - UNSYNCED_MAX


def test_a_full_disk_fails_writes_and_serves_reads() -> None:
    harness = SimHarness("sync")
    harness.open()
    assert harness.write({b"a": b"1"}) is None
    harness.engine.full = True
    assert isinstance(harness.write({b"a": b"2", b"b": b"2"}), DiskFull)
    assert harness.all() == {b"a": b"1"}
    harness.engine.crash(power=False)
    harness.open()
    assert harness.engine.full, "a restart frees no space"
    harness.engine.full = False
    assert harness.write({b"a": b"2"}) is None


def test_a_failed_write_is_stored_or_not() -> None:
    there = set()
    for seed in range(20):
        harness = SimHarness("sync", seed)
        harness.open()
        harness.engine.failing = True
        error = harness.write({b"a": b"1", b"b": b"1"})
        assert isinstance(error, StorageError) and not isinstance(error, DiskFull)
        there.add(tuple(harness.all()))
        assert harness.write({b"c": b"1"}) is None
    assert there == {(), (b"a", b"b")}


def test_a_stalled_disk_ends_nothing_before_its_time() -> None:
    harness = SimHarness("sync")
    harness.open()
    ends: list[float] = []
    harness.engine.stall_until = 5.0
    harness.engine.write({b"a": b"1"}, lambda error: ends.append(harness.loop.time))
    harness.loop.advance(4.9)
    assert ends == []
    assert harness.engine.get(b"a") is None
    harness.engine.stall_until = math.inf
    harness.loop.advance(100.0)
    assert ends == []
    harness.engine.stall_until = 0.0
    harness.loop.advance(0.1)
    assert len(ends) == 1
    harness.loop.advance(10.0)
    assert len(ends) == 1


def test_a_stall_survives_the_restart_of_the_process() -> None:
    harness = SimHarness("sync")
    harness.open()
    harness.engine.stall_until = 7.0
    harness.engine.crash(power=False)
    harness.open()
    assert harness.write({b"a": b"1"}) is None
    assert harness.loop.time >= 7.0


def test_a_row_that_rots_reads_as_if_it_had_been_written() -> None:
    harness = SimHarness("sync")
    harness.open()
    assert harness.write({b"a": b"1", b"b": b"2"}) is None
    harness.engine.rot(b"a", None)
    harness.engine.rot(b"b", b"3")
    assert harness.engine.scan(b"", b"z") == [(b"b", b"3")]


def test_the_same_seed_is_the_same_disk() -> None:
    def run(seed: int) -> tuple[float, dict[bytes, bytes]]:
        harness = SimHarness("os", seed)
        harness.open()
        history(harness, 4)
        harness.engine.crash(power=True)
        harness.open()
        return harness.loop.time, harness.all()

    assert run(11) == run(11)
    assert len({repr(run(seed)) for seed in range(20)}) > 1


def test_a_disk_made_from_an_old_backup() -> None:
    harness = SimHarness("sync")
    harness.open()
    assert harness.write({b"a": b"1"}) is None
    backup = harness.engine.content()
    assert harness.write({b"a": b"2"}) is None
    loop = Loop()
    restored = SimDisk(Random(1), loop.call_later, loop.now, content=backup)
    assert restored.get(b"a") == b"1"
    assert harness.engine.get(b"a") == b"2"


@pytest.mark.parametrize("durability", ["sync", "os"])
@pytest.mark.parametrize("power", [False, True])
def test_a_store_never_acknowledges_what_a_crash_can_take(durability: Durability, power: bool) -> None:
    """Crash at a random instant of a running store: the disk holds the writes of batches 1..n for one n, and each
    acknowledged one is among them (but for power loss in `os`)."""
    for seed in range(150):
        rng = Random(seed)
        harness = SimHarness(durability, seed)
        harness.open()
        loop = harness.loop
        store = Store(harness.engine, loop.call_soon, loop.call_later)
        acked: list[int] = []
        numbers: dict[int, list[int]] = {}
        for number in range(rng.randint(1, 60)):
            store.put(b"%05d" % number, b"x")
            numbers.setdefault(store.open_commit, []).append(number)
            store.when_committed(store.open_commit, partial(acked.append, number))
            while rng.random() < 0.6 and loop.step():
                pass
        harness.engine.crash(power)
        harness.open()
        left = [int(key) for key in harness.engine.keys(b"", b"\xff")]
        whole = [[n for commit in range(1, last + 1) for n in numbers[commit]] for last in range(len(numbers) + 1)]
        assert left in whole, "the disk must hold a prefix of whole batches"
        assert acked == sorted(acked)
        if durability == "sync" or not power:
            assert set(acked) <= set(left)


def test_a_synced_disk_loses_nothing_with_the_power() -> None:
    for seed in range(20):
        disk = SimDisk(Random(seed), lambda _, function: function(), lambda: 0.0, "os", (0.0, 0.0))
        for number in range(10):
            disk.write({b"%d" % number: b""}, lambda error: None)
        disk.sync()
        disk.crash(True)
        assert len(disk.content()) == 10
