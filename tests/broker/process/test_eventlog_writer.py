"""Rows from a ring to files: those of a running process, and those that a killed one has left."""

from __future__ import annotations

import gzip
import resource
from datetime import UTC, datetime
from pathlib import Path

import pytest

from strogoff.analytics.event_lines import header_line, row_line
from strogoff.broker.process.eventlog_files import HOUR_MS, Limits, LogFiles
from strogoff.broker.process.eventlog_ring import Rescued, Ring
from strogoff.broker.process.eventlog_writer import Drain, rescue, timed
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


@pytest.mark.parametrize("damage", [b"", b"\x1f", b"\xff" * 40])
def test_a_damaged_file_of_a_killed_process_ends_no_start(tmp_path: Path, damage: bytes) -> None:
    packed = tmp_path / "date=2026-03-01/hour=12/node=n1/boot=1-000001.jsonl.gz"
    packed.parent.mkdir(parents=True)
    packed.write_bytes(gzip.compress(HEADER + row(1))[:12] + damage)
    saved, error = rescue(files(tmp_path), Rescued(1, HEADER, [row(2)]))
    assert saved == 0 and isinstance(error, OSError) and str(packed) in str(error)


class Scene:
    """A ring with a drain to files, which count the calls that look at each row."""

    def __init__(self, directory: Path, limits: Limits | None = None) -> None:
        self.ring = Ring(1 << 20)
        self.files = LogFiles(directory, "n1", 1, limits or Limits())
        self.files.begin(HEADER)
        self.drain = Drain(self.ring, self.files, lambda level, text: None)
        self.looked_at = 0
        write = self.files.write

        def counted(lines: list[tuple[int, bytes]]) -> tuple[int, OSError | None]:
            self.looked_at += len(lines)
            return write(lines)

        self.files.write = counted  # type: ignore[method-assign, assignment]

    def round(self, *lines: bytes) -> None:
        for line in lines:
            assert self.ring.put(line, 0)
        self.drain.round(self.ring.written)
        assert self.ring.used == 0


def test_rows_of_the_open_file_are_written_at_once(tmp_path: Path) -> None:
    """Only the first ones of a file are looked at, and those of another hour or run."""
    scene = Scene(tmp_path)
    later = NOON + HOUR_MS
    for lines, looked_at in (
        ([row(1)], 1),
        ([row(2), row(3)], 1),
        ([row(4), JOINED, row(5)], 3),
        ([row(6)], 3),
        ([row(7), row(8, later)], 5),
        ([row(9, later), row(10, later)], 5),
        ([row(11, later + HOUR_MS)], 6),
    ):
        scene.round(*lines)
        assert scene.looked_at == looked_at
    scene.files.close()
    expected = [("run", seq) for seq in (1, 2, 3, 4)] + [("joined", seq) for seq in range(5, 12)]
    assert sorted(numbers(tmp_path), key=lambda each: each[1]) == expected
    hours = {path.parent.parent.name: path.read_bytes().count(b"[") for path in tmp_path.rglob("boot=1-*")}
    assert set(hours) == {"hour=12", "hour=13", "hour=14"} and scene.drain.written == 11


def test_files_have_their_size_and_their_age_also_with_rows_at_once(tmp_path: Path) -> None:
    size = len(HEADER) + 3 * len(row(1))
    scene = Scene(tmp_path / "size", Limits(size=size))
    for seq in range(1, 9, 2):
        scene.round(row(seq), row(seq + 1))
    scene.files.close()
    assert all(path.stat().st_size <= size for path in (tmp_path / "size").rglob("boot=*"))
    assert len(numbers(tmp_path / "size")) == 8
    old = Scene(tmp_path / "age", Limits(age_ms=1000))
    old.round(row(1))
    old.round(row(2, NOON + 999))
    old.round(row(3, NOON + 1000))
    old.files.close()
    assert [path.name for path in sorted((tmp_path / "age").rglob("boot=*"))] == [
        "boot=1-000001.jsonl",
        "boot=1-000002.jsonl",
    ]


def test_a_disk_that_fails_in_rows_at_once_takes_whole_rows(tmp_path: Path) -> None:
    """What it took counts, and the rest is named as missing."""
    scene = Scene(tmp_path)
    scene.round(row(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def full(when_ms: int) -> None:
        raise OSError("no file more")

    opened, scene.files._open = scene.files._open, full  # type: ignore[method-assign]
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(HEADER) + len(row(1)) * 3 + 7, hard))
    try:
        scene.round(*map(row, range(2, 8)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert scene.drain.failing and (scene.drain.written, scene.drain.lost) == (3, 4)
    scene.files._open = opened  # type: ignore[method-assign]
    scene.round(row(8))
    scene.files.close()
    found = sorted(read_log(tmp_path)[0], key=lambda each: each["seq"])
    assert [each["seq"] for each in found] == [1, 2, 3, 7, 8]
    assert (found[3]["type"], found[3]["first"], found[3]["last"]) == ("log.gap", 4, 7)
