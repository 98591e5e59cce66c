"""One owner of each client id."""

from __future__ import annotations

from strogoff.sim.checkers.owners import check

from ..histories import HistoryBuilder


def test_the_older_connection_is_over_when_the_later_one_is_open() -> None:
    """[MQTT-3.1.4-2] [MQTT5-3.1.4-3]"""
    builder = HistoryBuilder()
    first = builder.connect("s")
    second = builder.connect("s")
    assert list(check(builder.case())) == ["two owners: s, connection 1 goes on beside 2"]
    first.came_back_at = second.opened_at + 1
    assert len(list(check(builder.case()))) == 1
    first.came_back_at = second.opened_at
    assert list(check(builder.case())) == []
