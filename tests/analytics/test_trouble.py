"""An error that the user can correct is a text on standard error, and status 1."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from strogoff.analytics.commands import run
from strogoff.analytics.trouble import Trouble, check_log, check_outside


def test_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def check(_: argparse.Namespace) -> None:
        raise Trouble("wrong, here; do that")

    assert run(argparse.Namespace(check=check)) == 1
    assert capsys.readouterr().err == "strogoff analytics: wrong, here; do that\n"


def test_a_directory_without_a_log(tmp_path: Path) -> None:
    check_log("hdfs://somewhere")
    with pytest.raises(Trouble, match="no event log in it"):
        check_log(str(tmp_path))
    (tmp_path / "boot=1-000001.jsonl.open").touch()
    check_log(str(tmp_path))


def test_tables_in_the_log_are_refused(tmp_path: Path) -> None:
    check_outside(str(tmp_path / "out"), str(tmp_path / "log"))
    check_outside("s3a://log/out", "s3a://log")
    with pytest.raises(Trouble, match="is in the directory of the log"):
        check_outside(str(tmp_path / "log" / "new" / ".." / "out"), str(tmp_path / "log"))
