"""Messages expire at their time."""

from __future__ import annotations

import pytest

from strogoff.sim.checkers.expiry import check

from ..histories import HistoryBuilder


@pytest.mark.parametrize(("waited", "early"), [(1, True), (4, True), (6, False)])
def test_not_before(waited: int, early: bool) -> None:
    """[MQTT5-3.3.2-5] a message must be delivered until its interval is over."""
    builder = HistoryBuilder()
    builder.publish("w-1", expiry_s=5)
    builder.now += waited - 2
    builder.drop("w-1", reason="expired")
    assert bool(list(check(builder.case()))) is early


@pytest.mark.parametrize(("waited", "dup", "late"), [(3, False, False), (7, False, True), (7, True, False)])
def test_not_after(waited: int, dup: bool, late: bool) -> None:
    """[MQTT5-3.3.2-5], unless it may have been sent before."""
    builder = HistoryBuilder()
    builder.publish("w-1", expiry_s=5)
    builder.now += waited - 1
    builder.deliver("w-1", dup=dup)
    assert bool(list(check(builder.case()))) is late


def test_one_without_an_interval_is_nothing_to_judge() -> None:
    builder = HistoryBuilder()
    builder.publish("w-1")
    builder.now += 1000
    builder.deliver("w-1")
    builder.drop("w-1", reason="queue_full")
    assert list(check(builder.case())) == []
