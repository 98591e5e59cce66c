"""Publishes that wait without an excuse."""

from __future__ import annotations

import pytest

from strogoff.netsplit.policy import ViewState
from strogoff.sim.checkers.unanswered import Waits, accepted, denied_at
from tests.sim.histories import HistoryBuilder

WHOLE, MAJORITY, MINORITY = ViewState.WHOLE, ViewState.MAJORITY, ViewState.MINORITY


def test_only_time_without_an_excuse_counts() -> None:
    attempt = HistoryBuilder().publish("w-1", acked=False)
    waits = Waits()
    for _ in range(5):
        assert list(waits.judge(2.0, [attempt], {"n1": 1.0, "n2": 0.0})) == []
    for _ in range(3):
        assert list(waits.judge(2.0, [attempt], {"n1": 1.0})) == []
    assert list(waits.judge(2.0, [attempt], {"n1": 1.0})) == [
        "unanswered: w-1 at n1, though all it may wait for is there"
    ]
    assert list(waits.judge(2.0, [], {"n1": 1.0})) == []


def test_the_wait_of_a_publish_starts_at_the_answer_to_its_predecessor() -> None:
    """3 nodes, seed 106112: many QoS 2 messages wait for a slow disk, one commit for each, and then comes a cut."""
    builder = HistoryBuilder()
    first, second, third = (builder.publish(f"w-{number}", acked=False) for number in (1, 2, 3))
    third.qos = 2
    waits = Waits()
    for _ in range(3):
        assert list(waits.judge(2.0, [second, first, third], {"n1": 1.0})) == []
    found = list(waits.judge(2.0, [second, first, third], {"n1": 1.0}))
    assert [text.split()[1] for text in found] == ["w-3", "w-1"]
    for _ in range(3):
        assert list(waits.judge(2.0, [second], {"n1": 1.0})) == []
    assert len(list(waits.judge(2.0, [second], {"n1": 1.0}))) == 1


@pytest.mark.parametrize(("qos", "late"), [(1, []), (2, ["w-1"])])
def test_the_wait_of_a_publish_with_qos_1_starts_when_it_was_sent_last(qos: int, late: list[str]) -> None:
    """3 nodes, copies, seed 5400524: disks are slow, and the client took over from itself between two looks."""
    attempt = HistoryBuilder().publish("w-1", qos=qos, acked=False)
    waits = Waits()
    for _ in range(3):
        assert list(waits.judge(2.0, [attempt], {"n1": 1.0})) == []
    attempt.resent = 1
    found = [text.split()[1] for text in waits.judge(2.0, [attempt], {"n1": 1.0})]
    assert found == late
    for _ in range(2):
        list(waits.judge(2.0, [attempt], {"n1": 1.0}))
    assert len(list(waits.judge(2.0, [attempt], {"n1": 1.0}))) == 1


def test_with_two_copies_a_publish_makes_three_times_as_many_trips_over_a_slow_link() -> None:
    """3 nodes, copies and relay, seed 9: a PUBLISH with QoS 2 while a link takes 1.2 s more."""
    attempt = HistoryBuilder().publish("w-1", acked=False)
    waits = Waits()
    for _ in range(9):
        assert list(waits.judge(2.0, [attempt], {"n1": 1.0}, slow_copies=True)) == []
    assert len(list(waits.judge(2.0, [attempt], {"n1": 1.0}, slow_copies=True))) == 1


@pytest.mark.parametrize(
    ("flag", "arrival", "later", "dup", "expected"),
    [
        ("off", {WHOLE}, {MAJORITY}, False, True),
        ("off", {WHOLE, MAJORITY}, {MAJORITY}, False, False),  # it may have been a moment too late
        ("off", {MAJORITY}, {MAJORITY, MINORITY}, False, False),
        ("off", {MAJORITY}, {MAJORITY, WHOLE}, False, True),
        ("off", {MAJORITY}, {MAJORITY}, True, True),
        ("off", {MINORITY}, {MAJORITY}, True, False),
        ("majority", {MAJORITY}, set(), False, True),
        ("majority", {MINORITY}, {MINORITY}, False, False),
        ("majority", {MINORITY}, {MAJORITY}, False, True),
        ("on", {MINORITY}, set(), False, True),
    ],
)
def test_a_publish_is_accepted_for_sure_once_the_policy_allowed_it(
    flag: str, arrival: set[ViewState], later: set[ViewState], dup: bool, expected: bool
) -> None:
    assert accepted(flag, arrival, later, dup) is expected


def test_a_publish_that_waited_for_the_disk_is_checked_later() -> None:
    """3 nodes, seed 41750: the id of a QoS 2 PUBLISH must be on disk before it is routed."""
    attempt = HistoryBuilder().publish("w-1", acked=False)
    denied = {"type": "policy.deny", "client": "w", "topic": "t/0"}
    events = [(1.0, denied), (2.0, {**denied, "topic": "t/1"}), (3.0, {**denied, "client": "v"})]
    assert denied_at(events, attempt, 0.5) == 1.0
    assert denied_at(events, attempt, 1.5) == 0.0
    assert denied_at([*events, (4.0, denied), (5.0, {"type": "will.fire", "client": "w"})], attempt, 1.5) == 4.0
