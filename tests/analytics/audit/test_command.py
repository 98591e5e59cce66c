"""`strogoff analytics audit`: its output, its exit status, and its errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strogoff.analytics.audit.command import INVALID, UNKNOWN, VALID, status, text
from strogoff.analytics.audit.run_audit import Kind, RunAudit
from strogoff.analytics.manifest import load
from strogoff.cli import main
from strogoff.judge.findings import Finding, Subject
from strogoff.judge.planted.generate import PlantedLog
from strogoff.testing.log_audit.log_files import write_log

from ..test_commands import spark_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("verdicts", "gaps", "expected"),
    [
        (["valid", "valid"], [], VALID),
        (["valid", "unknown"], [], UNKNOWN),
        (["unknown", "invalid", "valid"], [], INVALID),
        (["valid"], ["a damaged file"], UNKNOWN),
        (["invalid"], ["a damaged file"], UNKNOWN),
    ],
)
def test_the_worst_run_decides(verdicts: list[str], gaps: list[str], expected: int) -> None:
    """A run that was judged without a part of its log is not known to be wrong."""
    assert status(verdicts, gaps) == expected


def test_text_for_people() -> None:
    """No control character of a client id comes through, and nothing is left out in silence."""
    rows = (("n1", 1, 2),)
    lost = Finding("A1", "queue", "fatal", Subject("n1", client="c"), 1500 << 16, "queue: for \x1bc", rows, sure=False)
    kinds = (Kind("A1", "queue", "fatal", 3, 1),)
    run = RunAudit("r", ("n1",), 20, 1000, 2000, 1900, "invalid", 9, 8, 7, 6, 5, kinds, (lost,))
    assert text([replace(run, published=0, dropped=4)], []).splitlines()[4:6] == [
        "  dropped 4 for reasons in the log: `strogoff analytics view drops` counts them",
        "  the log has no messages",
    ]
    session = replace(run, published=0, levels=("message", "session"))
    assert text([session], []).splitlines()[4] == "  the log has no messages (eventlog.level = message, session)"
    assert text([run], ["a damaged file"]).splitlines() == [
        "run r: invalid",
        "  20 events of 1 node, from 1970-01-01T00:00:01.000Z to 1970-01-01T00:00:02.000Z",
        "  published 9, acknowledged 8, delivered 7",
        "  waiting 6, open 5; judged as lost up to 1970-01-01T00:00:01.900Z",
        "",
        "anomaly  kind   severity  number  unsure",
        "A1       queue  fatal          3       1",
        "",
        "id                time                      anomaly  text",
        f"{lost.id}  1970-01-01T00:00:01.500Z  A1       queue: for ?c (unsure: rows that decide may be lost)",
        "2 more findings: --limit prints more, --out writes all",
        "",
        "a damaged file",
        "so the verdicts are not known for certain",
    ]


def test_no_finding_is_sure_while_rows_are_missing() -> None:
    """The missing rows may explain it. That they are missing is sure."""
    hole = Finding("A0", "gap", "fatal", Subject("n1"), 1000 << 16, "rows 2 to 3 are missing")
    lost = Finding("A1", "queue", "fatal", Subject("n1", client="c"), 1500 << 16, "queue: for c")
    kinds = (Kind("A0", "gap", "fatal", 1, 0), Kind("A1", "queue", "fatal", 3, 1))
    run = RunAudit("r", ("n1",), 20, 1000, 2000, 1900, "unknown", 9, 8, 7, 6, 5, kinds, (hole, lost))
    lines = [line.split(maxsplit=3) for line in text([run], []).splitlines()]
    assert [line[3] for line in lines[6:8]] == ["1       0", "3       3"]
    assert lines[10][3] == "rows 2 to 3 are missing"
    assert lines[11][3] == "queue: for c (unsure: rows that decide may be lost)"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["nowhere"], "nowhere: no such directory"),
        (["file"], "file is a file; give the directory"),
        (["empty"], "no event log in it"),
        (["hdfs://a/b"], "audit needs a directory that this machine has, not a URL"),
        (["log", "--out", "file"], "--out file is a file; give a directory"),
        (["empty", "--limit", "-1"], "--limit -1: give a number of 0 or more"),
    ],
)
def test_wrong_arguments(
    more: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    for name in ("empty", "log"):
        Path(name).mkdir()
    Path("log/boot=1-000001.jsonl").touch()
    assert main(["analytics", "audit", *more]) == 1
    assert said in capsys.readouterr().err
    assert main(["analytics", "audit"]) == 2


@spark_tests
@pytest.mark.timeout(600)
def test_from_a_log_to_the_rows_that_prove_a_finding(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = PlantedLog(5, 60, ["overtaken", "reordered", "dropped-with-a-reason"])
    rows = [dict(row) for row in planted.rows()]
    log, out = write_log(rows, tmp_path / "log", 100_000), tmp_path / "out"
    assert main(["analytics", "audit", str(log), "--out", str(out), "--format", "json", "--limit", "0"]) == INVALID
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["findings"], run["omitted"], run["verdict"]) == ([], len(planted.expected), "invalid")
    assert run["dropped"] == sum(row["type"] in ("q.drop", "q.expire", "fwd.drop") for row in rows) > 0

    table = spark.read.parquet(str(out / "findings"))
    assert {row["id"] for row in table.collect()} == {each.id for each in planted.expected}
    (written,) = (out / "findings").iterdir()
    assert load(out).files("events") and not any((out / "_scratch").iterdir())

    lost = next(each for each in planted.expected if each.anomaly == "A1")
    more = ["--out", str(out), "--explain", lost.id, "--run", "planted"]
    assert main(["analytics", "audit", str(out), *more]) == INVALID
    explained = capsys.readouterr().out.splitlines()
    assert explained[0] == f"run planted: A1 {lost.kind}, fatal" and [*(out / "findings").iterdir()] == [written]
    proof = [line.split() for line in explained[2::2]]
    by_id = {(row["node"], row["boot"], row["seq"]): row for row in rows}
    named = [by_id[words[1], int(words[3]), int(words[5].rstrip(":"))] for words in proof]
    assert [row["hlc"] for row in named] == sorted(row["hlc"] for row in named)
    assert {row["type"] for row in named} >= {"pub.recv", "pub.ack", "dlv.send"}
    for place, row in zip(explained[3::2], named, strict=True):
        file, line = place.strip().split(", line ")
        assert f",{row['seq']}," in (log / file).read_text().splitlines()[int(line) - 1]


@spark_tests
@pytest.mark.timeout(600)
@pytest.mark.by_hand
def test_a_part_of_the_log_that_is_not_understood_makes_all_unknown(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when the tables are there already. What is not in them is told."""
    log, out = write_log(map(dict, PlantedLog(5, 20).rows()), tmp_path / "log"), tmp_path / "out"
    with next(iter(sorted(log.rglob("*.jsonl")))).open("a") as file:
        file.write("no row\n")
    assert main(["analytics", "audit", str(log), "--out", str(out)]) == UNKNOWN
    said = capsys.readouterr().out
    assert "1 lines are no events: not_json" in said and "not known for certain" in said
    (log / "stranger").touch()
    assert main(["analytics", "ingest", str(log), "--out", str(out)]) == UNKNOWN
    assert main(["analytics", "audit", str(out)]) == UNKNOWN
    assert "not that of an event log: stranger\nso the verdicts are not known" in capsys.readouterr().out
    assert main(["analytics", "audit", str(out), "--explain", "0000"]) == 1
    assert "no finding has the id 0000" in capsys.readouterr().err
    assert main(["analytics", "audit", str(out), "--run", "other"]) == 1
    assert "no events of run other" in capsys.readouterr().err
