"""The tree of intervals, against a look at each item."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from strogoff.judge.intervals import IntervalTree


@dataclass
class Span:
    since: int
    until: int


SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)).map(lambda each: Span(each[0], sum(each))))


@given(SPANS, st.integers(-1, 90))
def test_it_finds_what_contains_a_stamp(spans: list[Span], stamp: int) -> None:
    found = list(IntervalTree(spans).at(stamp))
    wanted = [each for each in spans if each.since < stamp < each.until]
    assert sorted(map(id, found)) == sorted(map(id, wanted))


def test_it_does_not_look_at_what_has_ended() -> None:
    """10,000 intervals after each other, and a long one: a search compares few of them."""
    compared = 0

    class Counted:
        def __init__(self, since: int, until: int) -> None:
            self.since = since
            self._until = until

        @property
        def until(self) -> int:
            nonlocal compared
            compared += 1
            return self._until

    tree = IntervalTree([Counted(each, each + 1) for each in range(0, 20_000, 2)] + [Counted(-1, 30_000)])
    for stamp in (5_001, 15_001):
        compared = 0
        assert len(list(tree.at(stamp))) == 1
        assert compared < 60
