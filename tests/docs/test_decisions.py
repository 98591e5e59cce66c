"""Every record of docs/decisions has a number, a title, a status and a date, and is in the index with them."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "decisions"
FILES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
NAMES = [path.name for path in FILES]
STATUS = re.compile(r"accepted|superseded (?:in part )?by \[(\d{4})\]\(([^)]+)\)")


class Head(NamedTuple):
    """The first lines of a record."""

    number: int
    title: str
    status: str
    date: str


def head(text: str) -> Head:
    """Returns the first lines of a record; fails with their required form."""
    found = re.match(r"# (\d+)\. (\S.*\S)\n\n- Status: (.+)\n- Date: (\d{4}-\d\d-\d\d)\n\n\S", text)
    assert found, "a record begins with '# NUMBER. TITLE', an empty line, '- Status: ...', '- Date: YYYY-MM-DD'"
    return Head(int(found[1]), found[2], found[3], found[4])


def test_the_numbers_have_no_gap() -> None:
    assert [name[:5] for name in NAMES] == [f"{number:04}-" for number in range(1, len(NAMES) + 1)]


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_record_has_number_title_status_and_date(path: Path) -> None:
    record = head(path.read_text(encoding="utf-8"))
    assert record.number == int(path.name[:4])
    assert date.fromisoformat(record.date) >= date(2026, 1, 1)
    status = STATUS.fullmatch(record.status)
    assert status, "a status is 'accepted', 'superseded by [NNNN](FILE)' or 'superseded in part by [NNNN](FILE)'"
    if status[1]:
        assert int(status[1]) > record.number
        assert status[2].startswith(f"{status[1]}-") and (FOLDER / status[2]).exists()


def test_the_index_has_every_record_and_no_other() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d{4})\]\(([^)]+)\) \| (.+) \| (.+) \| (.+) \|$", index, re.MULTILINE)
    wanted = []
    for path in FILES:
        record = head(path.read_text(encoding="utf-8"))
        status = re.sub(r"\[(\d{4})\]\([^)]+\)", r"\1", record.status)
        wanted.append((path.name[:4], path.name, record.title, status, record.date))
    assert rows == wanted


@pytest.mark.parametrize(
    "text",
    [
        "# A title\n\n- Status: accepted\n- Date: 2026-11-22\n\nText",
        "# 1. A title\n\nText",
        "# 1. A title\n\n- Status: accepted\n\nText",
        "# 1. A title\n\n- Status: accepted\n- Date: yesterday\n\nText",
    ],
)
def test_a_record_without_its_head_is_refused(text: str) -> None:
    with pytest.raises(AssertionError, match="a record begins with"):
        head(text)
