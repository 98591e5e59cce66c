"""The input of checkers."""

from __future__ import annotations

from math import inf

import pytest

from strogoff.mqtt.topics import levels
from strogoff.netsplit.policy import ViewState
from strogoff.sim.checkers.case import topic_matches

from ..histories import HistoryBuilder


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("a/b", "a/b", True), ("a/b", "a/b/c", False), ("a/b/c", "a/b", False), ("a/+", "a/b", True),
        ("a/+", "a/b/c", False), ("a/#", "a", True), ("a/#", "a/b/c", True), ("#", "a", True), ("+/b", "a/b", True),
    ],
)  # fmt: skip
def test_filters(pattern: str, topic: str, matches: bool) -> None:
    assert levels(topic) and topic_matches(pattern, topic) is matches


def test_messages_that_are_owed() -> None:
    """Sent after SUBACK, acknowledged before UNSUBSCRIBE, with QoS above 0 on both sides."""
    builder = HistoryBuilder()
    builder.connect("s")
    builder.publish("w-1")
    first = builder.subscribe("s", "t/#")
    builder.publish("w-2")
    builder.publish("w-3", qos=0)
    builder.publish("w-4", acked=False)
    builder.publish("w-5", topic="u/1")
    first.given_up = builder.tick()
    builder.publish("w-6")
    assert [(each.filter, attempt.key) for each, attempt in builder.case().owed(False)] == [("t/#", "w-2")]


def test_shared_subscriptions_are_owed_apart() -> None:
    builder = HistoryBuilder()
    builder.connect("s")
    builder.subscribe("s", "$share/g/t/#")
    builder.publish("w-1")
    assert list(builder.case().owed(False)) == [] and len(list(builder.case().owed(True))) == 1


def test_nothing_is_owed_to_a_session_that_is_gone() -> None:
    builder = HistoryBuilder()
    builder.connect("s")
    builder.subscribe("s", "t/#")
    builder.publish("w-1")
    builder.connect("s", epoch=2)
    assert list(builder.case().owed(False)) == []


def test_nothing_is_owed_to_a_session_that_went_with_a_disk() -> None:
    """The CONNACK of the new session is lost, so the client takes the new session for its old one."""
    builder = HistoryBuilder()
    builder.connect("s")
    builder.subscribe("s", "t/#")
    builder.publish("w-1")
    builder.tick()
    builder.history.life().emptied.append(builder.now)
    builder.connect("s")
    builder.publish("w-2")
    assert list(builder.case().owed(False)) == []
    builder.subscribe("s", "t/0")
    builder.publish("w-3")
    assert [(each.filter, attempt.key) for each, attempt in builder.case().owed(False)] == [("t/0", "w-3")]


def test_when_the_node_is_up_again() -> None:
    builder = HistoryBuilder()
    builder.start()
    builder.fault("kill")
    builder.start()
    case = builder.case()
    assert [case.up_from(at_s) for at_s in (1.5, 2.0, 2.5, 3.5)] == [1.5, 3.0, 3.0, 3.5]


@pytest.mark.parametrize(
    ("time_s", "from_s"), [(0.5, 0.5), (1.0, 15.0), (2.0, 15.0), (6.9, 15.0), (7.5, 15.0), (15.0, 15.0), (20.0, inf)]
)
def test_when_a_node_has_had_a_lease_for_the_grace_of_a_failover(time_s: float, from_s: float) -> None:
    """The node has no lease from 1 to 2 s, from 7 to 10 s, and from 20 s on. A grace takes 5 s."""
    history = HistoryBuilder()
    states = ((0, True), (1, False), (2, True), (7, False), (10, True), (20, False))
    for at_s, leased in states:
        history.history.views.note("n1", at_s, ViewState.WHOLE if leased else ViewState.MINORITY)
    assert history.case().leased_from(time_s, "n1") == from_s
