"""The names of the anomalies, from their modules."""

from __future__ import annotations

import pytest

from docs import definitions_page
from strogoff.judge.definitions import DEFINITIONS, parse


def test_each_module_has_its_definition() -> None:
    """The same that docs/anomalies.md has."""
    titles = [docstring.partition(":")[0] for _, docstring in definitions_page.definitions()]
    assert [each.title for each in DEFINITIONS.values()] == titles
    assert list(DEFINITIONS) == [each.partition(" ")[0] for each in titles]
    assert DEFINITIONS["A1"].title == "A1 lost-acked"
    assert DEFINITIONS["A4"].sentence.startswith("A message with QoS 1 was sent")
    assert DEFINITIONS["A1"].text.startswith("A message of QoS 1 or 2 is owed")


def test_a_docstring_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="number and the name"):
        parse("Something.")
