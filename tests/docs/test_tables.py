"""Every table of the documentation has as many cells in each row as in its head."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def cells(row: str) -> int:
    """Returns the number of cells of a row. A bar after a backslash or between backticks is text."""
    plain = re.sub(r"`[^`]*`", "", row.replace("\\|", ""))
    return plain.strip().strip("|").count("|") + 1


def crooked(page: str) -> list[int]:
    """Returns the lines of rows whose number of cells differs from the head, and of tables without a rule."""
    found, head = [], 0
    fenced = False
    for number, line in enumerate(page.splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if fenced or not line.startswith("|"):
            head = 0
        elif not head:
            head = cells(line)
        elif cells(line) != head:
            found.append(number)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_straight(page: Path) -> None:
    assert crooked(page.read_text(encoding="utf-8")) == []


def test_a_row_with_another_number_of_cells_is_found() -> None:
    page = "| a | b |\n|---|---|\n| `x|y` | c \\| d |\n| e |\n| f | g | h |\n\n| i |\n|---|\n```\n| j | k |\n```\n"
    assert crooked(page) == [4, 5]
