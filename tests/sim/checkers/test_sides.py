"""Sides that serve."""

from __future__ import annotations

from strogoff.sim.checkers.sides import judge, reaches_majority


def test_a_majority_counts_oneself() -> None:
    assert reaches_majority("a", ("a", "b", "c"), lambda a, b: b == "b")
    assert not reaches_majority("a", ("a", "b", "c"), lambda a, b: False)
    assert reaches_majority("d", ("a", "b", "c"), lambda a, b: b in ("a", "b"))
    assert reaches_majority("a", ("a",), lambda a, b: False)


def test_a_lease_ends_in_time() -> None:
    assert list(judge(10.0, ["a"], {"a": 8.4})) == []
    assert list(judge(10.0, ["a"], {"a": 7.5})) == [
        "side: a holds a lease, and could reach no majority of the voters for 2.50 s"
    ]
