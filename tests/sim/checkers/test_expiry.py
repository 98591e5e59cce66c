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
    """[MQTT5-3.3.2-5], unless it was sent before."""
    builder = HistoryBuilder()
    builder.publish("w-1", expiry_s=5)
    builder.now += waited - 1
    builder.deliver("w-1", dup=dup)
    assert bool(list(check(builder.case()))) is late


@pytest.mark.parametrize(("connection", "expected"), [(1, 4), (2, 1), (3, 0)])
def test_messages_that_only_seem_to_come_again_are_few(connection: int, expected: int) -> None:
    """H-51: each kill turns as many into sent ones as memory has."""
    builder = HistoryBuilder(memory_window=2)
    for key in ("w-1", "w-2", "w-3"):
        builder.publish(key, expiry_s=5)
        builder.history.doubtful.add(("s", key))
    builder.now += 10
    for key in ("w-1", "w-1", "w-2", "w-3"):
        builder.deliver(key, dup=True, connection=connection)
    assert len(list(check(builder.case()))) == expected
    assert all("expired late" in text for text in check(builder.case()))


def test_one_without_an_interval_is_nothing_to_judge() -> None:
    builder = HistoryBuilder()
    builder.publish("w-1")
    builder.now += 1000
    builder.deliver("w-1")
    builder.drop("w-1", reason="queue_full")
    assert list(check(builder.case())) == []
