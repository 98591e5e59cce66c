"""`dev/coverage_floors.py`: it finds a drop, a package without a floor and a floor without a package."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.harness.scripts import load_script

ROOT = Path(__file__).parent.parent

FILES = {"mqtt/wire.py": (50, 50), "mqtt/frames.py": (50, 40), "storage/keys.py": (8, 7), "cli.py": (4, 3)}
"""File -> lines, executed lines."""


@pytest.fixture
def script(tmp_path: Path) -> ModuleType:
    """The script as a module, with a table of the test."""
    module = load_script("dev/coverage_floors.py")
    module.FLOORS = tmp_path / "coverage_floors.toml"  # type: ignore[attr-defined]
    return module


@pytest.fixture
def report(tmp_path: Path) -> Path:
    summaries = {
        file: {"summary": {"num_statements": lines, "covered_lines": executed}}
        for file, (lines, executed) in FILES.items()
    }
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps({"files": summaries}))
    return path


def test_coverage_at_the_floors_is_enough(script: ModuleType, report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.FLOORS.write_text("mqtt = 90\nstorage = 87\nstrogoff = 75\n")
    assert script.main([str(report)]) == 0
    said = capsys.readouterr()
    assert (said.out.splitlines()[0], said.err) == ("mqtt          90.0 %   floor  90 %", "")


@pytest.mark.parametrize(
    ("floors", "complaint"),
    [
        ("mqtt = 91\nstorage = 87\nstrogoff = 75", "mqtt: 90.0 % of its lines are executed, the floor is 91 %"),
        ("mqtt = 90\nstrogoff = 75", "storage has no floor in coverage_floors.toml: its coverage is 87.5 %"),
        (
            "mqtt = 90\nold = 1\nstorage = 87\nstrogoff = 75",
            "old has a floor in coverage_floors.toml, and no lines in the report",
        ),
    ],
)
def test_a_planted_drop_is_found(
    script: ModuleType, report: Path, capsys: pytest.CaptureFixture[str], floors: str, complaint: str
) -> None:
    script.FLOORS.write_text(floors)
    assert script.main([str(report)]) == 1
    assert capsys.readouterr().err == f"{complaint}\n"


def test_floors_are_raised_and_never_lowered(script: ModuleType, report: Path) -> None:
    """A floor is a little below the report, which varies from run to run."""
    script.FLOORS.write_text("mqtt = 70\nold = 1\nstorage = 88\n")
    assert script.main([str(report), "--write"]) == 0
    assert tomllib.loads(script.FLOORS.read_text()) == {"mqtt": 89, "storage": 88, "strogoff": 74}


def test_each_package_has_a_floor() -> None:
    floors = tomllib.loads((ROOT / "dev" / "coverage_floors.toml").read_text())
    assert set(floors) == {"strogoff", *(path.parent.name for path in ROOT.glob("*/__init__.py"))}
