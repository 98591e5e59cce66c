"""Rows of the files of all nodes, merged, and those that come later."""

from __future__ import annotations

import gzip
import random
import shutil
from pathlib import Path
from typing import Any

from strogoff.analytics.event_lines import header_line, row_line
from strogoff.analytics.follow.log_tail import LogTail
from strogoff.analytics.schema import MESSAGE, VERSION
from strogoff.testing.log_audit.log_files import write_log

from ..logs import START_MS, LoggedNode

Row = dict[str, Any]


def everything(_: bytes) -> bool:
    """All lines."""
    return True


def written(directory: Path, seeds: int = 3, size: int = 4000) -> list[Row]:
    """Writes the logs of nodes in several hours, boots and files. Returns the rows in order."""
    rows: list[Row] = []
    for number in range(seeds):
        node = LoggedNode(f"n{number}", random.Random(number))
        for _ in range(2):
            node.live(70, MESSAGE, crash=False)
        node.write(directory, size)
        rows += [dict(row) for row in node.rows]
    return sorted(rows, key=lambda row: row["hlc"])


def numbers(rows: list[Row]) -> list[tuple[str, int, int]]:
    """Returns node, boot and seq of each row."""
    return [(row["node"], row["boot"], row["seq"]) for row in rows]


def test_the_rows_of_all_files_in_order(tmp_path: Path) -> None:
    rows = written(tmp_path)
    assert len([*tmp_path.rglob("*.jsonl")]) > 12
    for path in [*tmp_path.rglob("*.jsonl")][::2]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    found = [*LogTail(tmp_path).rows(everything)]
    assert [row["hlc"] for row in found] == [row["hlc"] for row in rows]
    assert sorted(numbers(found)) == sorted(numbers(rows))


def test_the_filter_is_asked_in_the_order_of_the_rows(tmp_path: Path) -> None:
    """So it may depend on rows that were taken before."""
    written(tmp_path)
    asked: list[bytes] = []
    rows = [*LogTail(tmp_path).rows(lambda line: asked.append(line) or True)]  # type: ignore[func-returns-value]
    assert [int(line.split(b",")[2]) for line in asked] == [row["hlc"] for row in rows]


def test_only_the_wanted_lines_are_rows(tmp_path: Path) -> None:
    rows = written(tmp_path)
    found = [*LogTail(tmp_path).rows(lambda line: b'"conn.open"' in line)]
    assert len(found) == len([row for row in rows if row["type"] == "conn.open"]) > 0


def test_files_of_other_hours_are_not_opened(tmp_path: Path) -> None:
    rows = written(tmp_path)
    since, until = START_MS + 5_400_000, START_MS + 9_000_000
    tail = LogTail(tmp_path, since, until)
    found = [*tail.rows(everything)]
    assert numbers(found) == numbers([row for row in rows if since <= row["hlc"] >> 16 <= until])
    assert found
    early = [path for path in tmp_path.rglob("*.jsonl") if "hour=11" in str(path)]
    assert tail.skipped >= len(early) > 0
    for path in early:
        path.write_bytes(b"not even a line of a log")
    assert numbers([*LogTail(tmp_path, since, until).rows(everything)]) == numbers(found)


def test_a_part_of_the_directory_has_its_hour_in_its_own_name(tmp_path: Path) -> None:
    written(tmp_path)
    (day,) = tmp_path.glob("date=*")
    tail = LogTail(day, since_ms=START_MS + 48 * 3_600_000)
    assert [*tail.rows(everything)] == []
    assert tail.skipped == len([*day.rglob("*.jsonl")])


