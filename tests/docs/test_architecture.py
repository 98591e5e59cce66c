"""docs/architecture.md draws the layers that the structure test requires, and names existing modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_structure import IN_BROKER, MAY_IMPORT

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGES, PUBLISH = re.findall(r"```mermaid\n(.*?)```", PAGE, re.DOTALL)


def edges(arrow: str) -> set[tuple[str, str]]:
    """Returns the pairs that the diagram of the packages joins by this arrow, whatever its label."""
    return set(re.findall(rf"^ +(\w+) {arrow}(?:\|[^|]+\|)? (\w+)$", PACKAGES, re.MULTILINE))


def reached(package: str) -> set[str]:
    """Returns the packages that arrows reach from a package."""
    found: set[str] = set()
    todo = [package]
    while todo:
        here = todo.pop()
        new = {after for before, after in edges("-->") if before == here} - found
        found |= new
        todo += new
    return found


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_the_diagram_shows_the_allowed_imports_of_a_package(package: str) -> None:
    forbidden = {after for before, after in edges("--x") if before == package}
    assert reached(package) - forbidden == MAY_IMPORT[package]


def test_every_line_of_the_diagram_is_understood() -> None:
    named = set(re.findall(r"^ +(\w+)\[", PACKAGES, re.MULTILINE))
    lines = [line for line in PACKAGES.splitlines() if line.strip()]
    assert named == set(MAY_IMPORT)
    assert len(lines) == 1 + len(named) + len(edges("-->")) + len(edges("--x"))


def test_the_actors_of_a_publish_are_the_ones_that_act() -> None:
    actors = set(re.findall(r"participant (\w) as", PUBLISH))
    arrows = re.findall(r"^ +(\w)--?>>(\w): ", PUBLISH, re.MULTILINE)
    assert actors == {actor for arrow in arrows for actor in arrow}
    assert arrows[0][0] == arrows[-1][1] == "P"


def test_the_rows_about_the_broker_name_existing_modules() -> None:
    table = PAGE.split("| in `broker/` | idea |")[1].split("\n\n")[0]
    cells = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    names = [name.rstrip("/") for cell in cells for name in re.findall(r"`([\w/]+)`", cell)]
    missing = [name for name in names if not any((ROOT / "broker").glob(f"{name}*"))]
    assert missing == []
    assert {package for package in IN_BROKER if package} <= set(names)
