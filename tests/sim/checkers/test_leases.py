"""Leases that contradict each other."""

from __future__ import annotations

from dataclasses import dataclass

from strogoff.sim.checkers.leases import judge


@dataclass
class HeldLease:
    node: str
    view: int
    since: int
    rows: tuple[tuple[str, int], ...]


def test_a_lease_by_an_older_view_is_right_while_the_newer_one_has_its_holder() -> None:
    old, new = (("a", 1), ("b", 1)), (("a", 1), ("b", 1), ("c", 3))
    assert list(judge([])) == []
    assert list(judge([HeldLease("a", 2, 1, old), HeldLease("b", 3, 1, new)])) == []


def test_two_leases_are_wrong_if_a_holder_was_left_out_or_entered_again() -> None:
    assert list(judge([HeldLease("a", 2, 1, (("a", 1), ("b", 1))), HeldLease("b", 3, 1, (("b", 1),))])) == [
        "two leases: a holds one by view 2, b one by view 3 without it"
    ]
    assert len(list(judge([HeldLease("a", 2, 1, (("a", 1),)), HeldLease("b", 5, 1, (("a", 4), ("b", 1)))]))) == 1
