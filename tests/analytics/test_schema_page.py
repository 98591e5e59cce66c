"""docs/eventlog.md agrees with the schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from strogoff.analytics import schema
from strogoff.analytics.schema_page import BEGIN, END, main, renewed, tables

PAGE = Path(__file__).resolve().parents[2] / "docs" / "eventlog.md"


def test_the_page_is_up_to_date() -> None:
    """To update the page run `python -m strogoff.analytics.schema_page docs/eventlog.md`."""
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page) == page


def test_everything_is_in_the_tables() -> None:
    text = tables()
    for name in (*schema.TYPES, *schema.COLUMNS):
        assert f"| `{name}` |" in text


def test_the_rest_of_a_page_stays(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"before\n{BEGIN}\nstale words\n{END}\nafter\n")
    assert main([str(path)]) == 0
    once = path.read_text()
    assert once.startswith(f"before\n{BEGIN}\n")
    assert once.endswith(f"{END}\nafter\n")
    assert "stale words" not in once
    assert renewed(once) == once


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="no part between"):
        renewed("text")