def test_a_copied_file_counts_once(tmp_path: Path) -> None:
    rows = written(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    assert len([*LogTail(tmp_path).rows(everything)]) == len(rows)


def test_later_rows_come_once_while_the_file_grows_and_gets_other_names(tmp_path: Path) -> None:
    written(tmp_path, seeds=1, size=1_000_000)
    path = max(tmp_path.rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    for other in set(tmp_path.rglob("*.jsonl")) - {path}:
        other.unlink()
    lines = path.read_bytes().splitlines(keepends=True)
    opened = path.rename(path.with_name(f"{path.name}.open"))
    opened.write_bytes(b"".join(lines[:5]) + lines[5][:10])
    tail = LogTail(tmp_path)
    assert len([*tail.rows(everything)]) == 4  # behind the header; the cut line is not there yet
    assert [*tail.rows(everything)] == []
    opened.write_bytes(b"".join(lines[:8]))
    assert len([*tail.rows(everything)]) == 3
    whole = b"".join(lines)
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(whole))
    opened.unlink()
    assert len([*tail.rows(everything)]) == len(lines) - 8
    assert [*tail.rows(everything)] == []
    assert not tail.rejects


def test_a_file_may_be_deleted_meanwhile(tmp_path: Path) -> None:
    written(tmp_path, seeds=2)
    rows = LogTail(tmp_path).rows(everything)
    next(rows)
    shutil.rmtree(tmp_path)
    assert len([*rows]) >= 1  # what was open


def test_wrong_lines_and_damaged_files_are_counted(tmp_path: Path) -> None:
    rows = written(tmp_path, seeds=1, size=1_000_000)
    first, second, *_ = sorted(tmp_path.rglob("*.jsonl"))
    first.write_bytes(first.read_bytes() + b"no row\n[1,2\n")
    second.with_name(f"{second.name}.gz").write_bytes(gzip.compress(second.read_bytes())[:-30])
    second.unlink()
    tail = LogTail(tmp_path)
    found = [*tail.rows(everything)]
    assert tail.rejects == {str(first.relative_to(tmp_path)): 2}
    assert [Path(file).name for file in tail.damaged] == [second.name]
    assert len(found) < len(rows)


def test_a_file_with_a_damaged_header_is_counted_line_by_line(tmp_path: Path) -> None:
    """Nobody can tell what the values of its arrays mean."""
    rows = written(tmp_path, seeds=1, size=1_000_000)
    first, *_ = sorted(tmp_path.rglob("*.jsonl"))
    lines = first.read_bytes().splitlines(keepends=True)
    first.write_bytes(b"".join([lines[0].replace(b'"run_id"', b'"ran_id"'), *lines[1:]]))
    tail = LogTail(tmp_path)
    assert len([*tail.rows(everything)]) == len(rows) - len(lines) + 1
    assert tail.rejects == {str(first.relative_to(tmp_path)): len(lines)}
    unwanted = LogTail(tmp_path)
    assert [*unwanted.rows(lambda _: False)] == [] and unwanted.rejects == tail.rejects


def test_a_wanted_line_that_is_no_row_is_counted(tmp_path: Path) -> None:
    """It looks like one until it is decoded."""
    written(tmp_path, seeds=1, size=1_000_000)
    first, *_ = sorted(tmp_path.rglob("*.jsonl"))
    first.write_bytes(first.read_bytes() + b'["no.type",900000,%d,1]\n' % (START_MS << 16))
    tail = LogTail(tmp_path)
    assert [*tail.rows(lambda line: b"no.type" in line)] == []
    assert tail.rejects == {str(first.relative_to(tmp_path)): 1}


def test_files_with_other_names_are_strangers(tmp_path: Path) -> None:
    written(tmp_path, seeds=1)
    hour = next(tmp_path.glob("date=*/hour=*"))
    names = sorted(["notes.txt", str((hour / "boot=1.json").relative_to(tmp_path))])
    for name in names:
        (tmp_path / name).touch()
    tail = LogTail(tmp_path)
    assert [*tail.rows(everything)] and sorted(tail.strangers) == names
    late = LogTail(tmp_path, since_ms=START_MS + 48 * 3_600_000)
    assert [*late.rows(everything)] == [] and late.strangers == ["notes.txt"]


def test_a_node_with_an_empty_disk_begins_with_boot_1_again(tmp_path: Path) -> None:
    """In the directory of its former life, whose last boot was 2."""
    directory = tmp_path / "date=2026-03-01/hour=11/node=n1"
    directory.mkdir(parents=True)
    for at, (boot, part) in enumerate([(1, 3), (2, 1), (1, 4)]):
        rows = [row_line("node.stop", seq, (START_MS + 10 * at + seq) << 16, 1, {}) for seq in (1, 2)]
        path = directory / f"boot={boot}-{part:06d}.jsonl"
        path.write_bytes(header_line(f"r{at}", "n1", boot) + b"".join(rows))
    (directory / "boot=1-000005.jsonl.open").touch()
    found = [*LogTail(tmp_path).rows(everything)]
    assert [row["run_id"] for row in found] == ["r0", "r0", "r1", "r1", "r2", "r2"]


def test_rows_of_versions_without_a_header_line(tmp_path: Path) -> None:
    """They are objects."""
    path = write_log([], tmp_path) / "date=2026-03-01/hour=11/node=n1/boot=1-000001.jsonl"
    path.parent.mkdir(parents=True)
    row = {"v": VERSION - 1, "run_id": "r", "node": "n1", "boot": 1, "seq": 1, "hlc": START_MS << 16, "mono_ns": 1}
    path.write_text(str(row | {"type": "node.stop"}).replace("'", '"') + "\n")
    assert numbers([*LogTail(tmp_path).rows(everything)]) == [("n1", 1, 1)]
