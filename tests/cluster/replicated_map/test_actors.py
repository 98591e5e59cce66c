"""Actors and dots."""

from __future__ import annotations

from strogoff.cluster.replicated_map.actors import COUNTER, SHIFT, Actors, dot_of


def test_each_boot_is_an_actor_of_its_own() -> None:
    actors = Actors()
    first, second = actors.number("a", 1), actors.number("a", 2)
    assert first != second
    assert actors.number("a", 1) == first
    assert actors.writer(dot_of(second, 7)) == ("a", 2)
    assert actors.number("b", 1) > second
    assert actors.latest == {"a": 2, "b": 1}


def test_a_dot_is_one_integer() -> None:
    dot = dot_of(3, COUNTER)
    assert (dot >> SHIFT, dot & COUNTER) == (3, COUNTER)
