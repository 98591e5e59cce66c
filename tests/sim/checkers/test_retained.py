"""A new subscription gets the newest retained message."""

from __future__ import annotations

from strogoff.sim.checkers.retained import check

from ..histories import HistoryBuilder


def builder() -> HistoryBuilder:
    made = HistoryBuilder()
    for number in (1, 2):
        made.publish(f"w-{number}", topic="r/0", retain=True)
    made.connect("s", present=False)
    made.subscribe("s", "r/#")
    return made


def test_none_or_an_old_one_is_wrong() -> None:
    """[MQTT-3.3.1-6] [MQTT5-3.3.1-9]"""
    made = builder()
    made.now += 10
    assert [text.split(" for ")[0] for text in check(made.case())] == ["retained: s subscribed to r/# and got nothing"]
    made.deliver("w-1", retained=True)
    assert len(list(check(made.case()))) == 1
    made.deliver("w-2", retained=True)
    assert list(check(made.case())) == []


def test_a_later_one_is_right() -> None:
    made = builder()
    made.publish("w-3", topic="r/0", retain=True, acked=False)
    made.deliver("w-3")
    made.now += 10
    assert list(check(made.case())) == []


def test_a_connection_that_was_short_is_not_judged() -> None:
    made = builder()
    made.now += 1
    assert list(check(made.case())) == []
