"""Messages expire at their time."""

from __future__ import annotations

import pytest

from strogoff.sim.checkers.expiry import check

from ..scene import Story


@pytest.mark.parametrize(("waited", "early"), [(1, True), (4, True), (6, False)])
def test_not_before(waited: int, early: bool) -> None:
    """[MQTT5-3.3.2-5] holds the other way round as well: a message is owed until its interval is over."""
    story = Story()
    story.publish("w-1", expiry_s=5)
    story.now += waited - 2
    story.drop("w-1", reason="expired")
    assert bool(list(check(story.case()))) is early


@pytest.mark.parametrize(("waited", "dup", "late"), [(3, False, False), (7, False, True), (7, True, False)])
def test_not_after(waited: int, dup: bool, late: bool) -> None:
    """[MQTT5-3.3.2-5], unless it may have been sent before."""
    story = Story()
    story.publish("w-1", expiry_s=5)
    story.now += waited - 1
    story.deliver("w-1", dup=dup)
    assert bool(list(check(story.case()))) is late


def test_one_without_an_interval_is_nothing_to_judge() -> None:
    story = Story()
    story.publish("w-1")
    story.now += 1000
    story.deliver("w-1")
    story.drop("w-1", reason="queue_full")
    assert list(check(story.case())) == []
