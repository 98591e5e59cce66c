"""Positions, checks and touched keys of slots: after kills and damage, and when old rows are deleted."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import google_crc32c
import msgspec
import pytest

from strogoff.storage import keys, slot_log
from strogoff.storage.engine import Batch, Corrupted, DiskFull
from strogoff.storage.slot_log import SlotLog
from strogoff.storage.store import Store

from .contract import END, KINDS, Harness, LevelDBHarness, Loop, SimHarness, make_harness
from .test_store import Disk

encode = msgspec.msgpack.encode


@dataclass
class PlainHolders:
    """Answers that a test sets. `listed` are the slots with several holders."""

    listed: set[int] = field(default_factory=lambda: set(range(256)))
    epochs: dict[int, int] = field(default_factory=dict)
    oldest: int | None = 1

    def epoch_of(self, slot: int) -> int:
        return self.epochs.get(slot, 1)

    def noted(self, slot: int) -> bool:
        return slot in self.listed

    def needed(self) -> int | None:
        return self.oldest


class Model:
    """What the log should know, from all changes that it was given."""

    def __init__(self, holders: PlainHolders) -> None:
        self.holders = holders
        self.changes: dict[int, list[set[bytes] | None]] = {}  # slot -> keys of each change, None if not listed
        self.encoded: dict[int, bytes] = {}
        self.epochs: dict[int, int] = {}

    def record(self, batch: Batch) -> None:
        for slot in {key[1] for key in batch if key[:1] in (b"s", b"b", b"q", b"i")}:
            changes = {
                key: value for key, value in batch.items() if key[1] == slot and key[:1] in (b"s", b"b", b"q", b"i")
            }
            noted = self.holders.noted(slot)
            self.epochs[slot] = self.holders.epoch_of(slot)
            self.changes.setdefault(slot, []).append(set(changes) if noted else None)
            if noted:
                flat = [part for change in changes.items() for part in change]
                self.encoded[slot] = self.encoded.get(slot, b"") + encode(flat)

    def position(self, slot: int) -> tuple[int, int, int]:
        check = google_crc32c.value(self.encoded.get(slot, b""))
        return self.epochs.get(slot, 0), len(self.changes.get(slot, ())), check

    def touched_since(self, slot: int, n: int) -> set[bytes] | None:
        later = self.changes.get(slot, [])[n:]
        return None if None in later else set().union(*(each for each in later if each))

    def compare(self, log: SlotLog) -> None:
        for slot in range(256):
            assert log.position(slot) == self.position(slot), slot
            for n in range(self.position(slot)[1] + 1):
                assert log.touched_since(slot, n) == self.touched_since(slot, n), (slot, n)


class Rig:
    """A store with its log on a disk whose writes end when the test says so."""

    def __init__(self, disk: Disk | None = None, holders: PlainHolders | None = None) -> None:
        self.loop = Loop()
        self.disk = disk or Disk()
        self.holders = holders or PlainHolders()
        self.store = Store(self.disk, self.loop.call_soon, self.loop.call_later)
        self.log = SlotLog(self.store, self.holders)
        self.store.on_batch = self.log.record

    def commit(self, *slots: int, key: bytes = b"k", value: bytes | None = b"v") -> Batch:
        """Change a key in each of these slots, and return the batch that the disk got."""
        for slot in slots:
            if value is None:
                self.store.delete(b"q%c" % slot + key)
            else:
                self.store.put(b"q%c" % slot + key, value)
        self.loop.turn()
        self.disk.end()
        return self.disk.batches[-1]

    def restart(self) -> Rig:
        self.disk.under_way = None
        return Rig(self.disk, self.holders)

    def rows(self) -> list[int]:
        return [int.from_bytes(key[1:], "big") for key in self.disk.keys(keys.positions_key(0), b"u")]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints after few rows, and reads of few rows."""
    monkeypatch.setattr(slot_log, "CHECKPOINT_ROWS", 5)
    monkeypatch.setattr(slot_log, "READ_ROWS", 3)


