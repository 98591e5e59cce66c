"""The docstrings that a reader judges are drawn from the whole product."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "draw_docstrings.py"


def drawn(seed: int, count: int = 10) -> list[str]:
    command = [sys.executable, str(SCRIPT), "--seed", str(seed), "--count", str(count)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def names(lines: list[str]) -> list[str]:
    return [line for line in lines if line and not line.startswith(" ")]


def test_a_seed_draws_the_same_ten_and_another_seed_others() -> None:
    first = names(drawn(1))
    assert len(first) == 10 and first == names(drawn(1)) and first != names(drawn(2))


def test_every_package_is_drawn_from() -> None:
    packages = {name.partition("/")[0] for name in names(drawn(3, 1000))}
    assert packages >= {"admin", "broker", "cluster", "configs", "mqtt", "netsplit", "sim", "storage", "testing"}
