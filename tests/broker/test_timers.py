"""A heap of deadlines that its owner drives."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.timers import STEP, Timers


class Driven:
    """Timers that note when they asked for a wake-up."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.ran: list[str] = []
        self.timers = Timers(self.asked.append)

    def at(self, when_ms: int, name: str) -> object:
        return self.timers.at(when_ms, lambda: self.ran.append(name))


def test_due_timers_run_in_order_of_time_and_then_of_setting() -> None:
    driven = Driven()
    for when, name in ((30, "c"), (10, "a"), (10, "b"), (40, "d")):
        driven.at(when, name)
    driven.timers.run(30)
    assert driven.ran == ["a", "b", "c"]
    assert len(driven.timers) == 1


def test_many_timers_run_in_steps() -> None:
    """In between the loop does other work. The order stays, and a timer that is set meanwhile comes last."""
    driven = Driven()
    names = [str(number) for number in range(2 * STEP + 1)]
    for name in names:
        driven.at(10, name)
    driven.timers.run(10)
    assert driven.ran == names[:STEP] and driven.asked[-1] == 10
    driven.at(10, "late")
    driven.timers.run(10)
    assert driven.ran == names[: 2 * STEP] and driven.asked[-1] == 10
    driven.at(99, "not due")
    driven.timers.run(10)
    assert driven.ran == [*names, "late"] and driven.asked[-1] == 99


def test_cancelled_timers_do_not_count_as_a_step() -> None:
    driven = Driven()
    cancelled = [driven.timers.at(10, lambda: driven.ran.append("never")) for _ in range(60)]
    for number in range(STEP):
        driven.at(10, str(number))
    for timer in cancelled:
        driven.timers.cancel(timer)
    driven.timers.run(10)
    assert len(driven.ran) == STEP and "never" not in driven.ran


def test_a_timer_that_raises_leaves_the_others_a_wake_up() -> None:
    driven = Driven()
    driven.timers.at(10, lambda: driven.ran.append(str(1 / 0)))
    driven.at(10, "due")
    driven.at(20, "later")
    driven.asked.clear()
    with pytest.raises(ZeroDivisionError):
        driven.timers.run(10)
    assert driven.asked == [10]
    driven.timers.run(20)
    assert driven.ran == ["due", "later"]


def test_timers_request_a_wake_up_for_the_earliest() -> None:
    driven = Driven()
    driven.at(30, "late")
    driven.at(10, "early")
    driven.at(20, "between")
    assert driven.asked == [30, 10]
    driven.timers.run(10)
    assert driven.asked[-1] == 20


def test_a_cancelled_timer_does_not_run() -> None:
    driven = Driven()
    timer = driven.timers.at(10, lambda: driven.ran.append("never"))
    driven.timers.cancel(timer)
    driven.timers.cancel(timer)
    driven.timers.cancel(None)
    driven.timers.run(20)
    assert driven.ran == []
    assert len(driven.timers) == 0


def test_a_timer_that_sets_itself_again_runs_once_per_tick() -> None:
    driven = Driven()

    def again() -> None:
        driven.ran.append("again")
        driven.timers.at(5, again)

    driven.timers.at(5, again)
    driven.timers.run(10)
    assert driven.ran == ["again"]
    assert driven.asked[-1] == 5


def test_cancelled_timers_do_not_pile_up() -> None:
    driven = Driven()
    for number in range(10_000):
        driven.timers.cancel(driven.timers.at(1000 + number, lambda: None))
    driven.at(5000, "left")
    assert len(driven.timers._heap) < 200
    driven.timers.run(20_000)
    assert driven.ran == ["left"]


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=200))
def test_timers_agree_with_a_sorted_list(plan: list[tuple[int, bool]]) -> None:
    driven = Driven()
    expected = []
    for number, (when, cancelled) in enumerate(plan):
        timer = driven.timers.at(when, partial(driven.ran.append, str(number)))
        if cancelled:
            driven.timers.cancel(timer)
        elif when <= 25:
            expected.append((when, number))
    while len(driven.ran) < len(expected):
        before = len(driven.ran)
        driven.timers.run(25)
        assert len(driven.ran) == min(before + STEP, len(expected))
    assert driven.ran == [str(number) for _, number in sorted(expected)]


def test_deadlines_move_with_the_time_that_is_set() -> None:
    driven = Driven()
    driven.at(1000, "first")
    driven.at(1010, "second")
    driven.timers.shift(-900)
    driven.timers.run(99)
    assert driven.ran == [] and driven.asked[-1] == 100
    driven.timers.run(105)
    assert driven.ran == ["first"] and driven.asked[-1] == 110
