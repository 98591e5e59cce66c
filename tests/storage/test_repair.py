"""Repair keeps the readable data, gives no wrong value, and reports missing data."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from strogoff.storage.engine import Corrupted, DirectoryInUse, WrongDirectory
from strogoff.storage.repair import repair

from .contract import END, LevelDBHarness

KEYS = 20_000


def value_of(key: bytes) -> bytes:
    return Random(key).randbytes(100)


@pytest.fixture
def filled(tmp_path: Path) -> LevelDBHarness:
    """A closed database with tables and a log of single writes."""
    harness = LevelDBHarness(tmp_path / "db", "os")
    harness.open()
    for start in range(0, KEYS - 500, 500):
        keys = [b"k%06d" % n for n in range(start, start + 500)]
        assert harness.write({key: value_of(key) for key in keys}) is None
    for number in range(KEYS - 500, KEYS):
        key = b"k%06d" % number
        assert harness.write({key: value_of(key)}) is None
    harness.engine.close()
    return harness


def first(harness: LevelDBHarness, pattern: str) -> Path:
    return sorted(harness.path.glob(pattern))[0]


def newest_log(harness: LevelDBHarness) -> Path:
    """Returns the log of writes that are in no table; an older log may remain, whose writes are all in a table."""
    return sorted(harness.path.glob("*.log"))[-1]


def flip(file: Path, at: int | None = None, count: int = 1) -> None:
    content = bytearray(file.read_bytes())
    at = len(content) // 2 if at is None else at
    for place in range(at, at + count):
        content[place] ^= 0x10
    file.write_bytes(content)


def check(harness: LevelDBHarness, kept: int) -> None:
    """Check that it opens, has the reported number of keys, has no wrong value, and accepts writes."""
    harness.open()
    rows = harness.engine.scan(b"", END)
    assert len(rows) == kept
    assert all(value == value_of(key) for key, value in rows)
    assert harness.write({b"k": value_of(b"k")}) is None
    harness.engine.close()


LOSSLESS: list[tuple[str, Callable[[LevelDBHarness], object]]] = [
    ("CURRENT gone", lambda h: (h.path / "CURRENT").unlink()),
    ("CURRENT smashed", lambda h: (h.path / "CURRENT").write_text("x")),
    ("manifest smashed", lambda h: flip(first(h, "MANIFEST*"), 10, 50)),
    ("manifest gone", lambda h: first(h, "MANIFEST*").unlink()),
]

LOSING: list[tuple[str, Callable[[LevelDBHarness], object], int]] = [
    ("a bit of a table", lambda h: flip(first(h, "*.ldb")), 100),
    ("a stretch of a table", lambda h: flip(first(h, "*.ldb"), count=9000), 500),
    ("a table cut short", lambda h: os.truncate(first(h, "*.ldb"), 1000), 9000),
    ("a table gone", lambda h: first(h, "*.ldb").unlink(), 9000),
    ("a stretch of the log", lambda h: flip(newest_log(h), count=1000), 500),
]


@pytest.mark.parametrize(("what", "damage"), LOSSLESS, ids=[row[0] for row in LOSSLESS])
def test_lists_can_be_made_again(filled: LevelDBHarness, what: str, damage: Callable[[LevelDBHarness], object]) -> None:
    damage(filled)
    report = repair(filled.path, filled.options)
    assert (report.kept, report.dropped_writes, report.dropped_bytes, report.files) == (KEYS, 0, 0, ())
    assert report.lossless
    assert str(filled.path) in report.found
    check(filled, KEYS)


@pytest.mark.parametrize(("what", "damage", "at_most"), LOSING, ids=[row[0] for row in LOSING])
def test_dropped_records_are_reported(
    filled: LevelDBHarness, what: str, damage: Callable[[LevelDBHarness], object], at_most: int
) -> None:
    damage(filled)
    report = repair(filled.path, filled.options)
    assert KEYS - at_most <= report.kept < KEYS
    assert not report.lossless
    assert report.found
    if what != "a table gone":
        assert report.dropped_bytes > 0
        assert [name for name in report.files if (filled.path / "lost").glob(name + "*")]
    check(filled, report.kept)


def test_a_missing_log_is_a_loss(filled: LevelDBHarness) -> None:
    for log in filled.path.glob("*.log"):
        log.unlink()
    report = repair(filled.path, filled.options)
    assert report.kept < KEYS
    assert not report.lossless
    check(filled, report.kept)


def test_a_flipped_bit_in_the_log_costs_one_write_and_no_wrong_value(filled: LevelDBHarness) -> None:
    """LevelDB's own repair would keep the wrong value."""
    log = newest_log(filled)
    flip(log, log.read_bytes().find(b"k019700") + 40)
    report = repair(filled.path, filled.options)
    assert (report.kept, report.dropped_writes, report.files) == (KEYS - 1, 1, (log.name,))
    check(filled, KEYS - 1)


def test_an_undamaged_database_is_not_changed(filled: LevelDBHarness) -> None:
    report = repair(filled.path, filled.options)
    assert (report.found, report.kept, report.lossless) == ("", KEYS, True)
    assert not (filled.path / "lost").exists()
    check(filled, KEYS)


def test_repair_twice(filled: LevelDBHarness) -> None:
    flip(first(filled, "*.ldb"))
    kept = repair(filled.path, filled.options).kept
    again = repair(filled.path, filled.options)
    assert (again.found, again.kept) == ("", kept)


def test_a_database_in_use_is_not_repaired(filled: LevelDBHarness) -> None:
    filled.open()
    with pytest.raises(DirectoryInUse):
        repair(filled.path)
    filled.engine.close()


def test_opening_never_repairs(filled: LevelDBHarness) -> None:
    first(filled, "*.ldb").unlink()
    for _ in range(2):
        with pytest.raises(Corrupted):
            filled.open()
    assert not (filled.path / "lost").exists()


def test_a_foreign_folder_is_not_repaired(tmp_path: Path) -> None:
    (tmp_path / "000005.ldb").write_bytes(b"x")
    with pytest.raises(WrongDirectory):
        repair(tmp_path)
