"""Dotted version vector sets: the cases of the paper, and random histories against sets of dots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.replicated_map.dvv import (
    NOTHING,
    Dots,
    Siblings,
    discard,
    event,
    join,
    pairs,
    sync,
    values,
    without,
)

A1, A2, A3, B1 = 101, 102, 103, 201


def test_two_clients_through_one_server_are_concurrent() -> None:
    first = event(NOTHING, Dots([]), b"x", A1)
    both = event(first, Dots([]), b"y", A2)
    assert values(both) == [b"x", b"y"], "the second client had read nothing: no lost update"


def test_a_write_that_has_read_replaces_what_it_read_only() -> None:
    both = event(event(NOTHING, Dots([]), b"x", A1), Dots([]), b"y", A2)
    assert values(event(both, Dots([A1]), b"z", A3)) == [b"y", b"z"]
    assert values(event(both, join(both), b"z", A3)) == [b"z"]


def test_two_clients_through_two_servers() -> None:
    here, there = event(NOTHING, Dots([]), b"x", A1), event(NOTHING, Dots([]), b"y", B1)
    met = sync(here, Dots([A1]), there, Dots([B1]))
    assert values(met) == [b"x", b"y"]
    after = event(met, join(met), b"z", A2)
    assert values(sync(after, Dots([A1, B1, A2]), there, Dots([B1]))) == [b"z"]


def test_siblings_do_not_explode() -> None:
    """Two clients in turn, each without the other's last write, never leave more than two."""
    state: Siblings = NOTHING
    contexts = [Dots([]), Dots([])]
    for turn in range(50):
        state = event(state, contexts[turn % 2], b"%d" % turn, 100 + turn)
        contexts[turn % 2] = join(state)
        assert len(values(state)) <= 2


def test_a_deletion_is_a_sibling_without_a_readable_value() -> None:
    deleted = event(event(NOTHING, Dots([]), b"x", A1), Dots([A1]), None, A2)
    assert values(deleted) == []
    assert pairs(deleted) == [(A2, None)]
    assert without(deleted, A2) == NOTHING
    assert discard(deleted, Dots([A2])) == NOTHING


Step = tuple[int, int, bool]
STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=30)


def run(steps: list[Step]) -> tuple[list[Siblings], list[set[int]], dict[int, set[int]]]:
    """Replicas 0 to 2 write (at themselves) or merge another replica. The model: the dots that each dot had seen."""
    states: list[Siblings] = [NOTHING] * 3
    seen: list[set[int]] = [set(), set(), set()]
    past: dict[int, set[int]] = {}
    for number, (at, other, write) in enumerate(steps):
        if write or at == other:
            dot = 1000 * at + number
            past[dot] = set(seen[at])
            states[at] = event(states[at], Dots(seen[at]), b"%d" % dot, dot)
            seen[at].add(dot)
        else:
            states[at] = sync(states[at], Dots(seen[at]), states[other], Dots(seen[other]))
            seen[at] |= seen[other]
    return states, seen, past


@given(STEPS)
def test_siblings_are_the_writes_that_no_other_write_has_seen(steps: list[Step]) -> None:
    states, seen, past = run(steps)
    for state, dots in zip(states, seen, strict=True):
        replaced = {old for dot in dots for old in past[dot]}
        assert set(state[::2]) == dots - replaced


@given(STEPS)
def test_sync_is_a_join(steps: list[Step]) -> None:
    (a, b, c), (da, db, dc), _ = run(steps)
    ab = sync(a, Dots(da), b, Dots(db))
    assert ab == sync(b, Dots(db), a, Dots(da))
    assert ab == sync(ab, Dots(da | db), a, Dots(da))
    left = sync(ab, Dots(da | db), c, Dots(dc))
    right = sync(a, Dots(da), sync(b, Dots(db), c, Dots(dc)), Dots(db | dc))
    assert left == right
