"""One owner of each client id."""

from __future__ import annotations

from strogoff.sim.checkers.owners import check

from ..scene import Story


def test_the_older_connection_is_over_when_the_later_one_is_open() -> None:
    """[MQTT-3.1.4-2] [MQTT5-3.1.4-3]"""
    story = Story()
    first = story.connect("s")
    second = story.connect("s")
    assert list(check(story.case())) == ["two owners: s, connection 1 goes on beside 2"]
    first.came_back_at = second.opened_at + 1
    assert len(list(check(story.case()))) == 1
    first.came_back_at = second.opened_at
    assert list(check(story.case())) == []
