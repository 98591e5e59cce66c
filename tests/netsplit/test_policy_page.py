"""docs/netsplit.md agrees with the policy table, and has all events and metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from strogoff.analytics import schema
from strogoff.netsplit.incidents import METRICS, OUTCOMES
from strogoff.netsplit.policy import OPERATIONS, REFUSALS
from strogoff.netsplit.policy_page import BEGIN, END, PARTS, answers, decisions, main, renewed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "netsplit.md"


def test_the_page_is_up_to_date() -> None:
    """To update the page run `python -m strogoff.netsplit.policy_page docs/netsplit.md`."""
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page) == page


def test_everything_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in schema.TYPES:
        assert not name.startswith("split.") or f"`{name}`" in page
    for name in (*METRICS, *OUTCOMES, *(f"allow_{each}_during_netsplit" for each in OPERATIONS)):
        assert name in page


def test_the_tables_have_the_expected_text() -> None:
    assert "| `majority` | served | served | refused |" in decisions()
    lines = answers().splitlines()
    assert len(lines) == 2 + len(REFUSALS)
    assert lines[2].endswith("| CONNACK 3; the connection is closed | CONNACK 0x88; the connection is closed |")
    assert lines[3].endswith("| dropped | dropped |")
    assert "no PUBACK; parked, accepted in order at heal | PUBACK 0x83" in lines[4]
    assert "SUBACK 0x80 for each filter; nothing changes | SUBACK 0x87 for each filter" in lines[6]


def test_the_rest_of_a_page_stays(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("".join(f"text\n{BEGIN.format(name)}\nstale\n{END.format(name)}\n" for name in PARTS))
    assert main([str(path)]) == 0
    once = path.read_text()
    assert once.count("text\n") == len(PARTS) and "stale" not in once
    assert renewed(once) == once


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="no part between"):
        renewed("text")
