"""The event log as a source: which part of which file is read when."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import pytest

from strogoff.analytics.event_lines import header_line, line_of

pytest.importorskip("pyspark")

from strogoff.analytics.stream.items import BOOT, WORLD
from strogoff.analytics.stream.log_source import WHOLE, EventLogSource, LogReader, advance, ends

BEGIN = 1_772_366_400_000
FOLDER = "date=2026-03-01/hour=12/node=a"


def lines(*seqs: int) -> bytes:
    rows = [
        {"seq": seq, "hlc": (BEGIN + seq) << 16, "mono_ns": 0, "type": "sess.create", "client": "c", "epoch": seq}
        for seq in seqs
    ]
    return b"".join(map(line_of, rows))


HEAD = header_line("r", "a", 1)


def write(log: Path, name: str, content: bytes) -> Path:
    path = log / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def reader(log: Path) -> LogReader:
    source = EventLogSource({"path": str(log), "parts": "1", "late_ms": "5"})
    return source.streamReader(source.schema())  # type: ignore[arg-type]


def batch(read: LogReader, start: dict[str, int]) -> tuple[list[int], dict[str, int]]:
    """The next batch: the numbers of the rows that it reads, and the offsets behind it."""
    end = read.latestOffset(start, read.getDefaultReadLimit())
    return numbers(read, start, end), end


def numbers(read: LogReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    found: list[dict[str, Any]] = []
    for part in read.partitions(start, end):
        for table in pickle.loads(pickle.dumps(read)).read(part):
            found += table.to_pylist()
    assert {each["kind"] for each in found} <= {WORLD, BOOT}
    return sorted(int(each["key"].rpartition("/")[2]) for each in found if each["kind"] == WORLD)


def test_a_file_that_grows_is_completed_and_compressed_is_read_once(tmp_path: Path) -> None:
    read = reader(tmp_path)
    content = HEAD + lines(1, 2)
    path = write(tmp_path, f"{FOLDER}/boot=1-000001.jsonl.open", content + lines(3)[:-5])
    found, at = batch(read, read.initialOffset())
    assert (found, at) == ([1, 2], {f"{FOLDER}/boot=1-000001.jsonl": len(content)})
    assert batch(read, at) == ([], at)
    content += lines(3, 4)
    path.write_bytes(content)
    found, later = batch(read, at)
    assert found == [3, 4]
    done = path.with_suffix("")
    path.rename(done)
    done.write_bytes(content + lines(5))
    found, last = batch(read, later)
    assert (found, last) == ([5], {f"{FOLDER}/boot=1-000001.jsonl": WHOLE})
    write(tmp_path, f"{FOLDER}/boot=1-000001.jsonl.gz", gzip.compress(done.read_bytes()))
    done.unlink()
    assert batch(read, last) == ([], last)
    assert numbers(read, at, later) == [3, 4]  # a batch that is repeated
    assert numbers(read, later, last) == [5]


def test_the_last_line_of_a_complete_file_may_be_cut(tmp_path: Path) -> None:
    write(tmp_path, f"{FOLDER}/boot=1-000001.jsonl", HEAD + lines(1) + lines(2)[:-5])
    found, at = batch(reader(tmp_path), {})
    assert found == [1] and [*at.values()] == [WHOLE]


def test_a_backlog_is_read_hour_by_hour(tmp_path: Path) -> None:
    for hour, node, seq in ((13, "a", 3), (12, "b", 2), (12, "a", 1), (14, "a", 4)):
        write(tmp_path, f"date=2026-03-01/hour={hour}/node={node}/boot=1-000001.jsonl", HEAD + lines(seq))
    at: dict[str, int] = {}
    read, found = reader(tmp_path), []
    for _ in range(4):
        some, at = batch(read, at)
        found.append(some)
    assert found == [[1, 2], [3], [4], []]


def test_only_what_is_there_at_the_begin(tmp_path: Path) -> None:
    write(tmp_path, f"{FOLDER}/boot=1-000001.jsonl", HEAD + lines(1))
    read = reader(tmp_path)
    read.prepareForTriggerAvailableNow()
    write(tmp_path, f"{FOLDER}/boot=1-000002.jsonl", HEAD + lines(2))
    found, at = batch(read, {})
    assert found == [1]
    assert batch(read, at) == ([], at)


def test_deleted_files_leave_the_offsets(tmp_path: Path) -> None:
    path = write(tmp_path, f"{FOLDER}/boot=1-000001.jsonl", HEAD + lines(1))
    write(tmp_path, f"{FOLDER}/boot=1-000002.jsonl", HEAD + lines(2))
    read = reader(tmp_path)
    _, at = batch(read, {})
    path.unlink()
    found, later = batch(read, at)
    assert found == [] and len(later) == 1
    assert numbers(read, {}, at) == [2]


def test_offsets_do_not_depend_on_the_order_of_the_directory() -> None:
    assert [*advance({"b": 1}, {"b": 1, "a": WHOLE})] == ["a", "b"]
    assert advance({"a": 9}, {"a": 5}) == {"a": 9}


def test_a_long_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, f"{FOLDER}/boot=1-000001.jsonl.open", HEAD + b"[" + b"1" * 200_000)
    write(tmp_path, f"{FOLDER}/boot=1-000002.jsonl.open", b"[" * 10)
    assert [*ends(tmp_path).values()] == [len(HEAD), 0]
