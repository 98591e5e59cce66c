"""Tests of one group run in one worker of pytest-xdist: so the slow tests start Java once, not once for each worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

GROUPED = """
import os
from pathlib import Path

import pytest


@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(5))
def test_worker(number):
    Path(os.environ["PYTEST_XDIST_WORKER"]).touch()
"""


@pytest.mark.slow
def test_tests_of_one_group_run_in_one_worker(tmp_path: Path) -> None:
    # With pytest 9.2, pytest-xdist 3.8 runs them in all workers, and says nothing.
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).write_text(GROUPED, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), "-n", "2", "--dist", "loadgroup"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "10 passed" in done.stdout, done.stdout + done.stderr
    assert len(list(tmp_path.glob("gw*"))) == 1
