"""A database is created once, and never over other files."""

from __future__ import annotations

from pathlib import Path

import pytest

from strogoff.storage.engine import Corrupted, DirectoryInUse, WrongDirectory
from strogoff.storage.leveldb_folder import MARKER, Folder, is_fresh, prepare, was_prepared


def test_a_folder_is_new_until_its_database_was_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "db"
    folder = Folder(path)
    assert folder.is_new
    folder.close()
    assert is_fresh(path)
    folder = Folder(path)
    assert folder.is_new, "a crash before it was made changes nothing"
    folder.made()
    folder.made()
    folder.close()
    assert not is_fresh(path)
    folder = Folder(path)
    assert not folder.is_new
    folder.close()


def test_the_folder_is_locked(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with pytest.raises(DirectoryInUse):
        Folder(tmp_path)
    folder.close()
    Folder(tmp_path).close()


def test_a_database_without_a_marker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "000005.ldb").write_bytes(b"x")
    for _ in range(2):
        with pytest.raises(WrongDirectory, match=r"000005\.ldb"):
            Folder(tmp_path)
    assert not was_prepared(tmp_path)
    assert not is_fresh(tmp_path)


def test_prepare_twice_is_no_error(tmp_path: Path) -> None:
    prepare(tmp_path / "db")
    prepare(tmp_path / "db")
    assert was_prepared(tmp_path / "db")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 1}', "\0\0\0\0"])
def test_an_unreadable_marker_is_damage(tmp_path: Path, content: str) -> None:
    (tmp_path / MARKER).write_text(content)
    with pytest.raises(Corrupted) as found:
        Folder(tmp_path)
    assert found.value.file == str(tmp_path / MARKER)


@pytest.mark.parametrize("content", ['{"format": 2, "state": "made"}', '{"format": 1, "state": "odd"}'])
def test_an_unknown_format_is_not_touched(tmp_path: Path, content: str) -> None:
    (tmp_path / MARKER).write_text(content)
    with pytest.raises(WrongDirectory):
        Folder(tmp_path)
    assert (tmp_path / MARKER).read_text() == content
