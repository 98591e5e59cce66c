"""Error texts of LevelDB become file, loss and remedy."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from strogoff.storage.engine import Corrupted, DiskFull
from strogoff.storage.leveldb_binding import plyvel
from strogoff.storage.leveldb_damage import check_logs, explain, tables_of

DB = Path("/data/my messages")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_space(number: int) -> None:
    said = f"IO error: {DB}/000012.log: {os.strerror(number)}".encode()
    assert isinstance(explain(DB, plyvel.IOError(said)), DiskFull)
    assert isinstance(explain(DB, OSError(number, os.strerror(number))), DiskFull)


def test_other_errors_of_the_system_say_where() -> None:
    error = explain(DB, plyvel.IOError(f"IO error: {DB}/LOCK: Permission denied".encode()))
    assert not isinstance(error, DiskFull | Corrupted)
    assert "/data/my messages" in str(error)
    assert "Permission denied" in str(error)


@pytest.mark.parametrize(
    ("said", "file"),
    [
        (f"IO error: {DB}/000005.ldb: Invalid argument", "000005.ldb"),
        (f"IO error: {DB}/000005.ldb: No such file or directory", "000005.ldb"),
        (f"Corruption: 3 missing files; e.g.: {DB}/000007.ldb", "000007.ldb"),
        ("Corruption: CURRENT file does not end with newline", "CURRENT"),
        (f"Invalid argument: {DB}: does not exist (create_if_missing is false)", "CURRENT"),
        ("Corruption: block checksum mismatch", "000005.ldb or 000009.ldb"),
    ],
)
def test_the_file_is_named(said: str, file: str) -> None:
    error = explain(DB, plyvel.Error(said.encode()), suspects=("000005.ldb", "000009.ldb"))
    assert isinstance(error, Corrupted)
    assert error.file == f"{DB}/{file}"
    assert error.loss
    assert "repair" in error.remedy


@pytest.mark.parametrize(
    ("said", "data_missing"),
    [
        (f"Corruption: 3 missing files; e.g.: {DB}/000007.ldb", True),
        (f"IO error: {DB}/000005.ldb: No such file or directory", True),
        (f"IO error: {DB}/000005.ldb: Invalid argument", False),
        ("Corruption: CURRENT file does not end with newline", False),
        (f"Invalid argument: {DB}: does not exist (create_if_missing is false)", False),
        ("Corruption: block checksum mismatch", False),
    ],
)
def test_a_missing_table_is_missing_data_and_a_missing_list_is_not(said: str, data_missing: bool) -> None:
    error = explain(DB, plyvel.Error(said.encode()))
    assert isinstance(error, Corrupted)
    assert error.data_missing is data_missing


def test_a_missing_log_is_missing_data(tmp_path: Path) -> None:
    with pytest.raises(Corrupted) as found:
        check_logs(tmp_path)
    assert found.value.data_missing
    (tmp_path / "000003.log").touch()
    check_logs(tmp_path)


def test_a_corruption_at_a_write_names_the_directory_at_least() -> None:
    error = explain(DB, plyvel.CorruptionError(b"Corruption: block checksum mismatch"))
    assert isinstance(error, Corrupted)
    assert error.file == f"{DB}/*.ldb"


def test_the_damaged_log_is_found_in_the_notes_of_leveldb(tmp_path: Path) -> None:
    (tmp_path / "LOG").write_text(
        f"2026/01/01-00:00:00.0 1 Recovering log #6\n"
        f"2026/01/01-00:00:00.0 1 {tmp_path}/000006.log: dropping 200 bytes; Corruption: bad record length\n"
        f"2026/01/01-00:00:00.0 1 {tmp_path}/000006.log: dropping 9 bytes; Corruption: bad record length\n"
    )
    error = explain(tmp_path, plyvel.CorruptionError(b"Corruption: bad record length"), opening=True)
    assert isinstance(error, Corrupted)
    assert error.file == f"{tmp_path}/000006.log"
    assert "209 bytes" in error.loss


def test_the_tables_of_a_key() -> None:
    listing = (
        "--- level 0 ---\n 12:100['b' @ 5 : 1 .. 'd' @ 9 : 0]\n--- level 1 ---\n"
        " 5:841589['\\x00\\xff' @ 1 : 1 .. 'c' @ 7405 : 1]\n 7:841595['c' @ 7406 : 1 .. 'c' @ 5 : 1' @ 14810 : 1]\n"
    )
    assert tables_of(listing, b"\x00\xfe") == ()
    assert tables_of(listing, b"a") == ("000005.ldb",)
    assert tables_of(listing, b"c") == ("000012.ldb", "000005.ldb", "000007.ldb")
    assert tables_of(listing, b"d\x00") == ()
    assert tables_of("", b"a") == ()
