"""docs/analytics.md has the definitions of the views."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import views_page


def test_the_page_is_new() -> None:
    assert views_page.main(["--check"]) == 0


def test_a_changed_definition_makes_the_page_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "analytics.md"
    text = views_page.PAGE.read_text(encoding="utf-8")
    page.write_text(text.replace("in which it begins, UTC", "in which it ends", 1), encoding="utf-8")
    monkeypatch.setattr(views_page, "PAGE", page)
    assert views_page.main(["--check"]) == 1
    assert views_page.main([]) == 0
    assert views_page.main(["--check"]) == 0 and page.read_text(encoding="utf-8") == text


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="no part"):
        views_page.renewed("nothing")
