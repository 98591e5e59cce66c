"""Rows that a killed process has left in its ring: what of them goes to files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from strogoff.analytics.event_lines import header_line, row_line
from strogoff.broker.process.eventlog_files import HOUR_MS, Limits, LogFiles
from strogoff.broker.process.eventlog_ring import Rescued
from strogoff.broker.process.eventlog_writer import rescue, timed
from strogoff.testing.log_audit.log_files import read_log

NOON = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)
HEADER, JOINED = header_line("run", "n1", 1), header_line("joined", "n1", 1)


def row(seq: int, when_ms: int = NOON) -> bytes:
    return row_line("node.stop", seq, when_ms << 16, 5, {})


def files(directory: Path) -> LogFiles:
    return LogFiles(directory, "n1", 1, Limits())


def numbers(directory: Path) -> list[tuple[str, int]]:
    rows, rejects = read_log(directory)
    assert rejects == []
    return [(each["run_id"], each["seq"]) for each in rows]


def test_rescued_rows_follow_those_that_the_newest_file_has(tmp_path: Path) -> None:
    """The rest may begin before its end, and change the run: each file has its header line."""
    killed = files(tmp_path)
    killed.begin(HEADER)
    assert killed.write(timed([row(1), row(2), row(3)])) == (3, None)
    rest = Rescued(1, HEADER, [row(2), row(3), row(4), JOINED, row(5)])
    assert rescue(files(tmp_path), rest) == (2, None)
    assert numbers(tmp_path) == [*(("run", seq) for seq in (1, 2, 3, 4)), ("joined", 5)]
    lines = [line for path in tmp_path.rglob("boot=*") for line in path.read_bytes().splitlines(keepends=True)]
    assert [line for line in lines if line.startswith(b"[")].count(row(3)) == 1


def test_rescued_rows_of_a_boot_without_a_file(tmp_path: Path) -> None:
    assert rescue(files(tmp_path), Rescued(1, HEADER, [row(1), row(2, NOON + HOUR_MS)])) == (2, None)
    assert [path.name for path in sorted(tmp_path.rglob("boot=*"))] == ["boot=1-000001.jsonl", "boot=1-000002.jsonl"]
    assert numbers(tmp_path) == [("run", 1), ("run", 2)]


def test_rows_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    saved, error = rescue(files(tmp_path / "file"), Rescued(1, HEADER, [row(1)]))
    assert (saved, isinstance(error, OSError)) == (0, True)
