"""Logs that are written as a broker does."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

from strogoff.analytics.generate.log_writing import LogWriter
from strogoff.analytics.schema import MESSAGE
from strogoff.testing.log_audit.log_files import read_log, write_log

from ..logs import LoggedNode

Row = dict[str, Any]


def nodes(crash: bool = False) -> list[Row]:
    """Returns the rows of nodes with names that are special in paths, in several hours, boots and runs."""
    rows: list[Row] = []
    for number, name in enumerate(("n1@10.0.0.1", "n 2/[x]")):
        node = LoggedNode(name, random.Random(number))
        node.live(70, MESSAGE, crash=True, joins=True)
        node.live(70, MESSAGE, crash=crash)
        rows += [dict(row) for row in node.rows]
    return rows


def write(rows: list[Row], directory: Path, size: int) -> LogWriter:
    """Write rows, and close the files."""
    writer = LogWriter(directory, size)
    for row in rows:
        writer.add(row)
    writer.close()
    return writer


def content(directory: Path) -> dict[str, bytes]:
    """Returns the content of all files by the names that they have when they are complete and not compressed."""
    found = {}
    for path in directory.rglob("boot=*"):
        name = str(path.relative_to(directory)).removesuffix(".gz").removesuffix(".open")
        assert name not in found
        found[name] = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return found


@pytest.mark.parametrize("size", [9_000, 64 << 20])
def test_the_files_are_those_of_the_broker(tmp_path: Path, size: int) -> None:
    """Names and content, with many files for each hour and with one."""
    rows = nodes()
    writer = write(rows, tmp_path / "ours", size)
    write_log(rows, tmp_path / "broker", size)
    ours, theirs = content(tmp_path / "ours"), content(tmp_path / "broker")
    assert ours == theirs
    assert (writer.rows, writer.files, writer.bytes) == (len(rows), len(ours), sum(map(len, ours.values())))


def test_complete_files_are_compressed_but_for_the_last_one(tmp_path: Path) -> None:
    write(nodes(), tmp_path, 9_000)
    plain = [*tmp_path.rglob("*.jsonl")]
    assert sorted(path.name[:6] for path in plain) == ["boot=2", "boot=2"]
    assert len([*tmp_path.rglob("*.jsonl.gz")]) > 4
    assert [*tmp_path.rglob("*.open")] == []


def test_the_file_of_a_node_that_did_not_stop_is_open(tmp_path: Path) -> None:
    rows = nodes(crash=True)
    write(rows, tmp_path, 64 << 20)
    assert len([*tmp_path.rglob("*.open")]) == 2
    read, rejects = read_log(tmp_path)
    assert len(read) == len(rows)
    assert rejects == []


def test_a_row_that_the_schema_lacks_is_an_error(tmp_path: Path) -> None:
    row = nodes()[0]
    with pytest.raises(KeyError):
        LogWriter(tmp_path).add(row | {"nonsense": 1})


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    rows = nodes()
    write(rows, tmp_path, 64 << 20)
    with pytest.raises(FileExistsError):
        write(rows, tmp_path, 64 << 20)
