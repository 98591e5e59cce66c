"""The archive for `spark-submit --py-files`."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from strogoff.analytics.pack import ARCHIVE, JOB, pack
from strogoff.cli import main

CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import strogoff
assert strogoff.__file__.startswith(sys.argv[1]), strogoff.__file__
from strogoff.judge import run
from strogoff.analytics import decoding
from strogoff.analytics.follow import command
from strogoff.analytics.stream import items
from strogoff.judge.definitions import DEFINITIONS
assert "A1" in DEFINITIONS
from strogoff import cli
cli.main(["analytics", "view", "--help"])
"""


def test_a_python_without_strogoff_finds_the_jobs_in_it(tmp_path: Path) -> None:
    archive, job = pack(tmp_path / "dist")
    site = sysconfig.get_path("purelib")
    done = subprocess.run(
        [sys.executable, "-S", "-c", CODE, archive], env={"PYTHONPATH": site}, cwd="/", capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "latency" in done.stdout  # the views explain themselves by their files
    assert "from strogoff.cli import main" in job.read_text()


def test_the_same_package_makes_the_same_bytes(tmp_path: Path) -> None:
    found = [pack(tmp_path / name)[0].read_bytes() for name in ("a", "b")]
    assert found[0] == found[1]


def test_the_command_says_how_to_use_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "dist"
    assert main(["analytics", "pack", str(out)]) == 0
    assert f"--py-files {out / ARCHIVE} {out / JOB}" in capsys.readouterr().out
    assert main(["analytics", "pack", str(out / JOB)]) == 1
    assert "is a file" in capsys.readouterr().err
