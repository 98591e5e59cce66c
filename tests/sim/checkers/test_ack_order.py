"""Acknowledgements that overtake each other."""

from __future__ import annotations

from strogoff.sim.checkers.ack_order import check
from tests.sim.scene import Story


def scene() -> Story:
    story = Story()
    story.connect("w")
    return story


def test_in_order() -> None:
    story = scene()
    first, second = story.publish("w-1", acked=False), story.publish("w-2", acked=False)
    story.ack(first)
    story.ack(second)
    assert list(check(story.case())) == []


def test_overtaken_by_one_that_was_sent_later() -> None:
    story = scene()
    first = story.publish("w-1", acked=False)
    story.publish("w-2")
    what = "ack order: w, connection 1: w-2 was acknowledged before w-1, which was sent before it"
    assert list(check(story.case())) == [what]
    story.ack(first)
    assert list(check(story.case())) == [what]


def test_another_qos_and_another_connection_do_not_matter() -> None:
    story = scene()
    story.publish("w-1", qos=2, acked=False)
    story.publish("w-2", qos=1, acked=False, resent=1)
    story.connect("w")
    story.publish("w-3", qos=1)
    assert list(check(story.case())) == []


def test_a_refusal_is_an_answer() -> None:
    story = scene()
    first = story.publish("w-1", acked=False)
    first.refused = story.tick()
    story.publish("w-2")
    assert list(check(story.case())) == []
