"""The job `ingest` against plain Python that reads the same files; and the job killed at random moments."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strogoff.analytics import schema
from strogoff.analytics.event_lines import Reject
from strogoff.analytics.log_content import measure, open_content, rows_from
from strogoff.analytics.log_sources import find
from strogoff.analytics.schema import SESSION
from strogoff.cli import main

from .logs import LoggedNode, cluster
from .test_summary import damage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strogoff.analytics.ingest import Report

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
    (log / "boot=1-900001.jsonl.gz").write_bytes(gzip.compress(os.urandom(999))[:500])
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
    assert main(["analytics", "ingest", str(log), "--out", str(out)]) == 4
    text = capsys.readouterr().out
    for words in (
        "1 lines are no events: torn",
        "not that of an event log: boot=1-000001.jsonl.zst",
        "is damaged: boot",
    ):
        assert words in text


def test_a_torn_line_is_counted_and_is_no_failure(spark: SparkSession, tmp_path: Path) -> None:
    log = logged(tmp_path / "log", minutes=3)
    path = sorted(log.rglob("*.jsonl"))[-1]
    path.write_bytes(path.read_bytes()[:-5])
    report = ingested(spark, log, tmp_path / "out")
    assert report.understood
    assert report.rejects == {"torn": 1}


def test_tables_within_the_log_are_refused(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged(tmp_path / "log", minutes=3)
    assert main(["analytics", "ingest", str(tmp_path / "log"), "--out", str(tmp_path / "log" / "out")]) == 1
    assert "is in the directory of the log" in capsys.readouterr().err


RUN = """
import sys
from collections import Counter
from pathlib import Path
from strogoff.analytics.ingest import ingest
from strogoff.analytics.spark import open_session
spark = open_session("local[2]", "512m", {"spark.sql.shuffle.partitions": "2"}, "-XX:TieredStopAtLevel=1")
print("ready", flush=True)
ingest(spark, Path(sys.argv[1]), Path(sys.argv[2]), batch_bytes=8_000)
print("done", flush=True)
"""

KILLS = 10
LONGEST_S = 8
FILES_A_RUN = 2


@pytest.mark.timeout(1800)
def test_ten_kills_leave_the_tables_of_one_run(spark: SparkSession, tmp_path: Path) -> None:
    """Files come and grow between the kills. Half of the kills spare Java, which goes on for a moment."""
    rng = random.Random(14)
    log, out, whole = tmp_path / "log", tmp_path / "out", tmp_path / "whole"
    for node in cluster(30, minutes=60):
        node.write(whole, size=1500)
    paths = sorted(whole.rglob("*.jsonl"))
    rng.shuffle(paths)
    kills = 0
    while kills < KILLS:  # some runs have done their work before
        for opened in [*log.rglob("*.open")]:
            _complete(opened, whole / opened.relative_to(log).with_suffix(""))
        assert len(paths) >= FILES_A_RUN
        for path in [paths.pop() for _ in range(FILES_A_RUN)]:
            _come(path, log / path.relative_to(whole), rng)
        kills += _killed(log, out, rng.uniform(0, LONGEST_S), java_too=rng.random() < 0.5)
    assert not _killed(log, out, 600, java_too=True)
    check(spark, log, out)
    ingested(spark, log, tmp_path / "one")
    assert tables(spark, tmp_path / "one") == tables(spark, out)
    assert len(parquet_of(out)) == len(parquet_of(tmp_path / "one"))


def _come(path: Path, target: Path, rng: random.Random) -> None:
    """A file of the log is there, under any of its names."""
    target.parent.mkdir(parents=True, exist_ok=True)
    content = path.read_bytes()
    match rng.randrange(3):
        case 0:
            target.with_name(f"{target.name}.gz").write_bytes(gzip.compress(content))
        case 1:
            target.with_name(f"{target.name}.open").write_bytes(content[: rng.randrange(len(content))])
        case _:
            target.write_bytes(content)


def _complete(opened: Path, whole: Path) -> None:
    """The broker writes the rest of a file, and completes it."""
    opened.write_bytes(whole.read_bytes())
    opened.rename(opened.with_suffix(""))


def _killed(log: Path, out: Path, after_s: float, java_too: bool) -> bool:
    """Run an ingest, and kill it after this time. Returns whether it had not ended before."""
    command = [sys.executable, "-c", RUN, str(log), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            if java_too:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            return True
        assert process.returncode == 0
        return False
