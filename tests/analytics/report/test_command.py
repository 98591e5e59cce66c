"""`strogoff analytics report`: its errors, its exit status, and one page of a log from files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strogoff.analytics.report.command import status
from strogoff.analytics.report.report_data import NotRead
from strogoff.cli import main
from strogoff.judge.findings import Verdict
from strogoff.judge.planted.generate import PlantedLog
from strogoff.testing.log_audit.log_files import write_log

from .reports import Parsed, audit_of, report_of, run_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_planted(directory: Path, *cases: str, run: str = "planted", messages: int = 400) -> PlantedLog:
    log = PlantedLog(5, messages, cases)
    write_log([{**row, "run_id": run} for row in log.rows()], directory)
    return log


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], 0),
        (["valid", "valid"], 0),
        (["valid", "unknown"], 4),
        (["unknown", "invalid", "valid"], 3),
    ],
)
def test_the_worst_run_decides(verdicts: list[Verdict], expected: int) -> None:
    runs = [replace(run_of(), audit=audit_of(verdict=each)) for each in verdicts]
    assert status(report_of(*runs)) == expected
    assert status(report_of(other_runs=tuple((each, 1) for each in verdicts))) == expected


def test_a_log_that_was_not_understood_proves_nothing() -> None:
    assert status(report_of(run_of(), not_read=(NotRead("torn", "f"),))) == 0
    assert status(report_of(run_of(), not_read=(NotRead("not_json", "f"),))) == 4
    invalid = replace(run_of(), audit=audit_of(verdict="invalid"))
    assert status(report_of(invalid, not_read=(NotRead("not_json", "f"),))) == 4


def test_errors_are_found_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.mkdir()
    report = ["analytics", "report"]
    out = str(tmp_path / "page.html")
    for words, said in (
        ([*report, "hdfs://log", "--out", out], "hdfs://log: report needs a directory that this machine has"),
        ([*report, str(tmp_path / "none"), "--out", out], "no such directory"),
        ([*report, str(log), "--out", out], "no event log in it"),
    ):
        assert main(words) == 1
        assert said in capsys.readouterr().err
    (log / "boot=1-000001.jsonl").touch()
    for words, said in (
        (["--out", str(log)], f"--out {log} is a directory; give a file"),
        (["--out", out, "--json", str(tmp_path)], f"--json {tmp_path} is a directory; give a file"),
        (["--out", str(tmp_path / "a" / "b.html")], f"there is no directory {tmp_path / 'a'}; create it first"),
    ):
        assert main([*report, str(log), *words]) == 1
        assert said in capsys.readouterr().err
    assert main([*report, str(log)]) == 2


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(600)
def test_a_log_becomes_a_page(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs in one directory, one of them wrong, and lines that are no events."""
    cases = ("overtaken", "two-owners", "dropped-with-a-reason")
    wrong = write_planted(tmp_path / "log" / "a", *cases, run="wrong")
    write_planted(tmp_path / "log" / "b", run="right")
    page, plain = tmp_path / "page.html", tmp_path / "page.json"
    words = ["analytics", "report", str(tmp_path / "log"), "--out", str(page), "--title", "Tuesday & Wednesday"]
    assert main([*words, "--json", str(plain)]) == 3
    said = capsys.readouterr().out
    assert said.index("run wrong: invalid. The cluster broke its promises (A1 lost-acked: 1).") < said.index(
        "run right:"
    )
    parsed = Parsed(page.read_text(encoding="utf-8"))
    assert parsed.texts["title"][0] == parsed.texts["h1"][0] == "Tuesday & Wednesday"
    assert parsed.texts["strong"] == ["✕ invalid", "✓ valid"]
    for each in wrong.expected:
        assert f"run-1-{each.id}" in parsed.ids
    told = json.loads(plain.read_text(encoding="utf-8"))
    first, second = told["runs"]
    assert (first["audit"]["run_id"], second["audit"]["run_id"]) == ("wrong", "right")
    assert {each["finding"]["id"] for each in first["findings"]} == {each.id for each in wrong.expected}
    assert all(len(each["rows"]) == min(len(each["finding"]["rows"]), 8) for each in first["findings"])
    points = second["timeline"]["points"]
    assert sum(each["published"] for each in points) == second["audit"]["published"] > 200
    assert sum(each["acked"] for each in points) == second["audit"]["acked"] > 100
    assert {each["node"] for each in points} == {f"n{number}@192.0.2.{number}" for number in (1, 2, 3)}
    assert {each["ending"] for each in second["timeline"]["lives"]} == {"killed", "stopped"}
    assert [each["state"] for each in second["timeline"]["splits"]] == ["minority", "majority", "majority"]
    assert len(second["timeline"]["minorities"]) == 1
    assert {(each["type"], each["reason"]) for each in first["counts"]} == {
        ("q.drop", "queue_full"),
        ("q.expire", "expired"),
    }

    broken = next((tmp_path / "log" / "b").rglob("*.jsonl"))
    broken.write_bytes(broken.read_bytes() + b"no json\n")
    (tmp_path / "log" / "b" / "stranger.txt").write_text("x")
    assert main(["analytics", "report", str(tmp_path / "log" / "b"), "--out", str(page)]) == 4
    said = capsys.readouterr().out
    assert "not_json" in said and "stranger.txt\nso the verdicts are not known for certain\nwritten to" in said
    parsed = Parsed(page.read_text(encoding="utf-8"))
    assert "A part of the log was not understood" in parsed.texts["header"][0]
    assert "no json" in parsed.texts["code"] and "stranger.txt" in parsed.texts["code"]
