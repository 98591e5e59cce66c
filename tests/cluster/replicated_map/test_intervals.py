"""Interval sets against sets of counters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.replicated_map import intervals

PIECES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: (min(pair), max(pair))), max_size=8
)


def built(pieces: list[tuple[int, int]]) -> tuple[list[int], set[int]]:
    made: list[int] = []
    model: set[int] = set()
    for low, high in pieces:
        intervals.add(made, low, high)
        model.update(range(low + 1, high + 1))
    return made, model


@given(PIECES)
def test_it_is_a_set(pieces: list[tuple[int, int]]) -> None:
    made, model = built(pieces)
    assert intervals.valid(made)
    assert {counter for counter in range(40) if intervals.has(made, counter)} == model
    base = 0
    while base + 1 in model:
        base += 1
    assert intervals.base(made) == base


@given(PIECES, PIECES)
def test_minus(mine: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> None:
    a, model_a = built(mine)
    b, model_b = built(theirs)
    rest = intervals.minus(a, b)
    assert {counter for low, high in rest for counter in range(low + 1, high + 1)} == model_a - model_b
    assert rest == sorted(rest)


def test_malformed_intervals_are_refused() -> None:
    assert not intervals.valid([1])
    assert not intervals.valid([3, 3])
    assert not intervals.valid([0, 5, 5, 7])
    assert intervals.valid([])
