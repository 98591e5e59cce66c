"""Resetting a data directory: the old data is kept beside it, and no boot number is used twice."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from strogoff.cluster.membership.state_machine import UNLOGGED_MAX
from strogoff.storage import reset as reset_module
from strogoff.storage.directory import FORMAT, MARKER, DataDirectory
from strogoff.storage.engine import Corrupted, DirectoryInUse, StorageError
from strogoff.storage.files import write_durably
from strogoff.storage.reset import SKIPPED, reset


def ids() -> Callable[[], str]:
    numbers = itertools.count()
    return lambda: f"id-{next(numbers)}"


def begun(path: Path, starts: int = 3) -> DataDirectory:
    new_uuid = ids()
    for _ in range(starts - 1):
        DataDirectory(path, "n1", new_uuid).close()
    return DataDirectory(path, "n1", new_uuid)


def test_a_reset_skips_boot_numbers_unknown_to_the_cluster() -> None:
    assert SKIPPED == UNLOGGED_MAX


def test_a_reset_keeps_the_old_data_and_continues_the_boot_numbers(tmp_path: Path) -> None:
    path = tmp_path / "data"
    old = begun(path)
    (old.messages / "MARK").write_bytes(b"of the old data")
    old.close()
    aside = reset(path, lambda: "another")
    assert aside == path / "set-aside-1"
    assert (aside / "messages" / "MARK").read_bytes() == b"of the old data"
    anew = DataDirectory(path, "n1", ids())
    assert (anew.disk_uuid, anew.boot, anew.boot_above) == ("another", 3 + SKIPPED + 1, 3 + SKIPPED)
    assert not (anew.messages / "MARK").exists()
    anew.close()
    assert reset(path, lambda: "a third") == path / "set-aside-2"


def test_a_directory_in_use_is_not_reset(tmp_path: Path) -> None:
    directory = begun(tmp_path / "data")
    with pytest.raises(DirectoryInUse):
        reset(directory.path, ids())
    assert directory.messages.exists()
    directory.close()


def test_a_foreign_directory_is_not_changed(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is no node's data directory"):
        reset(tmp_path, ids())
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_is_finished_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "data"
    begun(path).close()
    (path / "messages").rename(tmp_path / "gone")
    with pytest.raises(StorageError, match="the database is missing"):
        DataDirectory(path, "n1", ids())
    reset(path, lambda: "another")
    anew = DataDirectory(path, "n1", ids())
    assert anew.disk_uuid == "another"
    anew.close()


def test_no_node_starts_with_empty_databases_under_the_id_of_the_old_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reset was killed before it wrote the new id: the cluster would count the node as one that has its data."""
    path = tmp_path / "data"
    begun(path).close()

    def killed(file: Path, content: bytes) -> None:
        if file == path / MARKER:
            raise OSError("killed")
        write_durably(file, content)

    with monkeypatch.context() as patched:
        patched.setattr(reset_module, "write_durably", killed)
        with pytest.raises(OSError, match="killed"):
            reset(path, lambda: "another")
    with pytest.raises(Corrupted, match="the database is missing"):
        DataDirectory(path, "n1", ids())
    reset(path, lambda: "another")
    anew = DataDirectory(path, "n1", ids())
    assert anew.disk_uuid == "another"
    anew.close()


def test_a_reset_of_an_older_format(tmp_path: Path) -> None:
    """The empty databases have the present format; the old data keeps its own."""
    path = tmp_path / "data"
    begun(path).close()
    marker = path / MARKER
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "format": 1}))
    aside = reset(path, lambda: "another")
    assert json.loads((aside / MARKER).read_text())["format"] == 1
    assert json.loads(marker.read_text())["format"] == FORMAT
