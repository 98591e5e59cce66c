"""Group commit: which writes form a batch, when they are acknowledged, what reads return meanwhile, and a full disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from strogoff.storage.engine import Batch, Corrupted, DiskFull, Done, Durability
from strogoff.storage.memory import Table
from strogoff.storage.store import Store

from .contract import END, Loop


class Disk(Table):
    """An engine whose writes end when and how the test decides."""

    durability: Durability = "sync"

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Batch] = []
        self.under_way: tuple[Batch, Done] | None = None
        self.closed = False

    def get(self, key: bytes) -> bytes | None:
        return self.values.get(key)

    def write(self, batch: Batch, done: Done) -> None:
        assert self.under_way is None
        assert batch
        self.batches.append(dict(batch))
        self.under_way = batch, done

    def end(self, error: Exception | None = None) -> None:
        assert self.under_way is not None
        (batch, done), self.under_way = self.under_way, None
        if error is None:
            self.put_all(batch.items())
        done(error)

    def close(self) -> None:
        self.closed = True


class Rig:
    def __init__(self) -> None:
        self.loop = Loop()
        self.disk = Disk()
        self.store = Store(self.disk, self.loop.call_soon, self.loop.call_later)
        self.seen: list[str] = []
        self.store.on_state = lambda state, detail: self.seen.append(f"{state} {detail}".strip())

    def note(self, text: str) -> Callable[[], None]:
        return partial(self.seen.append, text)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_turn_is_one_batch_and_later_writes_are_the_next(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    store.put(b"a", b"1")
    store.put(b"b", b"1")
    store.delete(b"b")
    assert (store.open_commit, store.committed, disk.batches) == (1, 0, [])
    rig.loop.turn()
    assert disk.batches == [{b"a": b"1", b"b": None}]
    assert (store.open_commit, store.committed) == (2, 0)
    store.put(b"c", b"1")
    rig.loop.turn()
    store.put(b"d", b"1")
    rig.loop.turn()
    assert len(disk.batches) == 1, "one at a time"
    disk.end()
    assert disk.batches[1:] == [{b"c": b"1", b"d": b"1"}], "no turn is wasted"
    assert (store.open_commit, store.committed) == (3, 1)
    disk.end()
    assert (store.open_commit, store.committed, disk.under_way) == (3, 2, None)
    store.put(b"e", b"1")
    rig.loop.turn()
    assert disk.batches[2:] == [{b"e": b"1"}]


def test_callbacks_come_in_order_of_registration_and_never_early(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    store.put(b"a", b"1")
    store.when_committed(1, rig.note("1a"))
    store.when_committed(1, rig.note("1b"))
    rig.loop.turn()
    store.put(b"b", b"1")
    store.when_committed(2, rig.note("2a"))
    store.when_committed(1, rig.note("1c"))
    store.when_committed(0, rig.note("at once"))
    assert rig.seen == ["at once"]
    disk.end()
    assert rig.seen == ["at once", "1a", "1b", "1c"]
    store.when_committed(1, rig.note("at once"))
    disk.end()
    assert rig.seen[4:] == ["at once", "2a"]


def test_the_disk_is_busy_while_callbacks_run(rig: Rig) -> None:
    """[performance.md 5] The next batch starts first; writes of callbacks are in the one after."""
    store, disk = rig.store, rig.disk
    store.put(b"a", b"1")
    store.when_committed(1, lambda: store.put(b"late", b"1"))
    rig.loop.turn()
    store.put(b"b", b"1")
    disk.end()
    assert disk.batches[1:] == [{b"b": b"1"}]
    disk.end()
    assert disk.batches[2:] == [{b"late": b"1"}]


def test_a_callback_registered_by_a_callback_waits_for_those_before_it(rig: Rig) -> None:
    store = rig.store

    def first() -> None:
        rig.seen.append("first")
        store.when_committed(1, rig.note("third"))

    store.put(b"a", b"1")
    store.when_committed(1, first)
    store.when_committed(1, rig.note("second"))
    rig.loop.turn()
    rig.disk.end()
    assert rig.seen == ["first", "second", "third"]


def test_a_callback_that_raises_does_not_stop_the_others(rig: Rig) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    store = rig.store
    store.put(b"a", b"1")
    store.when_committed(1, rig.note("before"))
    store.when_committed(1, broken)
    store.when_committed(1, rig.note("after"))
    rig.loop.turn()
    with pytest.raises(ZeroDivisionError):
        rig.disk.end()
    assert rig.seen == ["before"]
    store.when_committed(1, rig.note("later"))
    rig.loop.turn()
    assert rig.seen == ["before", "after", "later"]
    store.put(b"b", b"1")
    rig.loop.turn()
    rig.disk.end()
    assert store.committed == 2


def test_waiting_for_a_commit_without_writes_ends(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    store.when_committed(1, rig.note("nothing"))
    rig.loop.turn()
    assert rig.seen == ["nothing"]
    assert disk.batches == []
    assert (store.open_commit, store.committed) == (2, 1)
    store.put(b"a", b"1")
    store.when_committed(2, rig.note("a"))
    rig.loop.turn()
    store.when_committed(3, rig.note("behind a"))
    assert rig.seen == ["nothing"]
    disk.end()
    assert rig.seen == ["nothing", "a", "behind a"]


def test_flush_waits_for_all_that_was_written(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    store.flush(rig.note("empty"))
    assert rig.seen == ["empty"]
    store.put(b"a", b"1")
    store.flush(rig.note("a"))
    rig.loop.turn()
    store.flush(rig.note("still a"))
    store.put(b"b", b"1")
    store.flush(rig.note("b"))
    disk.end()
    assert rig.seen == ["empty", "a", "still a"]
    disk.end()
    assert rig.seen[3:] == ["b"]


def test_reads_see_own_writes_in_every_stage(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    disk.put_all((b"k%d" % n, b"disk") for n in range(6))
    store.put(b"k1", b"committing")
    store.delete(b"k2")
    store.put(b"k3", b"committing")
    rig.loop.turn()
    store.put(b"k3", b"open")
    store.put(b"k2", b"open")
    store.delete(b"k4")
    store.put(b"k9", b"open")
    want = {b"k0": b"disk", b"k1": b"committing", b"k2": b"open", b"k3": b"open", b"k5": b"disk", b"k9": b"open"}
    for _ in range(3):
        assert dict(store.scan(b"", END)) == want
        assert store.keys(b"", END) == sorted(want)
        assert store.scan(b"k1", b"k9", limit=2) == [(b"k1", want[b"k1"]), (b"k2", want[b"k2"])]
        assert store.scan(b"", END, limit=2, reverse=True) == [(b"k9", want[b"k9"]), (b"k5", want[b"k5"])]
        assert [store.get(b"k%d" % n) for n in range(10)] == [want.get(b"k%d" % n) for n in range(10)]
        if disk.under_way:
            disk.end()


def test_a_scan_of_closed_batches_has_nothing_of_the_open_one(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    disk.put_all((b"k%d" % n, b"disk") for n in range(4))
    store.put(b"k1", b"committing")
    store.delete(b"k2")
    rig.loop.turn()
    store.put(b"k1", b"open")
    store.put(b"k2", b"open")
    store.delete(b"k3")
    want = [(b"k0", b"disk"), (b"k1", b"committing"), (b"k3", b"disk")]
    after = [(b"k0", b"disk"), (b"k1", b"open"), (b"k2", b"open")]
    assert store.scan(b"", END, closed=True) == want
    assert store.scan(b"", END, 2, closed=True) == want[:2]
    assert store.scan(b"", END) == after
    disk.end()  # the second batch closes
    assert store.scan(b"", END, closed=True) == after


def test_a_limited_scan_skips_deleted_keys(rig: Rig) -> None:
    rig.disk.put_all((b"%04d" % n, b"x") for n in range(100))
    for number in range(50):
        rig.store.delete(b"%04d" % number)
    assert rig.store.keys(b"", END, limit=3) == [b"0050", b"0051", b"0052"]
    assert [key for key, _ in rig.store.scan(b"", END, limit=1)] == [b"0050"]


def test_bytes_waiting_count_both_batches(rig: Rig) -> None:
    store = rig.store
    store.put(b"ab", b"cde")
    assert store.bytes_waiting == 5
    rig.loop.turn()
    store.delete(b"xyz")
    assert store.bytes_waiting == 8
    rig.disk.end()
    assert store.bytes_waiting == 3
    rig.disk.end()
    assert store.bytes_waiting == 0


def test_a_full_disk_keeps_everything_and_acknowledges_nothing(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    store.put(b"a", b"1")
    store.when_committed(1, rig.note("a"))
    rig.loop.turn()
    disk.end(DiskFull("/data: no space"))
    assert (store.state, store.accepting, rig.seen) == ("full", False, ["full /data: no space"])
    store.put(b"b", b"1")
    assert (store.get(b"a"), store.get(b"b")) == (b"1", b"1")
    times = []
    for _ in range(6):
        rig.loop.run_until(lambda: disk.under_way is not None)
        times.append(rig.loop.time)
        disk.end(DiskFull("/data: no space"))
    assert times == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5], "back-off 0.5, then 1 s"
    assert rig.seen == ["full /data: no space"]
    rig.loop.run_until(lambda: disk.under_way is not None)
    assert all(batch == {b"a": b"1"} for batch in disk.batches), "the same batch again"
    disk.end()
    assert (store.state, store.detail, rig.seen[1:]) == ("serving", "", ["serving", "a"])
    assert disk.batches[-1] == {b"b": b"1"}
    disk.end(DiskFull("again"))
    at = rig.loop.time
    rig.loop.run_until(lambda: disk.under_way is not None)
    assert rig.loop.time == at + 0.5, "the back-off starts again"


@pytest.mark.parametrize("full_before", [False, True])
def test_after_any_other_error_nothing_is_acknowledged(rig: Rig, full_before: bool) -> None:
    store, disk = rig.store, rig.disk
    store.put(b"a", b"1")
    store.when_committed(1, rig.note("a"))
    rig.loop.turn()
    if full_before:
        disk.end(DiskFull("full"))
        rig.loop.run_until(lambda: disk.under_way is not None)
    disk.end(Corrupted("/data/000007.ldb", "a block is damaged", "Restore it"))
    assert (store.state, store.accepting) == ("failed", False)
    assert store.detail == "Corrupted: /data/000007.ldb: a block is damaged. Restore it"
    assert rig.seen[-1] == f"failed {store.detail}"
    store.put(b"b", b"1")
    store.flush(rig.note("b"))
    while rig.loop.step():
        pass
    assert (disk.under_way, store.committed) == (None, 0)
    assert not {"a", "b"} & set(rig.seen)
    assert store.get(b"a") == b"1", "reads go on"


def test_close_runs_no_callbacks(rig: Rig) -> None:
    store, disk = rig.store, rig.disk
    store.put(b"a", b"1")
    store.when_committed(1, rig.note("a"))
    rig.loop.turn()
    store.put(b"b", b"1")
    store.close()
    store.close()
    assert disk.closed
    assert (store.state, store.accepting) == ("closed", False)
    disk.end()
    while rig.loop.step():
        pass
    assert (rig.seen, len(disk.batches)) == ([], 1)


def test_close_before_the_first_commit_or_during_a_retry_writes_nothing(rig: Rig) -> None:
    rig.store.put(b"a", b"1")
    rig.store.close()
    other = Rig()
    other.store.put(b"a", b"1")
    other.loop.turn()
    other.disk.end(DiskFull("full"))
    other.store.close()
    for each in (rig, other):
        while each.loop.step():
            pass
        assert each.disk.under_way is None


def test_a_key_is_waiting_until_its_batch_is_durable(rig: Rig) -> None:
    """It may be in the open batch or in the pending one; a deletion counts like a value."""
    rig.store.put(b"a", b"1")
    rig.store.delete(b"b")
    waiting = [rig.store.is_waiting(key) for key in (b"a", b"b", b"c")]
    rig.loop.turn()
    assert waiting == [rig.store.is_waiting(key) for key in (b"a", b"b", b"c")] == [True, True, False]
    rig.disk.end()
    assert not any(rig.store.is_waiting(key) for key in (b"a", b"b", b"c"))