def random_batch(rng: Random) -> Batch:
    """Changes of a few slots, and keys that belong to no slot."""
    batch: Batch = {}
    for _ in range(rng.randint(1, 12)):
        key = bytes((rng.choice(b"sbqirxm"), rng.choice((0, 1, 7, 255)))) + b"%d" % rng.randrange(6)
        batch[key] = None if rng.random() < 0.3 else rng.randbytes(rng.randint(0, 40))
    return batch


def _copy(source: str, to: str) -> None:
    with suppress(FileNotFoundError):
        shutil.copy2(source, to)


def killed(harness: Harness, to: Path) -> Harness:
    """Returns the engine as it is after a kill at this moment."""
    if isinstance(harness, LevelDBHarness):
        while True:  # LevelDB may delete files during the copy, in its own thread
            files = sorted(path.name for path in harness.path.iterdir())
            shutil.copytree(harness.path, to, dirs_exist_ok=True, copy_function=_copy)
            if (
                files
                == sorted(path.name for path in harness.path.iterdir())
                == sorted(path.name for path in to.iterdir())
            ):
                break
            shutil.rmtree(to)
        copy = LevelDBHarness(to, harness.durability)
        copy.open()
        return copy
    if isinstance(harness, SimHarness):
        harness.engine.crash(power=harness.durability == "sync")
        harness.open()
    return harness


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_after_a_kill_at_each_commit_the_log_equals_the_model(kind: str, seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    harness = make_harness(kind, tmp_path / "db", seed)
    holders = PlainHolders()
    model = Model(holders)
    for commit in range(24):
        store = Store(harness.engine, harness.loop.call_soon, harness.loop.call_later)
        log = SlotLog(store, holders)
        store.on_batch = log.record
        model.compare(log)
        for _ in range(rng.randint(1, 2)):
            holders.listed = {slot for slot in (0, 1, 7, 255) if rng.random() < 0.9}
            holders.epochs[rng.choice((0, 7))] = commit + 1
            batch = random_batch(rng)
            for key, value in batch.items():
                if value is None:
                    store.delete(key)
                else:
                    store.put(key, value)
            model.record(batch)
            ended: list[bool] = []
            store.flush(lambda ended=ended: ended.append(True))  # type: ignore[misc]
            harness.loop.run_until(lambda ended=ended: bool(ended))  # type: ignore[misc]
            model.compare(log)
        assert log.problems == []
        before, harness = harness, killed(harness, tmp_path / f"db{commit}")
        if before is not harness:
            before.engine.close()
    harness.engine.close()


def test_a_kill_before_the_commit_leaves_the_positions_before_it() -> None:
    rig = Rig()
    rig.commit(1)
    rig.store.put(b"q\x01x", b"1")
    rig.loop.turn()
    assert rig.log.position(1)[1] == 2
    assert rig.restart().log.position(1)[1] == 1


def test_a_batch_that_is_written_again_has_one_position() -> None:
    rig = Rig()
    rig.store.put(b"q\x01x", b"1")
    rig.loop.turn()
    for _ in range(3):
        rig.disk.end(DiskFull("full"))
        rig.loop.advance(1)
    rig.disk.end()
    assert rig.disk.batches[0] == rig.disk.batches[3]
    assert (rig.log.position(1)[1], rig.rows()) == (1, [1])
    assert rig.commit(1)[keys.positions_key(2)]
    assert rig.log.position(1)[1] == 2


def test_keys_without_a_slot_have_no_row() -> None:
    rig = Rig()
    for key in (b"r\x01x", b"m\x01", b"nq", b"t"):
        rig.store.put(key, b"1")
    rig.loop.turn()
    assert rig.disk.batches == [{b"r\x01x": b"1", b"m\x01": b"1", b"nq": b"1", b"t": b"1"}]
    assert rig.log.number == 0


def test_the_number_of_changes_goes_on_in_a_new_epoch() -> None:
    rig = Rig()
    rig.commit(1, 2)
    rig.holders.epochs[1] = 50
    rig.commit(1, 2)
    assert (rig.log.position(1)[:2], rig.log.position(2)[:2]) == ((50, 2), (1, 2))
    assert rig.restart().log.position(1) == rig.log.position(1)


def test_the_same_changes_give_the_same_checks_and_rows() -> None:
    one, two = Rig(), Rig()
    rng = Random(3)
    for _ in range(30):
        batch = random_batch(rng)
        for rig in (one, two):
            for key, value in batch.items():
                rig.store.write_later(key, value)
            rig.store.flush(lambda: None)
            rig.loop.turn()
            rig.disk.end()
    assert one.disk.values == two.disk.values
    assert one.log.position(7)[2] != 0


@pytest.mark.parametrize(
    "changes",
    [
        [(b"q\x01a", b"2"), (b"q\x01b", b"2")],
        [(b"q\x01b", b"1"), (b"q\x01b2", b"2")],
        [(b"s\x01a", b"1"), (b"q\x01b", b"2")],
        [(b"q\x01a", None), (b"q\x01b", b"2")],
        [(b"q\x01a", b""), (b"q\x01b", b"2")],
        [(b"q\x01a1", b""), (b"q\x01b", b"2")],
        [(b"q\x01a", b"1")],
        [(b"q\x01b", b"2"), (b"q\x01a", b"1")],
    ],
)
def test_another_change_gives_another_check_from_then_on(changes: list[tuple[bytes, bytes | None]]) -> None:
    """Another value, key, kind, a deletion, an empty value, another length, fewer changes, another order."""
    one, two = Rig(), Rig()
    for rig, written in ((one, [(b"q\x01a", b"1"), (b"q\x01b", b"2")]), (two, changes)):
        for key, value in written:
            rig.store.write_later(key, value)
        rig.commit(2)
        rig.commit(1, 2)
        rig.commit(1, 2)
    assert one.log.position(1)[:2] == two.log.position(1)[:2]
    assert one.log.position(1)[2] != two.log.position(1)[2]
    assert one.log.position(2) == two.log.position(2)


def test_a_slot_with_one_holder_has_no_list_and_its_floor_rises() -> None:
    rig = Rig()
    rig.commit(1, 2)
    rig.holders.listed = {2}
    batch = rig.commit(1, 2)
    check = rig.log.position(1)[2]
    assert msgspec.msgpack.decode(batch[keys.positions_key(2)] or b"")[0] == [1, 1, 2, check, []]
    rig.holders.listed = {1, 2}
    rig.commit(1, 2, key=b"new")
    for log in (rig.log, rig.restart().log):
        assert (log.floor(1), log.floor(2)) == (2, 0)
        assert [log.touched_since(1, n) for n in range(5)] == [None, None, {b"q\x01new"}, set(), None]
        assert log.touched_since(2, 0) == {b"q\x02k", b"q\x02new"}


@pytest.mark.usefixtures("small")
def test_the_floor_outlives_the_rows_that_raised_it() -> None:
    rig = Rig()
    rig.holders.listed, rig.holders.oldest = set(), None
    for _ in range(6):
        rig.commit(1)
    rig.holders.listed = {1}
    for _ in range(20):
        rig.commit(2)
    rig.commit(1)
    again = rig.restart().log
    assert rig.rows()[0] > 6 and again.floor(1) == 6
    assert (again.touched_since(1, 5), again.touched_since(1, 6)) == (None, {b"q\x01k"})


# Deleting old rows


@pytest.mark.usefixtures("small")
def test_old_rows_are_deleted_a_few_with_each_batch() -> None:
    rig = Rig()
    for _ in range(29):
        rig.commit(1)
    assert rig.rows() == list(range(1, 30)), "a holder needs the first row"
    rig.holders.oldest = None
    left = []
    for _ in range(12):
        batch = rig.commit(1)
        assert sum(value is None for value in batch.values()) <= slot_log.TRIM_ROWS
        left.append(rig.rows()[0])
    assert left[:3] == [5, 9, 13] and left[-1] == 40, "up to the newest checkpoint, which is row 40"
    assert rig.log.touched_since(1, 38) is None and rig.log.touched_since(1, 39) == {b"q\x01k"}
    assert rig.log.floor(1) == 0


@pytest.mark.usefixtures("small")
def test_rows_that_a_holder_needs_are_kept() -> None:
    rig = Rig()
    rig.holders.oldest = 7
    for _ in range(40):
        rig.commit(1)
    assert rig.rows()[0] == 7
    assert rig.log.touched_since(1, 6) == {b"q\x01k"}
    rig.holders.oldest = 3  # a holder that asks for rows that do not exist any more
    rig.commit(1)
    assert rig.rows()[0] == 7
    rig.holders.oldest = None
    rig.commit(1)
    assert rig.rows()[0] == 11


@pytest.mark.usefixtures("small")
def test_holders_keep_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_log, "KEPT_ROWS", 12)
    rig = Rig()
    for _ in range(50):
        rig.commit(1)
    assert rig.rows() == list(range(39, 51))


