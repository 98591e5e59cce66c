"""Sides of a cut that may serve."""

from __future__ import annotations

from collections.abc import Callable

from strogoff.sim.checkers.sides import judge, reaches_majority

VOTERS = ("a", "b", "c", "d", "e")


def linked(*pairs: str) -> Callable[[str, str], bool]:
    return lambda one, other: one + other in pairs or other + one in pairs


def test_a_leader_counts_itself() -> None:
    assert reaches_majority("a", {"a": ("a", "b", "c")}, linked("ab"))
    assert not reaches_majority("a", {"a": ("a", "b", "c")}, linked())
    assert reaches_majority("a", {"a": ("a",)}, linked())


def test_a_node_that_reaches_the_leader_need_not_reach_its_majority() -> None:
    leaders = {"a": VOTERS}
    assert reaches_majority("b", leaders, linked("ab", "ac"))
    assert reaches_majority("x", leaders, linked("xa", "ab", "ac"))
    assert not reaches_majority("b", leaders, linked("ab"))
    assert not reaches_majority("b", leaders, linked("bc", "bd", "be", "ac", "ad"))


def test_an_answer_of_the_leader_may_arrive_after_a_cut() -> None:
    """3 nodes, seeds 125728 and 127512: the leader heard x, and x had heard the leader while it was paused."""

    def hears(one: str, other: str) -> bool:
        return one + other in ("ab", "ba", "ax")

    leaders = {"a": ("a", "b", "c")}
    assert reaches_majority("x", leaders, hears)
    assert not reaches_majority("x", {"a": ("a", "x", "c")}, hears), "of the majority itself both ways are asked"
    assert not reaches_majority("x", leaders, lambda one, other: one + other in ("ab", "ba", "xa"))


def test_one_of_several_supposed_leaders_is_enough() -> None:
    ways = linked("ab", "cd", "de", "ce")
    assert [reaches_majority(node, {"a": VOTERS, "c": VOTERS}, ways) for node in VOTERS] == [0, 0, 1, 1, 1]


def test_a_lease_ends_in_time() -> None:
    assert list(judge(10.0, ["a"], {"a": 8.4})) == []
    assert list(judge(10.0, ["a"], {"a": 7.5})) == [
        "side: a holds a lease, and could reach no majority of the voters for 2.50 s"
    ]
