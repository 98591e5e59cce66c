"""A set of numbers as ranges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.links.numbers import Numbers

SMALL = st.integers(1, 30)


@given(steps=st.lists(st.tuples(st.booleans(), SMALL)), first=SMALL, last=SMALL)
def test_it_is_a_set(steps: list[tuple[bool, int]], first: int, last: int) -> None:
    numbers, model = Numbers(), set[int]()
    for drops, number in steps:
        if drops:
            numbers.drop(number)
            model = {each for each in model if each > number}
        else:
            numbers.add(number)
            model.add(number)
    assert numbers.within(first, last) == sorted(each for each in model if first <= each <= last)
    gaps = sum(each - 1 not in model for each in model)
    assert len(numbers._firsts) == len(numbers._lasts) == gaps


def test_its_memory_follows_the_number_of_gaps() -> None:
    numbers = Numbers()
    for number in range(1, 10_001):
        if number % 1000:
            numbers.add(number)
    assert numbers._firsts == list(range(1, 10_000, 1000)) and numbers.within(999, 1002) == [999, 1001, 1002]
    for number in range(1000, 10_001, 1000):
        numbers.add(number)
    assert (numbers._firsts, numbers._lasts) == ([1], [10_000])
