"""When clients were connected, and how far a growing log is known."""

from __future__ import annotations

from typing import Any

from strogoff.judge.building import Summary, world_of_ordered
from strogoff.judge.lives import BootRows
from strogoff.judge.presence import Presence, known_up_to
from strogoff.judge.rows import Row

Boots = dict[tuple[str, int], BootRows]
BOOTS: Boots = {("a", 1): BootRows(1, 1, 9, 90, False)}


def row(hlc: int, kind: str, node: str = "a", **fields: Any) -> Row:
    return {"v": 7, "type": kind, "node": node, "boot": 1, "seq": hlc, "hlc": hlc, **fields}


def presence(*rows: Row) -> Presence:
    return Presence(rows, world_of_ordered(rows, Summary(BOOTS)))


def test_a_client_is_connected_from_conn_open_to_conn_close() -> None:
    found = presence(row(10, "conn.open", client="c", conn=1), row(30, "conn.close", client="c", conn=1))
    owner = ("a", "", "c")
    assert found.throughout(owner, 11, 30)
    assert not found.throughout(owner, 10, 30)
    assert not found.throughout(owner, 11, 31)
    assert not found.throughout(("a", "", "d"), 11, 30)


def test_two_connections_are_not_one() -> None:
    rows = [row(10, "conn.open", client="c", conn=1), row(30, "conn.close", client="c", conn=1)]
    found = presence(*rows, row(31, "conn.open", client="c", conn=2))
    assert not found.throughout(("a", "", "c"), 20, 40)
    assert found.throughout(("a", "", "c"), 32, 40)


def open_at(node: str, end: int, *rows: Row, boots: Boots = BOOTS) -> bool:
    """Whether a client that connected to a node at 10 is still connected at `end`."""
    opened = row(10, "conn.open", node, client="c", conn=1)
    every = sorted((opened, *rows), key=lambda each: each["hlc"])
    return Presence(every, world_of_ordered(every, Summary(boots))).throughout((node, "", "c"), 11, end)


def view(hlc: int, node: str, *nodes: str) -> Row:
    return row(hlc, "mem.view", node, nodes=[*nodes], missing=[], view=1)


def test_a_node_that_is_silent_still_has_its_connections() -> None:
    assert open_at("a", 500)
    assert open_at("a", 500, view(5, "b", "a", "b"))


def test_a_node_that_another_one_has_lost_has_none() -> None:
    seen, lost, back = view(5, "b", "a", "b"), view(80, "b", "b"), view(85, "b", "a", "b")
    assert open_at("a", 79, seen, lost)
    assert not open_at("a", 80, seen, lost)
    assert not open_at("a", 84, seen, lost, back)
    assert open_at("a", 85, seen, lost, back)


def test_a_boot_that_was_stopped_or_followed_has_none() -> None:
    stopped = {("a", 1): BootRows(1, 1, 9, 90, True)}
    assert open_at("a", 90, boots=stopped)
    assert not open_at("a", 91, boots=stopped)
    followed = {**BOOTS, ("a", 2): BootRows(1, 100, 2, 110, False), ("b", 9): BootRows(1, 20, 2, 110, False)}
    assert open_at("a", 99, boots=followed)
    assert not open_at("a", 100, boots=followed)


def test_how_far_boots_are_known() -> None:
    boots = {
        ("a", 1): BootRows(1, 1, 9, 90, False),
        ("a", 2): BootRows(1, 100, 2, 110, False),
        ("b", 1): BootRows(1, 1, 9, 90, True),
        ("c", 1): BootRows(1, 1, 9, 900, False),
    }
    known = {key: rows.last_hlc for key, rows in known_up_to(boots, 500).items()}
    assert known == {("a", 1): 90, ("a", 2): 500, ("b", 1): 90, ("c", 1): 900}
