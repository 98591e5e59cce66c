"""The arguments of `stream`."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from strogoff.analytics.stream import command
from strogoff.cli import main
from strogoff.judge.alerts import Limits


def parsed(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add(parser.add_subparsers(), lambda job: None)
    return parser.parse_args(["stream", "log", "--out", "out", *argv])


def test_the_defaults_are_those_of_the_limits() -> None:
    assert command.limits_of(parsed()) == Limits()


def test_each_limit_is_an_option() -> None:
    words = "--late=2m --slow=500ms --storm-client=3 --storm-node=4 --drops=5 --delay=7s --every=100ms"
    found = parsed(*words.split())
    assert command.limits_of(found) == Limits(120_000, 500, 3, 4, 5)
    assert (found.delay, found.every) == (7000, 100)


@pytest.mark.parametrize("words", [("--late", "5"), ("--late", "1h"), ("--drops", "-1"), ("--storm-node", "x")])
def test_wrong_numbers(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(*words)
    assert "is no " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--slow", "31s"), "--slow (10s by default) must not be longer than --late"),
        (("--late", "5s"), "--slow (10s by default) must not be longer than --late"),
        (("--late", "0s", "--slow", "0s"), "--late and --every"),
        (("--every", "0s"), "--late and --every"),
        (("--mqtt", "http://h"), "give mqtt://HOST:PORT"),
        (("--mqtt", "mqtt://h", "--topic", "a/+"), "without + and #"),
    ],
)
def test_errors_before_spark_starts(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.mkdir()
    (log / "boot=1-000001.jsonl").touch()
    assert main(["analytics", "stream", str(log), "--out", str(tmp_path / "out"), *words]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_wrong_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.mkdir()
    (log / "boot=1-000001.jsonl").touch()
    for where, out, said in (
        (f"{tmp_path}/none", f"{tmp_path}/out", "no such directory"),
        (str(log), f"{log}/out", "in the directory of the log"),
        (str(log), f"{log}/boot=1-000001.jsonl", "is a file"),
        ("s3a://bucket", f"{tmp_path}/out", "not URLs"),
    ):
        assert main(["analytics", "stream", where, "--out", out]) == 1
        assert said in capsys.readouterr().err
