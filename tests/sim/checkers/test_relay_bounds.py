"""The checker finds numbers beyond their limits, and relays with one end."""

from __future__ import annotations

from strogoff.sim.checkers.relay_bounds import Level, ends, judge


def test_numbers_up_to_the_limit_are_in_order() -> None:
    assert list(judge("n1", [Level("bytes", 0, 5), Level("bytes", 5, 5)])) == []


def test_numbers_beyond_the_limits_are_found() -> None:
    found = list(judge("n1", [Level("bytes", 6, 5), Level("credit", -1, 5)]))
    assert found == ["relay limit: n1 has bytes 6, of 5", "relay limit: n1 has credit -1, of 5"]


def test_relays_with_two_ends_are_in_order() -> None:
    assert list(ends({("n1", "n2"): {1, 2}, ("n2", "n1"): set()}, {("n1", "n2"): {1, 2}})) == []


def test_a_relay_with_one_end_is_found() -> None:
    begin = "n1 has {} connections that n2 does not have, and n2 has {} of n1 that it does not have"
    assert list(ends({("n1", "n2"): {1, 2}}, {("n1", "n2"): {1}})) == [begin.format(1, 0)]
    assert list(ends({}, {("n1", "n2"): {1}})) == [begin.format(0, 1)]
