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
    assert mine.foldable([other]) == [("n", 1)]
    other.fold("n", 1)
    assert mine.foldable([other]) == []


def test_a_later_boot_is_not_folded_by_a_node_that_lacks_a_folded_one() -> None:
    """Else the fold of boot 2 would claim the writes of boot 1, which the node has never seen."""
    actors = Actors()
    clocks = [VersionVector(actors) for _ in range(2)]
    newcomer, member = clocks
    for boot in (2, 3):
        for clock in clocks:
            clock.add(actors.number("n", boot), 0, 0)
    assert newcomer.foldable([member]) == [("n", 2)]
    member.fold("n", 1)
    assert newcomer.foldable([member]) == []
    newcomer.fold("n", 1, by_peer=True)
    assert newcomer.foldable([member]) == [("n", 2)]


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


def member(actors: Actors) -> VersionVector:
    """Returns the clock of a member that has five writes of boot 1, none of boot 2, and knows boot 3."""
    clock = VersionVector(actors)
    clock.add(actors.number("n", 1), 0, 5)
    for boot in (2, 3):
        clock.add(actors.number("n", boot), 0, 0)
    return clock


def empty(actors: Actors) -> VersionVector:
    """Returns the clock of a node with an empty disk, which has heard of boots 2 and 3 alone."""
    clock = VersionVector(actors)
    for boot in (2, 3):
        clock.add(actors.number("n", boot), 0, 0)
    return clock


def test_a_newcomer_needs_all_keys_when_the_writes_of_an_early_boot_are_forgotten() -> None:
    """Boot 2, which wrote nothing, is not yet folded everywhere: its count must not stand for that of boot 1."""
    actors = Actors()
    clock, other = member(actors), member(actors)
    for each in (clock, other):
        each.fold("n", 1)
    assert not member(actors).differs_in_folded(clock), "it has just what was folded"
    clock.fold("n", 2)
    assert not member(actors).differs_in_folded(clock), "it has both boots"
    clock.forget_final([other])
    assert list(clock.final) == [actors.number("n", 2)], "the other has folded boot 1 alone"
    assert not other.differs_in_folded(clock)
    assert empty(actors).differs_in_folded(clock)
    assert member(actors).differs_in_folded(clock), "what it has of boot 1 cannot be compared"


def test_a_newcomer_needs_all_keys_after_a_restart_of_the_sender() -> None:
    actors = Actors()
    clock = empty(actors)
    clock.restore_folded("n", 1)
    clock.fold("n", 2)
    assert empty(actors).differs_in_folded(clock)
    other = empty(actors)
    other.restore_folded("n", 1)
    assert not other.differs_in_folded(clock)


def test_a_newcomer_needs_all_keys_of_a_sender_that_took_over_a_fold() -> None:
    """The sender does not know how many writes the boot made; it has seen a few of them."""
    actors = Actors()
    clock = empty(actors)
    clock.add(actors.number("n", 1), 0, 3)
    clock.fold("n", 1, by_peer=True)
    clock.fold("n", 2)
    few = empty(actors)
    few.add(actors.number("n", 1), 0, 3)
    assert few.differs_in_folded(clock)
    assert empty(actors).differs_in_folded(clock)


def test_counts_that_were_forgotten_stay_forgotten() -> None:
    """A report of a member from before does not bring them back."""
    actors = Actors()
    clock, behind, other = member(actors), member(actors), member(actors)
    for each in (clock, other):
        each.fold("n", 1)
    clock.fold("n", 2)
    clock.forget_final([other])
    clock.forget_final([behind])
    assert list(clock.final) == [actors.number("n", 2)]
    assert empty(actors).differs_in_folded(clock)


def test_a_node_alone_forgets_the_counts_of_all_that_it_has_folded() -> None:
    clock = member(Actors())
    clock.fold("n", 2)
    clock.forget_final([])
    assert not clock.final
    assert clock.forgotten == {"n": 2}


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
        found = [clock.foldable([other for other in clocks if other is not clock]) for clock in clocks]
        for clock, early_boots in zip(clocks, found, strict=True):
            for node, early in early_boots:
                clock.fold(node, early)
        for clock in clocks:
            clock.forget_final([other for other in clocks if other is not clock])
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
