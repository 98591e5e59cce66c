"""Which rows led to which, at other nodes."""

from __future__ import annotations

from typing import Any

from strogoff.judge.causes import pairs

MID = ("a", 1, 1)


def row(kind: str, node: str, seq: int, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "node": node, "boot": 1, "seq": seq, "hlc": seq, "mid": MID, **fields}


def named(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(f"{cause['node']}{cause['seq']} {effect['node']}{effect['seq']}" for cause, effect in pairs(rows))


def test_a_message_leads_to_its_rows_at_other_nodes() -> None:
    rows = [
        row("pub.recv", "a", 1),
        row("pub.route", "a", 2),
        row("fwd.send", "a", 3, target="b"),
        row("fwd.recv", "b", 1, source="a"),
        row("q.enq", "b", 2),
        row("fwd.ack", "a", 4, target="b"),
    ]
    assert named(rows) == named(rows[::-1]) == ["a1 b1", "a1 b2", "a3 b1", "b1 a4"]


def test_the_first_of_several_is_a_cause_of_all_later_ones() -> None:
    rows = [
        row("fwd.send", "a", 9, target="b"),
        row("fwd.send", "a", 3, target="b"),
        row("fwd.recv", "b", 7, source="a"),
        row("fwd.recv", "b", 8, source="a"),
    ]
    assert named(rows) == ["a3 b7", "a3 b8"]


def test_nothing_is_said_where_the_rows_do_not_tell() -> None:
    """Two rows of its entrance, a message that another node has sent, a row without a message."""
    entered = [row("pub.recv", "a", 1), row("pub.recv", "b", 1), row("q.enq", "c", 1)]
    assert named(entered) == named([row("fwd.recv", "b", 1, source="c"), row("fwd.ack", "a", 1, target="c")]) == []
    assert named([row("conn.open", "a", 1, mid=None)]) == []
