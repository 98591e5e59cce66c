"""The checker finds numbers beyond their limits, and relays with one end."""

from __future__ import annotations

from strogoff.sim.checkers.relay_bounds import LONGEST_S, OneEnd, credit, ends, judge


def test_numbers_up_to_the_limit_are_in_order() -> None:
    assert list(judge("n1", [("bytes", 0, 5), ("bytes", 5, 5)])) == []


def test_numbers_beyond_the_limits_are_found() -> None:
    found = list(judge("n1", [("bytes", 6, 5), ("credit", -1, 5)]))
    assert found == ["relay limit: n1 has bytes 6, of 5", "relay limit: n1 has credit -1, of 5"]


def test_relays_with_two_ends_are_in_order() -> None:
    assert list(ends({("n1", "n2"): {1, 2}, ("n2", "n1"): set()}, {("n1", "n2"): {1, 2}})) == []


def test_a_relay_with_one_end_is_found() -> None:
    begin = "n1 has {} connections that n2 does not have, and n2 has {} of n1 that it does not have"
    assert list(ends({("n1", "n2"): {1, 2}}, {("n1", "n2"): {1}})) == [begin.format(1, 0)]
    assert list(ends({}, {("n1", "n2"): {1}})) == [begin.format(0, 1)]


def test_a_connection_with_one_end_is_found_after_a_while() -> None:
    pair = ("n1", "n2")
    checker = OneEnd()
    assert list(checker.judge(0.0, {pair: {1, 2}}, {pair: {1}})) == []
    assert list(checker.judge(LONGEST_S, {pair: {1, 2}}, {pair: {1}})) == []
    assert list(checker.judge(LONGEST_S + 1, {pair: {1, 2}}, {pair: {1}})) == [
        "one end: only n1 has a relayed connection between gateway n1 and primary n2"
    ]


def test_a_pair_without_a_tunnel_begins_anew() -> None:
    pair = ("n1", "n2")
    checker = OneEnd()
    assert list(checker.judge(0.0, {pair: {1}}, {pair: set()})) == []
    assert list(checker.judge(LONGEST_S, {}, {})) == []
    assert list(checker.judge(LONGEST_S + 1, {pair: {1}}, {pair: set()})) == []


def test_a_sender_with_more_credit_than_the_receiver_gave_is_found() -> None:
    assert list(credit("n1", "n2", 5, 5)) == []
    assert list(credit("n1", "n2", 6, 5)) == ["relay limit: n1 has credit of 6 bytes at n2, which gave 5"]
