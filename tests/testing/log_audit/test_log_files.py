"""Event logs written to files: all rows, by node and boot, as the broker writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strogoff.testing.log_audit.audit import audit
from strogoff.testing.log_audit.log_files import write_log

from .log_builder import Log


def test_rows_come_back(tmp_path: Path) -> None:
    """The audit of the read rows gives the same result as before."""
    log = Log()
    log.subscriber()
    log.whole()
    log.boot()
    write_log(log.rows, tmp_path / "log")
    files = sorted((tmp_path / "log").rglob("*.jsonl"))
    assert [file.name.split("-")[0] for file in files] == ["boot=1", "boot=2"]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len(rows) == len(log.rows)
    assert str(audit(rows)) == str(audit(log.rows))


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """OSError, and no partial file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        write_log(Log().rows, tmp_path / "file" / "log")
