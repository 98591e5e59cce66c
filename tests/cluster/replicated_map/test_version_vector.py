"""Clocks of nodes: set algebra, and folding of early boots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.replicated_map.actors import Actors, dot_of
from strogoff.cluster.replicated_map.version_vector import VersionVector

ADDS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 4)), max_size=8)


def made(actors: Actors, adds: list[tuple[int, int, int]]) -> tuple[VersionVector, set[int]]:
    clock = VersionVector(actors)
    model: set[int] = set()
    for actor, low, size in adds:
        clock.add(actors.number("n", actor + 1), low, low + size)
        model.update(dot_of(actor, counter) for counter in range(low + 1, low + size + 1))
    return clock, model


def dots(clock: VersionVector) -> set[int]:
    return {
        dot_of(actor, counter) for actor in range(3) for counter in range(1, 20) if clock.covers(dot_of(actor, counter))
    }


@given(ADDS, ADDS)
def test_set_algebra(one: list[tuple[int, int, int]], two: list[tuple[int, int, int]]) -> None:
    actors = Actors()
    for boot in (1, 2, 3):
        actors.number("n", boot)
    (a, model_a), (b, model_b) = made(actors, one), made(actors, two)
    assert dots(a) == model_a
    lacking = {dot_of(actor, n) for actor, low, high in a.lacks(b) for n in range(low + 1, high + 1)}
    assert lacking == model_b - model_a
    both = a.copy()
    both.join(b)
    assert dots(both) == model_a | model_b
    assert both.dominates(a)
    assert both.dominates(b)
    assert dots(a) == model_a, "a copy is another clock"


def test_an_early_boot_is_folded_when_all_have_the_same_and_know_a_later_one() -> None:
    actors = Actors()
    old, new = actors.number("n", 1), actors.number("n", 2)
    mine, other = VersionVector(actors), VersionVector(actors)
    mine.add(old, 0, 5)
    mine.add(new, 0, 0)
    other.add(old, 0, 4)
    assert mine.foldable([other]) == [], "it lacks one, and does not know that boot 1 is over"
    other.add(old, 4, 5)
    assert mine.foldable([other]) == [], "a message of boot 1 may be on its way to it"
    other.add(new, 0, 0)
    assert mine.foldable([other]) == [("n", 1)]
    mine.fold("n", 1)
    assert mine.covers(dot_of(old, 5))
    assert old not in mine.seen
    assert other.lacks(mine) == []
    assert not other.differs_in_folded(mine), "it has just what was folded"
    other.fold("n", 1)
    mine.forget_final([other])
    assert not mine.final
    assert mine == other
    assert VersionVector(actors).differs_in_folded(mine), "who knows nothing must see all keys"


def test_a_node_that_folded_a_boot_may_have_seen_more_of_it() -> None:
    """A member's report of its clock does not tell how many writes that was: an exchange does."""
    actors = Actors()
    old, new = actors.number("n", 1), actors.number("n", 2)
    mine, other = VersionVector(actors), VersionVector(actors)
    for clock in (mine, other):
        clock.add(old, 0, 4)
        clock.add(new, 0, 0)
    other.add(old, 4, 5)
    other.fold("n", 1)
    assert mine.foldable([other]) == []
    mine.add(old, 4, 5)
    assert mine.foldable([other]) == [("n", 1)]
    assert mine.foldable([other.copy()]) == [], "a copy does not say what has been folded"


def test_a_node_that_saw_more_than_the_fold_needs_all_keys() -> None:
    """Two nodes fold the writes that they have seen of a boot; a third, which is away, has seen one write more."""
    actors = Actors()
    old, new = actors.number("n", 1), actors.number("n", 2)
    mine, away = VersionVector(actors), VersionVector(actors)
    for clock in (mine, away):
        clock.add(old, 0, 4)
        clock.add(new, 0, 0)
    mine.fold("n", 1)
    assert not away.differs_in_folded(mine)
    away.add(old, 4, 5)
    assert away.differs_in_folded(mine)


def test_folded_writes_are_not_missing_where_they_are_folded() -> None:
    actors = Actors()
    old = actors.number("n", 1)
    key_contexts, behind = VersionVector(actors), VersionVector(actors)
    behind.add(old, 0, 5)
    key_contexts.fold("n", 1)
    assert key_contexts.lacks(behind) == []
    assert not key_contexts.add(old, 5, 6)


def test_ten_thousand_restarts_do_not_grow_the_clock() -> None:
    actors = Actors()
    clocks = [VersionVector(actors) for _ in range(3)]
    for boot in range(1, 10_001):
        actor = actors.number("n", boot)
        for clock in clocks:
            clock.add(actor, 0, boot % 3)
        for clock in clocks:
            others = [other for other in clocks if other is not clock]
            for node, early in clock.foldable(others):
                clock.fold(node, early)
            clock.forget_final(others)
    assert all(len(clock.seen) <= 2 and len(clock.final) <= 2 for clock in clocks)
    assert clocks[0].covers(dot_of(actors.number("n", 77), 1))


def test_equal_clocks_have_equal_digests_at_all_nodes() -> None:
    """Whatever numbers the actors have there. An actor without writes does not count."""
    one, other = Actors(), Actors()
    other.number("z", 1)
    clocks = []
    for actors, nodes in ((one, "ab"), (other, "ba")):
        clock = VersionVector(actors)
        for node in nodes:
            clock.add(actors.number(node, 2), 0, 5)
        clocks.append(clock)
    clocks[0].add(one.number("c", 1), 0, 0)
    assert clocks[0].digest() == clocks[1].digest()
    clocks[1].add(other.number("a", 2), 6, 7)
    assert clocks[0].digest() != clocks[1].digest()
    clocks[0].add(one.number("a", 2), 6, 7)
    assert clocks[0].digest() == clocks[1].digest()
    clocks[0].fold("a", 1)
    assert clocks[0].digest() != clocks[1].digest()
