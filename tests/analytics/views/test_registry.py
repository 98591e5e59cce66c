"""The names, columns and texts of views."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strogoff.analytics.views import registry
from strogoff.analytics.views.registry import NAMES, parse, view_of

from .story import Story

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(registry.__file__).parent


def test_each_module_with_a_view_is_registered() -> None:
    files = [path for path in FOLDER.glob("*.py") if "\ndef view(" in path.read_text(encoding="utf-8")]
    assert sorted(NAMES) == sorted(path.stem for path in files)


@pytest.mark.parametrize("name", NAMES)
def test_a_view_explains_itself(name: str) -> None:
    view = view_of(name)
    assert view.name == name and view.help and not view.help.endswith(".")
    assert len(view.columns) > 5 and all(view.columns.values())


def test_a_docstring_has_help_text_columns_and_notes() -> None:
    found = parse(
        "heat", "heat: how hot.\n\nText,\n\nmore.\n\nColumns:\n    a_ms    first\n    b       null: none\n\nNotes.\n"
    )
    assert (found.help, found.text, found.notes) == ("how hot", "Text,\n\nmore.", "Notes.")
    assert found.columns == {"a_ms": "first", "b": "null: none"}


@pytest.mark.parametrize(
    "text", ["", "cold: x.\n\nColumns:\n    a  b", "heat\n\nColumns:\n    a  b", "heat: x.\n\na  b"]
)
def test_other_docstrings_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match="heat: the docstring is not"):
        parse("heat", text)


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_a_view_has_the_columns_that_it_explains(spark: SparkSession, name: str) -> None:
    """Also of a log without rows. No row passes Python. It refuses a table that is none of events."""
    from strogoff.analytics.reading import SchemaError

    made = view_of(name).make(Story().events(spark))
    assert made.columns == list(view_of(name).columns)
    assert made.collect() == []
    plan = made._jdf.queryExecution().executedPlan().toString()
    assert "Sort" in plan and "Python" not in plan and "Arrow" not in plan
    with pytest.raises(SchemaError, match="events: no column"):
        view_of(name).make(spark.createDataFrame([("m",)], "mid string"))