@pytest.mark.usefixtures("small")
def test_a_restart_goes_on_with_the_deletions() -> None:
    rig = Rig()
    for _ in range(29):
        rig.commit(1)
    rig.holders.oldest = None
    for _ in range(20):
        rig = rig.restart()
        rig.commit(1)
    assert rig.rows()[0] >= 35


class Counting(Disk):
    """A disk that counts the rows of each read."""

    def __init__(self, content: Disk) -> None:
        super().__init__()
        self.put_all(content.values.items())
        self.reads: list[int] = []

    def scan(self, start: bytes, stop: bytes, limit: int = 0, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        found = super().scan(start, stop, limit, reverse)
        self.reads.append(len(found))
        return found


@pytest.mark.usefixtures("small")
def test_a_start_reads_the_rows_behind_the_checkpoint_in_steps() -> None:
    rig = Rig()
    for _ in range(19):
        rig.commit(1, 2)
    disk = Counting(rig.disk)
    again = Rig(disk)
    assert disk.reads == [3, 1, 0]
    assert [again.log.position(slot) for slot in range(4)] == [rig.log.position(slot) for slot in range(4)]
    assert again.log.number == 19


def test_a_checkpoint_comes_with_each_thousandth_row() -> None:
    rig = Rig()
    with_checkpoint = [number for number in range(1, 2101) if keys.POSITIONS_CHECKPOINT in rig.commit(number % 256)]
    assert with_checkpoint == [1000, 2000]
    assert rig.restart().log.position(5) == rig.log.position(5)


# Damage


class Damaged(Disk):
    """A disk that cannot read some keys."""

    def __init__(self, content: Disk, *lost: bytes) -> None:
        super().__init__()
        self.put_all(content.values.items())
        self.lost = lost

    def _check(self, start: bytes, stop: bytes) -> None:
        if any(start <= key < stop for key in self.lost):
            raise Corrupted("000007.ldb", "a block is damaged", "Run `strogoff repair`")

    def get(self, key: bytes) -> bytes | None:
        self._check(key, key + b"\x00")
        return super().get(key)

    def scan(self, start: bytes, stop: bytes, limit: int = 0, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        found = super().scan(start, stop, limit, reverse)
        last = found[-1][0] if limit and len(found) == limit else b""
        self._check(last or start if reverse else start, last + b"\x00" if last and not reverse else stop)
        return found


def history() -> Rig:
    """Ten rows: row k changes slot k, and slot 100; rows 4 and 8 change slot 200 as well."""
    rig = Rig()
    for number in range(1, 11):
        rig.commit(*(number, 100, 200) if number in (4, 8) else (number, 100), key=b"%d" % number)
    return rig


def unreadable(rig: Rig, *rows: int) -> Disk:
    return Damaged(rig.disk, *map(keys.positions_key, rows))


def without(rig: Rig, *rows: int) -> Disk:
    rig.disk.put_all((keys.positions_key(number), None) for number in rows)
    return rig.disk


def garbled(rig: Rig, *rows: int) -> Disk:
    rig.disk.put_all((keys.positions_key(number), b"\xc1") for number in rows)
    return rig.disk


DAMAGES = (unreadable, without, garbled)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("read_rows", [3, 100])
def test_a_damaged_row_makes_positions_unknown_unless_a_later_row_names_them(
    damage: Any, read_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_log, "READ_ROWS", read_rows)
    rig = history()
    again = Rig(damage(rig, 5, 6))
    log = again.log
    assert any("2 rows" in text or "1 rows" in text for text in log.problems)
    assert [log.position(slot) for slot in (7, 10, 100)] == [rig.log.position(slot) for slot in (7, 10, 100)]
    assert log.position(4) == (0, 3, 0) and log.floor(4) == 3, "it had one change, and two rows are lost"
    assert log.position(5) == (0, 2, 0) and log.touched_since(5, 0) is None
    if damage is not unreadable:
        assert [log.touched_since(100, n) for n in (5, 6)] == [None, {b"q\x64%d" % n for n in (7, 8, 9, 10)}]
    again.commit(4, 5)
    near = damage is unreadable and read_rows > 3  # each read meets the damage
    assert log.touched_since(100, 9) == (None if near else {b"q\x6410"})
    assert log.position(4)[:2] == (1, 4) and log.touched_since(4, 3) == (None if near else {b"q\x04k"})
    assert log.floor(200) == 1, "row 8 has its second change, so no lost row had one"
    assert keys.POSITIONS_CHECKPOINT not in again.commit(4), "one checkpoint is enough"
    final = Rig(again.disk).log
    assert [final.position(slot) for slot in range(256)] == [log.position(slot) for slot in range(256)]
    assert final.problems == [], "the first batch after the damage wrote a checkpoint"


@pytest.mark.parametrize("damage", [unreadable, garbled])
def test_a_damaged_last_row_keeps_its_number(damage: Any) -> None:
    """Else its numbers of changes would be used twice."""
    rig = history()
    log = Rig(damage(rig, 10)).log
    assert log.number == 10
    assert log.position(10)[:2] == (0, 1) and log.position(100)[:2] == (0, 10)


def test_damage_that_hides_the_last_row_is_an_error() -> None:
    """A start that took another row for the last one would use its number again."""
    rig = history()
    with pytest.raises(Corrupted):
        Rig(unreadable(rig, *range(3, 400)))
    with pytest.raises(Corrupted):
        Rig(unreadable(rig, 500))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", ["unreadable", "garbled", "missing"])
def test_without_the_checkpoint_the_number_of_rows_bounds_each_n(damage: str) -> None:
    rig = Rig()
    rig.holders.oldest = None
    for number in range(1, 34):
        rig.commit(1 if number < 4 else 2, key=b"%d" % number)
    first = rig.rows()[0]
    disk: Disk = rig.disk
    if damage == "unreadable":
        disk = Damaged(rig.disk, keys.POSITIONS_CHECKPOINT)
    else:
        disk.put_all([(keys.POSITIONS_CHECKPOINT, b"\xc1" if damage == "garbled" else None)])
    again = Rig(disk)
    assert again.log.problems
    assert again.log.position(1) == (0, first - 1, 0) and again.log.floor(1) == first - 1 >= 3
    assert again.log.position(2) == rig.log.position(2) and again.log.number == 33
    assert again.log.touched_since(2, 29) == {b"q\x02%d" % number for number in (33,)}
    if damage != "unreadable":
        again.holders.oldest = None
        batch = again.commit(3)
        assert keys.POSITIONS_CHECKPOINT in batch
        assert [key for key, value in batch.items() if value is None] == [
            keys.positions_key(number) for number in range(first, 34)
        ], "deletions begin at the first row that exists"


def test_touched_keys_behind_a_damaged_row_are_not_known() -> None:
    rig = history()
    log = Rig(Damaged(rig.disk)).log
    store_disk = log._store._engine
    assert isinstance(store_disk, Damaged)
    store_disk.lost = (keys.positions_key(3),)
    assert log.touched_since(100, 1) is None
    assert log._store.damage.startswith("000007.ldb")
    store_disk.lost = ()
    store_disk.put_all([(keys.positions_key(3), b"\xc1")])
    assert log.touched_since(100, 1) is None
    assert len(log.touched_since(100, 3) or ()) == 7


def test_the_rows_are_in_the_store_under_their_keys() -> None:
    rig = Rig()
    rig.commit(8, 1)
    check = google_crc32c.value(encode([b"q\x01k", b"v"]))
    (row,) = rig.disk.scan(b"t", END)[:1]
    assert row[0] == b"t\x00\x00\x00\x00\x00\x00\x00\x01"
    first, second = msgspec.msgpack.decode(row[1])
    assert first == [1, 1, 1, check, [b"q\x01k"]] and second[0] == 8, "sorted by slot"
