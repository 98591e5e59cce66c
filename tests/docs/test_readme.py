"""The Python examples of README.md run as a reader would copy them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def block(part: str) -> str:
    """The one example that contains `part`."""
    (found,) = [each for each in BLOCKS if part in each]
    return found


def test_every_example_is_known_here() -> None:
    assert len(BLOCKS) == 2


def test_the_embedded_broker_starts_returns_its_port_and_stops(tmp_path: Path) -> None:
    code = block("asyncio.run(main())").replace("/tmp/my-broker", str(tmp_path / "data"))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert int(ran.stdout) > 0
    assert list((tmp_path / "data").iterdir())


@pytest.mark.slow
def test_the_example_of_a_test_passes_in_an_empty_project(tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(block("def test_an_acknowledgement_gets_lost"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_example.py"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
