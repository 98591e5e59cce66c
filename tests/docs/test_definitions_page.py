"""docs/anomalies.md and docs/analytics.md have the definitions of the modules."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from docs import definitions_page
from docs.definitions_page import PARTS, anomaly, definitions, main, renewed

ROOT = Path(__file__).resolve().parents[2]


def test_the_pages_are_new() -> None:
    assert main(["--check"]) == 0


@pytest.mark.parametrize(
    ("name", "defined"),
    [("anomalies.md", "Rows of a node's boot are missing"), ("analytics.md", "in which it begins, UTC")],
)
def test_a_changed_definition_makes_a_page_old(
    name: str, defined: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in PARTS:
        shutil.copy(definitions_page.DOCS / each, tmp_path)
    monkeypatch.setattr(definitions_page, "DOCS", tmp_path)
    page = tmp_path / name
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace(defined, "something else", 1), encoding="utf-8")
    assert main(["--check"]) == 1 and capsys.readouterr().err == f"{name} is old: run docs/definitions_page.py\n"
    assert main([]) == 0
    assert main(["--check"]) == 0 and page.read_text(encoding="utf-8") == text


def test_a_module_has_the_number_of_its_docstring() -> None:
    for path, docstring in definitions():
        source = (ROOT / path).read_text(encoding="utf-8")
        assert f'ID = "{docstring.partition(" ")[0]}"' in source


def test_a_docstring_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="number and the name"):
        anomaly("judge/anomalies/a07_x.py", "Something: else.")


def test_a_page_without_the_marks_is_refused() -> None:
    for part in PARTS.values():
        with pytest.raises(ValueError, match="no part between"):
            renewed("nothing", part)
