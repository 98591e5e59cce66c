"""Acknowledgements that overtake each other."""

from __future__ import annotations

from strogoff.sim.checkers.ack_order import check
from tests.sim.histories import HistoryBuilder


def make_history() -> HistoryBuilder:
    builder = HistoryBuilder()
    builder.connect("w")
    return builder


def test_in_order() -> None:
    builder = make_history()
    first, second = builder.publish("w-1", acked=False), builder.publish("w-2", acked=False)
    builder.ack(first)
    builder.ack(second)
    assert list(check(builder.case())) == []


def test_overtaken_by_one_that_was_sent_later() -> None:
    builder = make_history()
    first = builder.publish("w-1", acked=False)
    builder.publish("w-2")
    what = "ack order: w, connection 1: w-2 was acknowledged before w-1, although it was sent later"
    assert list(check(builder.case())) == [what]
    builder.ack(first)
    assert list(check(builder.case())) == [what]


def test_another_qos_and_another_connection_do_not_matter() -> None:
    builder = make_history()
    builder.publish("w-1", qos=2, acked=False)
    builder.publish("w-2", qos=1, acked=False, resent=1)
    builder.connect("w")
    builder.publish("w-3", qos=1)
    assert list(check(builder.case())) == []


def test_a_refusal_is_an_answer() -> None:
    builder = make_history()
    first = builder.publish("w-1", acked=False)
    first.refused = builder.tick()
    builder.publish("w-2")
    assert list(check(builder.case())) == []
