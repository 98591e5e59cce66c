"""Event logs written to files: all rows, by node and boot, as the broker writes them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from strogoff.analytics.event_lines import Reject
from strogoff.analytics.schema import VERSION
from strogoff.testing.log_audit.audit import audit
from strogoff.testing.log_audit.log_files import lines_of, read_log, write_log

from .log_builder import Log


def test_rows_come_back(tmp_path: Path) -> None:
    """The audit of the read rows gives the same result as before."""
    log = Log()
    log.subscriber()
    log.whole()
    log.boot()
    assert write_log(log.rows, str(tmp_path / "log")) == tmp_path / "log"
    files = sorted((tmp_path / "log").rglob("*.jsonl"))
    assert [file.name.split("-")[0] for file in files] == ["boot=1", "boot=2"]
    rows, rejects = read_log(tmp_path / "log")
    assert (len(rows), rejects) == (len(log.rows), [])
    assert str(audit(rows)) == str(audit(log.rows))


def test_complete_compressed_and_open_files_are_read(tmp_path: Path) -> None:
    """Each row once; of an open file up to its last whole line."""
    log = Log()
    log.subscriber()
    log.whole()
    rows = [row | {"v": VERSION} for row in log.rows]
    (path,) = sorted(write_log(rows, tmp_path).rglob("*.jsonl"))
    wanted, _ = read_log(tmp_path)
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    packed.with_name(packed.name + ".part").write_bytes(b"half")
    assert read_log(tmp_path) == (wanted, [])
    path.unlink()
    assert read_log(tmp_path) == (wanted, [])
    content = gzip.decompress(packed.read_bytes())
    packed.unlink()
    path.with_name(path.name + ".open").write_bytes(content[:-5])
    assert read_log(tmp_path) == (wanted[:-1], [Reject("torn")])


def test_a_file_that_gets_its_next_name_meanwhile_is_read(tmp_path: Path) -> None:
    (tmp_path / "boot=1-000001.jsonl.gz").write_bytes(gzip.compress(b"a\nb"))
    assert lines_of(tmp_path / "boot=1-000001.jsonl.open") == [b"a", b"b"]
    assert lines_of(tmp_path / "boot=1-000002.jsonl") == []


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """OSError, and no partial file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        write_log(Log().rows, tmp_path / "file" / "log")
