"""Rows: their names and their order."""

from __future__ import annotations

from typing import Any

from strogoff.judge.rows import in_order, message_id_of, ms_of, node_of, numbered, row_id, slots_of


def test_names_of_rows_and_messages() -> None:
    """Rows from files have lists."""
    row: dict[str, Any] = {"node": "n", "boot": 2, "seq": 3, "hlc": 5 << 16, "mid": ["n", 1, 7]}
    assert (row_id(row), message_id_of(row), ms_of(row["hlc"])) == (("n", 2, 3), ("n", 1, 7), 5)


def test_rows_are_in_the_order_of_their_stamps() -> None:
    rows = [{"hlc": hlc, "node": node, "seq": seq} for hlc, node, seq in ((2, "a", 1), (1, "b", 2), (1, "a", 9))]
    assert [row["seq"] for row in in_order(rows)] == [9, 2, 1]


def test_ranges_of_slots() -> None:
    assert list(slots_of(["0-2", "7", "254-255"])) == [0, 1, 2, 7, 254, 255]


def test_a_node_has_several_names_for_the_sessions_of_a_client() -> None:
    owner = numbered(("n", "m", "c"), 2)
    assert owner == ("n (2)", "m", "c")
    assert node_of(owner) == node_of(("n", "m", "c")) == "n"
