"""Virtual time: functions run in the order of their times, and time passes only between events."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.sim.engine.loop import VirtualLoop


def test_soon_runs_at_the_end_of_the_turn() -> None:
    """Functions run in order, those that they schedule run in the next turn, and no time passes."""
    loop, seen = VirtualLoop(), []

    def first() -> None:
        seen.append("a")
        loop.call_soon(lambda: seen.append("c"))

    loop.call_soon(first)
    loop.call_soon(lambda: seen.append("b"))
    assert loop.turn() and seen == ["a", "b"]
    assert loop.turn() and seen == ["a", "b", "c"]
    assert not loop.turn() and loop.now_s == 0.0


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5]), max_size=20))
def test_later_runs_in_the_order_of_time(delays: list[float]) -> None:
    """Functions for the same time run in the order of scheduling."""
    loop = VirtualLoop()
    seen: list[tuple[float, int]] = []

    def note(number: int) -> None:
        seen.append((loop.now_s, number))

    for number, delay in enumerate(delays):
        loop.call_later(delay, partial(note, number))
    while loop.turn():
        pass
    assert seen == sorted((delay, number) for number, delay in enumerate(delays))


def test_cancelled_is_not_done() -> None:
    """This includes a function that is due at the same time."""
    loop, seen = VirtualLoop(), []
    second = loop.call_later(1, lambda: seen.append("second"))
    loop.call_later(0.5, second.cancel)
    loop.call_later(2, lambda: seen.append("third"))
    loop.run_for(10)
    assert seen == ["third"] and loop.now_s == 10


def test_a_cancelled_function_moves_no_time() -> None:
    """A cancelled function does not make the loop go on to a later one."""
    loop, seen = VirtualLoop(), []
    loop.call_later(0, lambda: seen.append("now")).cancel()
    loop.call_later(1, lambda: seen.append("one")).cancel()
    loop.call_later(5, lambda: seen.append("five"))
    loop.settle()
    assert seen == [] and loop.now_s == 0
    loop.run_for(2)
    assert seen == [] and loop.now_s == 2


def test_run_until_leaves_later_functions() -> None:
    """Functions for exactly that time run."""
    loop = VirtualLoop()
    seen: list[float] = []
    for when in (1.0, 2.0, 3.0):
        loop.call_later(when, partial(seen.append, when))
    loop.run_until(2.0)
    assert seen == [1.0, 2.0] and loop.now_s == 2.0
    loop.run_until(1.0)
    assert loop.now_s == 2.0  # time never goes back


def test_settle_lets_no_time_pass() -> None:
    """Functions that are due now run, and those that they schedule for now."""
    loop, seen = VirtualLoop(), []

    def at_once() -> None:
        loop.call_later(0, lambda: seen.append("now"))

    loop.call_later(0, lambda: loop.call_soon(at_once))
    loop.call_later(0.001, lambda: seen.append("later"))
    loop.settle()
    assert seen == ["now"] and loop.now_s == 0.0


def test_a_delay_below_zero_is_now() -> None:
    """The time does not go back."""
    loop, seen = VirtualLoop(), []
    loop.run_for(5)
    loop.call_later(-3, lambda: seen.append(loop.now_s))
    loop.settle()
    assert seen == [5.0]


def test_call_at_is_exact() -> None:
    """`call_at` keeps a time exact, whenever it is called; a past time is now."""
    loop, seen = VirtualLoop(), []
    when = 0.1 + 0.7

    def note(number: int) -> None:
        seen.append((loop.now_s, number))

    for number in range(20):
        loop.call_at(when, partial(note, number))
        loop.run_for(0.01 + number / 1000)
    loop.run_for(1)
    assert seen == [(when, number) for number in range(20)]
    loop.call_at(0.0, lambda: seen.append((loop.now_s, -1)))
    loop.settle()
    assert seen[-1] == (loop.now_s, -1)


def test_endless_work_raises_an_error() -> None:
    """A loop without an idle moment raises an error instead of hanging."""
    loop = VirtualLoop()

    def again() -> None:
        loop.call_soon(again)

    again()
    with pytest.raises(RuntimeError, match="still busy"):
        loop.settle(limit=100)
    with pytest.raises(RuntimeError, match="still busy"):
        loop.run_until(1.0, limit=100)
