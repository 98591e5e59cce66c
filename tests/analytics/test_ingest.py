"""The job `ingest` against plain Python that reads the same files."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strogoff.analytics import schema
from strogoff.analytics.event_lines import Reject, header_line
from strogoff.analytics.log_content import measure, open_content, rows_from
from strogoff.analytics.log_sources import find
from strogoff.analytics.schema import SESSION
from strogoff.cli import main

from .logs import LoggedNode, cluster
from .test_summary import damage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strogoff.analytics.ingest_report import Report

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

Tables = tuple[list[Any], list[Any]]


def expected(log: Path) -> Tables:
    """The tables of a log, by plain Python."""
    from strogoff.analytics.decoding import BEGIN_OF_LINE, mid_key

    rows: dict[Any, Any] = {}
    rejects = []
    for source in find(log).sources:
        with open_content(log, source.file) as content:
            end = measure(content, source.complete).size
        with open_content(log, source.file) as content:
            for place, row in rows_from(content, 0, end):
                if isinstance(row, Reject):
                    text = place.line[:BEGIN_OF_LINE].decode(errors="replace")
                    rejects.append((source.file, place.number, place.offset, row.reason, text))
                    continue
                if "mid" in row:
                    row["mid"] = mid_key(row["mid"])
                key = tuple(row.get(name) for name in ("run_id", "node", "boot", "seq", "hlc", "mid"))
                fields = [row.get(name) for name in schema.COLUMNS]
                rows.setdefault(key, [*fields, source.file, place.number, place.offset])
    return sorted(map(plain, rows.values())), sorted(rejects)


def plain(row: Iterable[Any]) -> str:
    """A row as text, whatever the order of its maps."""
    return repr([sorted(each.items()) if isinstance(each, dict) else each for each in row])


def tables(spark: SparkSession, out: Path) -> Tables:
    """The tables of a directory; also that it has no other files."""
    from strogoff.analytics.manifest import TABLES, load
    from strogoff.analytics.silver import events_type, read_events, read_rejects

    manifest = load(out)
    there = {str(path.relative_to(out)) for table in TABLES for path in (out / table).rglob("*") if path.is_file()}
    assert there == {name for names in manifest.tables.values() for name in names}
    assert not (out / "_scratch").exists()
    events = read_events(spark, out, manifest).select(*events_type().fieldNames()).collect()
    rejects = read_rejects(spark, out, manifest).select("file", "line", "offset", "reason", "text").collect()
    return sorted(map(plain, events)), sorted(tuple(row) for row in rejects)


def check(spark: SparkSession, log: Path, out: Path) -> None:
    """Check that the tables have what plain Python reads."""
    found, wanted = tables(spark, out), expected(log)
    for ours, theirs in zip(found, wanted, strict=True):
        assert [*(Counter(ours) - Counter(theirs))][:3] == [*(Counter(theirs) - Counter(ours))][:3] == []


def ingested(spark: SparkSession, log: Path, out: Path, batch_bytes: int = 1 << 30) -> Report:
    from strogoff.analytics.ingest import ingest

    return ingest(spark, log, out, batch_bytes)


def parquet_of(out: Path) -> list[str]:
    return sorted(str(path.relative_to(out)) for path in (out / "events").rglob("*.parquet"))


def logged(directory: Path, seed: int = 3, minutes: int = 100) -> Path:
    """A log of one node, over some hours, with many files."""
    node = LoggedNode("n1", random.Random(seed))
    node.live(minutes, SESSION, crash=False)
    node.write(directory, size=2000)
    return directory


def test_tables_have_what_plain_python_reads(spark: SparkSession, tmp_path: Path) -> None:
    """Lines and files lost, doubled, cut, renumbered; files open and copied; in batches of any size."""
    log = tmp_path / "log"
    for seed in range(20, 23):
        for node in cluster(seed, minutes=40):
            node.write(log, size=3000)
    damage(log, random.Random(20))
    report = ingested(spark, log, tmp_path / "out")
    check(spark, log, tmp_path / "out")
    assert report.new == len(find(log).sources)
    assert not report.understood
    assert len(report.rejects) > 3
    assert report.repeated > 0
    ingested(spark, log, tmp_path / "small", batch_bytes=20_000)
    check(spark, log, tmp_path / "small")


def test_a_second_run_reads_nothing(spark: SparkSession, tmp_path: Path) -> None:
    log = logged(tmp_path / "log")
    first = ingested(spark, log, tmp_path / "out")
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    second = ingested(spark, log, tmp_path / "out")
    assert (first.new, second.new, second.unchanged, second.rows) == (first.new, 0, first.new, 0)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()} == {
        path: time for path, time in files.items() if path.is_file()
    }
    assert first.understood


def test_a_file_is_followed_through_all_its_names(spark: SparkSession, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    logged(log, minutes=30)
    path = sorted(log.rglob("*.jsonl"))[-1]
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    opened = path.rename(f"{path}.open")
    opened.write_bytes(b"".join(lines[:3]) + lines[3][:20])
    ingested(spark, log, out)
    whole, _ = tables(spark, out)
    opened.write_bytes(b"".join(lines[:5]))
    report = ingested(spark, log, out)
    assert (report.continued, report.rows) == (1, 2)
    assert len(tables(spark, out)[0]) == len(whole) + 2
    opened.rename(path)
    path.write_bytes(content)
    assert ingested(spark, log, out).rows == len(lines) - 5
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(content))
    path.unlink()
    report = ingested(spark, log, out)
    assert (report.continued, report.rows, report.repeated) == (1, 0, 0)
    check(spark, log, out)


def test_late_and_repeated_files_change_only_their_hours(spark: SparkSession, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    logged(log, minutes=150)
    paths = sorted(log.rglob("*.jsonl"))
    hours = {path.parts[-3] for path in paths}
    assert len(hours) > 2
    late = tmp_path / "late.jsonl"
    paths[1].rename(late)
    ingested(spark, log, out)
    before = parquet_of(out)
    shutil.copy(late, paths[1])
    shutil.copy(paths[2], paths[2].with_name("boot=1-900000.jsonl"))
    report = ingested(spark, log, out)
    assert (report.new, report.repeated) == (2, len(paths[2].read_bytes().splitlines()) - 1)
    check(spark, log, out)
    after = parquet_of(out)
    assert len(after) == len(hours)
    assert len({*before} & {*after}) == len(hours) - 1


def test_what_is_not_understood_is_said(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    logged(log, minutes=30)
    paths = sorted(log.rglob("*.jsonl"))
    assert main(["analytics", "ingest", str(log), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert f"{len(paths)} files new, 0 continued, 0 unchanged" in said.out
    (log / "boot=1-000001.jsonl.zst").write_bytes(b"z")
    paths[0].write_bytes(paths[0].read_bytes().replace(b"node.start", b"node.begin"))
    (log / "boot=1-900001.jsonl.gz").write_bytes(gzip.compress(os.urandom(999).hex().encode())[:500])
    (log / "boot=1-900002.jsonl").write_bytes(b'{"strogoff_eventlog":99}\n["x",1,2,3]\n')
    (log / "boot=1-900003.jsonl").write_bytes(b'["x",1')
    for _ in range(2):
        assert main(["analytics", "ingest", str(log), "--out", str(out), "--format", "json"]) == 4
        report = json.loads(capsys.readouterr().out)
        assert report["strangers"] == ["boot=1-000001.jsonl.zst"]
        assert report["changed"] == [str(paths[0].relative_to(log))]
        assert report["damaged"] == ["boot=1-900001.jsonl"]
        assert report["rejects"] == {"newer_version": 1, "no_header": 1, "torn": 1}
        assert report["understood"] is False
    for number in range(20):
        (log / f"notes-{number:02d}.txt").write_text("mine")
    assert main(["analytics", "ingest", str(log), "--out", str(out)]) == 4
    text = capsys.readouterr().out
    for words in (
        "1 lines are no events: torn",
        "not that of an event log: boot=1-000001.jsonl.zst",
        "not that of an event log: notes-08.txt",
        "not that of an event log: 11 more",
        "is damaged: boot",
    ):
        assert words in text
    assert "notes-09" not in text


def test_a_torn_line_is_counted_and_is_no_failure(spark: SparkSession, tmp_path: Path) -> None:
    log = logged(tmp_path / "log", minutes=3)
    path = sorted(log.rglob("*.jsonl"))[-1]
    path.write_bytes(path.read_bytes()[:-5])
    report = ingested(spark, log, tmp_path / "out")
    assert report.understood
    assert report.rejects == {"torn": 1}


def test_files_without_rows_are_read_too(spark: SparkSession, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    log.mkdir()
    (log / "boot=1-000001.jsonl.open").write_bytes(header_line("r", "n1", 1))
    (log / "boot=1-000002.jsonl").write_bytes(b"")
    assert ingested(spark, log, out).new == 2
    assert tables(spark, out) == ([], [])
    assert ingested(spark, log, out).unchanged == 2


def test_tables_within_the_log_are_refused(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged(tmp_path / "log", minutes=3)
    assert main(["analytics", "ingest", str(tmp_path / "log"), "--out", str(tmp_path / "log" / "out")]) == 1
    assert "is in the directory of the log" in capsys.readouterr().err
