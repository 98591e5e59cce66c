"""Who was in whose view."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.judge.rows import NEVER
from strogoff.judge.views import Views


def views(*rows: tuple[str, dict[str, Any]]) -> Views:
    """The rows of node `a` have the stamps 10, 20, and so on."""
    found = Views()
    for number, (kind, fields) in enumerate(rows, 1):
        found.note({"type": kind, "node": "a", "hlc": 10 * number, **fields})
    return found


UP = ("mem.up", {"target": "b"})


@pytest.mark.parametrize(
    "end",
    [("mem.down", {"target": "b"}), ("mem.view", {"nodes": ["a"]}), ("node.start", {})],
)
def test_a_node_is_in_a_view_until_the_log_says_otherwise(end: tuple[str, dict[str, Any]]) -> None:
    for begin in (UP, ("mem.view", {"nodes": ["a", "b"]})):
        found = views(begin, end, UP)
        assert found.had("a", "b", 10, 19) and found.had("a", "b", 30, NEVER - 1)
        assert not found.had("a", "b", 9, 19) and not found.had("a", "b", 10, 20) and not found.had("a", "b", 10, 40)


def test_what_is_said_twice_changes_nothing() -> None:
    found = views(UP, ("mem.view", {"nodes": ["b"]}), UP, ("lease.get", {}))
    assert found.had("a", "b", 10, 50)
    assert not found.had("b", "a", 10, 50) and not found.had("a", "c", 10, 50)


def test_a_node_has_left_a_view_until_it_comes_back() -> None:
    found = views(UP, ("mem.down", {"target": "b"}), UP)
    assert [found.left("a", "b", stamp) for stamp in (5, 19, 20, 29, 30)] == [False, False, True, True, False]
    assert not found.left("a", "c", 20)
