"""A view and its members."""

from __future__ import annotations

from strogoff.cluster.identity import Incarnation
from strogoff.cluster.membership.commands import Row
from strogoff.cluster.membership.view import View

VIEW = View(7, (Row("a", 2, 1, True), Row("b", 1, 5, True), Row("c", 4, 7)))


def test_the_nodes_of_a_view() -> None:
    assert VIEW.nodes == ("a", "b", "c")
    assert VIEW.serving == ("a", "b")
    assert VIEW.incarnation("c") == Incarnation("c", 4, 7)
    assert VIEW.incarnation("d") is None and VIEW.row("d") is None
    assert VIEW.incarnations == (Incarnation("a", 2, 1), Incarnation("b", 1, 5), Incarnation("c", 4, 7))


def test_without_a_node_it_is_the_next_view() -> None:
    assert VIEW.without("b") == View(8, (Row("a", 2, 1, True), Row("c", 4, 7)))
    assert VIEW.without("d") is VIEW


def test_exchanges_are_required_with_those_that_serve_or_else_with_all() -> None:
    assert [row.node for row in VIEW.required("c")] == ["a", "b"]
    joining = View(3, (Row("a", 1, 1), Row("b", 1, 2), Row("c", 1, 3)))
    assert [row.node for row in joining.required("b")] == ["a", "c"]
    assert View(1, (Row("a", 1, 1),)).required("a") == ()
