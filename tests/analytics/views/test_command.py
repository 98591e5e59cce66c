"""`strogoff analytics view`: its output, its limits and its errors."""

from __future__ import annotations

import argparse
import csv
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strogoff.analytics.schema import SESSION
from strogoff.analytics.views.command import time_ms
from strogoff.analytics.views.registry import NAMES
from strogoff.cli import main

from ..logs import START_MS, LoggedNode
from ..test_commands import spark_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nodes that drop messages for some reasons, in two hours."""
    directory = tmp_path_factory.mktemp("log")
    for number in (1, 2):
        node = LoggedNode(f"n{number}", random.Random(number))
        node.live(70, SESSION, crash=False)
        node.write(directory)
    return directory


@pytest.fixture(scope="module")
def tables(spark: SparkSession, log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tables") / "out"
    assert main(["analytics", "ingest", str(log), "--out", str(out)]) == 0
    return out


@spark_tests
def test_text_json_and_csv(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()

    def said(*argv: str) -> tuple[str, str]:
        assert main(["analytics", "view", "drops", str(tables), *argv]) == 0
        both = capsys.readouterr()
        return both.out, both.err

    found = json.loads(said("--format", "json")[0])
    assert (found["view"], found["omitted"]) == ("drops", 0)
    rows = found["rows"]
    assert len(rows) > 6 and sum(row["rows"] for row in rows) > 10
    assert rows[0]["hour"] == "2026-03-01T11:00Z"
    assert {row["difference"] for row in rows} == {0, None}
    text, none = said("--limit", "2")
    lines = text.splitlines()
    assert lines[0].split()[:3] == ["node", "hour", "reason"] and len(lines) == 4 and none == ""
    assert lines[1].split()[:2] == [rows[0]["node"], rows[0]["hour"]]
    assert lines[3] == f"{len(rows) - 2} more rows; print them with a larger --limit"
    table, warned = said("--limit", "3", "--format", "csv")
    assert [row["reason"] for row in csv.DictReader(table.splitlines())] == [row["reason"] for row in rows[:3]]
    assert warned == f"{len(rows) - 3} more rows; print them with a larger --limit\n"


@spark_tests
def test_only_a_part_of_the_time(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The begin belongs to it, the end does not."""
    capsys.readouterr()

    def hours(*argv: str) -> dict[str, int]:
        assert main(["analytics", "view", "drops", str(tables), "--format", "json", *argv]) == 0
        found: dict[str, int] = {}
        for row in json.loads(capsys.readouterr().out)["rows"]:
            found[row["hour"]] = found.get(row["hour"], 0) + row["rows"]
        return found

    everything = hours()
    first, second, *_ = sorted(everything)
    assert hours("--since", second) == {hour: rows for hour, rows in everything.items() if hour >= second}
    assert hours("--until", second) == {first: everything[first]}
    assert hours("--since", second, "--until", second) == {}
    assert hours("--until", "2026-02-28") == hours("--since", "2026-03-02T00:00+00:00") == {}


@spark_tests
def test_a_log_is_ingested_first(
    spark: SparkSession, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What of it is not understood is said aloud, also of tables that are there already. Nothing stays behind."""
    stranger = log / "date=2026-03-01" / "stranger.txt"
    assert main(["analytics", "view", "sessions", str(log)]) == 0
    assert capsys.readouterr().out.split()[:3] == ["node", "mountpoint", "client"]
    stranger.write_text("x")
    assert main(["analytics", "view", "sessions", str(log)]) == 4
    said = capsys.readouterr()
    told = f"not read, the name is not that of an event log: {stranger.relative_to(log)}\n"
    assert said.err.endswith(f"{told}so a part of the log is not counted\n") and said.out
    out = str(tmp_path / "out")
    assert main(["analytics", "ingest", str(log), "--out", out]) == 4
    assert main(["analytics", "view", "sessions", out]) == 4
    assert told in capsys.readouterr().err
    stranger.unlink()


def test_wrong_arguments_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(status: int, *argv: str) -> str:
        assert main(["analytics", "view", *argv]) == status
        output = capsys.readouterr()
        assert output.out == ""
        return output.err

    assert "missing: no such directory" in said(1, "drops", str(tmp_path / "missing"))
    assert "no event log in it" in said(1, "drops", str(tmp_path))
    assert "not a URL" in said(1, "drops", "hdfs://log")
    assert "invalid choice: 'drop'" in said(2, "drop", str(tmp_path))
    assert "is no number from 1 to 100000" in said(2, "drops", str(tmp_path), "--limit", "0")
    assert "is no number from 1 to 100000" in said(2, "drops", str(tmp_path), "--limit", "100001")
    assert "is no time" in said(2, "drops", str(tmp_path), "--since", "noon")
    times = ("--since", "2026-03-01T12:00", "--until", "2026-03-01T12:00+01:00")
    assert "--since is later than --until" in said(1, "drops", str(tmp_path), *times)


def test_the_help_names_all_views(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analytics", "view", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in NAMES)


def test_times_are_utc_unless_they_name_a_zone() -> None:
    assert time_ms("2026-03-01T11:00") == time_ms("2026-03-01T12:00+01:00") == time_ms("2026-03-01T11:00Z") == START_MS
    assert time_ms("2026-03-01") == START_MS - 11 * 3_600_000
    with pytest.raises(argparse.ArgumentTypeError, match="'soon' is no time"):
        time_ms("soon")


def test_a_time_beyond_all_stamps_is_the_last_one_of_them() -> None:
    """A stamp has 64 bits, one of them for the sign, so that it is a number of Spark."""
    for text in ("9999-12-31", "9999-12-31T23:59-12:00", "6429-12-31"):
        assert time_ms(text) == ((1 << 63) - 1) >> 16
    assert time_ms("0001-01-01") == time_ms("0001-01-01T00:00+12:00") == 0
