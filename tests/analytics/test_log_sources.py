"""Sources by the names of files, through all names that the broker gives them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from strogoff.analytics.log_sources import find
from strogoff.cli import main


def file(path: Path, content: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_a_source_keeps_its_name_while_the_broker_renames_the_file(tmp_path: Path) -> None:
    name = "date=2026-03-01/hour=12/node=a%20b/boot=1-000001.jsonl"
    path = file(tmp_path / f"{name}.open", "line\n")
    (source,) = find(tmp_path).sources
    assert (source.file, source.suffix, source.disk_bytes, source.complete) == (name, ".open", 5, False)
    assert source.mtime_ns == path.stat().st_mtime_ns
    path.rename(tmp_path / name)
    (source,) = find(tmp_path).sources
    assert (source.file, source.suffix, source.complete) == (name, "", True)
    (tmp_path / name).rename(tmp_path / f"{name}.gz")
    (source,) = find(tmp_path).sources
    assert (source.file, source.suffix, source.complete) == (name, ".gz", True)


def test_a_file_and_its_compressed_copy_are_one_source(tmp_path: Path) -> None:
    file(tmp_path / "boot=1-000001.jsonl", "plain")
    file(tmp_path / "boot=1-000001.jsonl.gz", "packed")
    assert [(each.file, each.suffix) for each in find(tmp_path).sources] == [("boot=1-000001.jsonl", ".gz")]


def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError], number: int) -> Path:
    """Write the log of two nodes. Returns the directory of one of them, which cannot be read. Root may read all."""
    file(tmp_path / "node=n1/boot=1-000001.jsonl")
    directory = file(tmp_path / "node=n2/boot=1-000001.jsonl").parent
    scandir = os.scandir

    def scan(path: Any) -> Any:
        if path == str(directory) or path == directory:
            raise error(number, os.strerror(number), str(directory))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    return directory


def test_a_directory_that_nobody_may_read_is_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit would be about the other nodes alone, and would not say so."""
    failing(tmp_path, monkeypatch, PermissionError, errno.EACCES)
    with pytest.raises(PermissionError, match="node=n2"):
        find(tmp_path)


def test_nor_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path / "boot=1-000001.jsonl")
    monkeypatch.setattr(os, "access", lambda asked, _mode: asked != path)
    with pytest.raises(PermissionError, match="boot=1"):
        find(tmp_path)


def test_a_directory_that_is_deleted_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker deletes days."""
    failing(tmp_path, monkeypatch, FileNotFoundError, errno.ENOENT)
    assert [each.file for each in find(tmp_path).sources] == ["node=n1/boot=1-000001.jsonl"]


def test_a_job_says_what_it_may_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = failing(tmp_path, monkeypatch, PermissionError, errno.EACCES)
    assert main(["analytics", "follow", str(tmp_path), "--client", "rx"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("strogoff analytics: ") and "Permission denied" in told and str(directory) in told


def test_sources_are_sorted_by_name(tmp_path: Path) -> None:
    for name in ("hour=12/boot=1-000001.jsonl", "hour=11/boot=2-000001.jsonl.open", "hour=11/boot=1-000001.jsonl.gz"):
        file(tmp_path / name)
    files = [each.file for each in find(tmp_path).sources]
    assert files == ["hour=11/boot=1-000001.jsonl", "hour=11/boot=2-000001.jsonl", "hour=12/boot=1-000001.jsonl"]


def test_every_other_file_is_a_stranger_but_those_of_the_writer(tmp_path: Path) -> None:
    for name in ("boot=1-000001.jsonl.gz.part", "0123456789abcdef0123456789abcdef.ring"):
        file(tmp_path / name)
    strangers = ["boot=1-000001.jsonl.bak", "boot=1-000001.jsonl.zst", "deep/er/notes.txt", "xboot=1-1.jsonl"]
    for name in strangers:
        file(tmp_path / name)
    found = find(tmp_path)
    assert list(found.strangers) == strangers
    assert list(found.sources) == []
