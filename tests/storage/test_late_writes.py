"""Writes of `Store.write_later`: they join the next batch, and start one of their own after `LATEST_S`."""

from __future__ import annotations

import pytest

from strogoff.storage.store import LATEST_S, Store

from .test_store import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_late_write_joins_the_batch_of_the_next_urgent_write(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    store.write_later(b"old", None)
    rig.loop.turn()
    assert disk.batches == [] and store.is_waiting(b"old") and store.bytes_waiting == 3
    store.put(b"new", b"1")
    rig.loop.turn()
    assert disk.batches == [{b"old": None, b"new": b"1"}]
    disk.end()
    rig.loop.advance(2 * LATEST_S)
    assert len(disk.batches) == 1 and store.open_commit == 2, "the timer finds nothing to commit"


def test_a_late_write_alone_is_committed_in_time(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    store.write_later(b"a", b"1")
    rig.loop.advance(LATEST_S / 2)
    store.write_later(b"b", None)
    assert disk.batches == []
    rig.loop.advance(LATEST_S / 2)
    assert disk.batches == [{b"a": b"1", b"b": None}]
    disk.end()
    assert store.bytes_waiting == 0


def test_a_late_write_during_a_commit_is_committed_in_time(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    store.put(b"a", b"1")
    rig.loop.turn()
    store.write_later(b"b", None)
    disk.end()
    assert disk.under_way is None, "it starts no batch"
    rig.loop.advance(LATEST_S)
    assert disk.batches[1:] == [{b"b": None}]


def test_a_callback_that_waits_for_a_late_write_starts_its_commit(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    store.write_later(b"a", None)
    store.flush(rig.note("safe"))
    rig.loop.turn()
    disk.end()
    assert rig.seen == ["safe"]


def test_a_callback_during_a_commit_starts_the_commit_of_late_writes(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    store.put(b"a", b"1")
    rig.loop.turn()
    store.write_later(b"b", None)
    store.when_committed(store.open_commit, rig.note("safe"))
    disk.end()
    disk.end()
    assert rig.seen == ["safe"]


def test_late_writes_after_a_commit_of_their_timer_get_another_timer(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    for number in range(3):
        store.write_later(b"%d" % number, None)
        rig.loop.advance(LATEST_S)
        disk.end()
    assert disk.batches == [{b"0": None}, {b"1": None}, {b"2": None}]


def test_a_closed_store_commits_no_late_write(rig: Rig) -> None:
    rig.store.write_later(b"a", None)
    rig.store.close()
    rig.loop.advance(LATEST_S)
    assert rig.disk.batches == []


def test_many_late_writes_have_one_timer(rig: Rig) -> None:
    timers: list[float] = []
    store = Store(rig.disk, rig.loop.call_soon, lambda delay_s, function: timers.append(delay_s))
    for number in range(100):
        store.write_later(b"%d" % number, None)
    assert timers == [LATEST_S]
