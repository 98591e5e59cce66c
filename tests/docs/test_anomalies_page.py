"""docs/anomalies.md has the definitions of the modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import anomalies_page

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_new() -> None:
    assert anomalies_page.main(["--check"]) == 0


def test_a_changed_definition_makes_the_page_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "anomalies.md"
    text = anomalies_page.PAGE.read_text(encoding="utf-8")
    page.write_text(text.replace("Rows of a node's boot are missing", "rows are old", 1), encoding="utf-8")
    monkeypatch.setattr(anomalies_page, "PAGE", page)
    assert anomalies_page.main(["--check"]) == 1
    assert anomalies_page.main([]) == 0
    assert anomalies_page.main(["--check"]) == 0 and page.read_text(encoding="utf-8") == text


def test_a_module_has_the_number_of_its_docstring() -> None:
    for path, docstring in anomalies_page.definitions():
        source = (ROOT / path).read_text(encoding="utf-8")
        assert f'ID = "{docstring.partition(" ")[0]}"' in source


def test_a_docstring_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="number and the name"):
        anomalies_page.section("judge/anomalies/a07_x.py", "Something: else.")
    with pytest.raises(ValueError, match="no part"):
        anomalies_page.renewed("nothing")
