"""Sessions that many messages need are made some in each turn, and each message waits for its own (P8)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from strogoff.broker.routing.waking import FOR_A_LANE, PER_TURN, TARGETS
from strogoff.broker.sessions.slot_sessions import MOVES
from tests.harness.broker import BrokerHarness
from tests.harness.sleepers import asleep, most_made, sleepers, slow_steps, turn


@pytest.fixture
def broker() -> BrokerHarness:
    made = BrokerHarness()
    sleepers(made, PER_TURN + 1, ("a", 1), ("both/+", 1), ("both/#", 1))
    return made


def ask(broker: BrokerHarness, topic: str, then: Callable[[], None], **most: int) -> bool:
    router = broker.node.router
    return router.waking.waits(router.plans(""), topic, then, **most)


def never() -> None:
    raise AssertionError("nothing has waited")


def test_a_message_waits_if_it_needs_more_sessions_than_a_turn_makes(broker: BrokerHarness) -> None:
    told = list[str]()
    assert ask(broker, "a", lambda: told.append("a"))
    assert asleep(broker) == PER_TURN + 1
    assert most_made(broker) == PER_TURN
    assert told == ["a"]
    assert len(broker.node.router.waking) == 0
    assert not ask(broker, "a", never)


def test_a_message_that_needs_few_sessions_does_not_wait() -> None:
    broker = BrokerHarness()
    sleepers(broker, PER_TURN, ("a", 1))
    assert not ask(broker, "a", never)
    assert asleep(broker) == 0
    assert not ask(broker, "nobody", never)


def test_what_a_turn_has_made_counts_for_the_next_message() -> None:
    broker = BrokerHarness()
    sleepers(broker, PER_TURN - 1, ("a", 1), prefix="a")
    sleepers(broker, 2, ("b", 1), prefix="b")
    told = list[str]()
    assert not ask(broker, "a", never)
    assert ask(broker, "b", lambda: told.append("b"))
    broker.settle()
    assert told == ["b"]


def test_the_next_turn_may_make_as_many_again() -> None:
    broker = BrokerHarness()
    for topic in "ab":
        sleepers(broker, PER_TURN, (topic, 1), prefix=topic)
    assert not ask(broker, "a", never)
    turn(broker)
    assert not ask(broker, "b", never)


def test_a_session_with_several_subscriptions_counts_for_each(broker: BrokerHarness) -> None:
    """It is found once more while its first subscription is looked at, and that costs little."""
    told = list[str]()
    assert ask(broker, "both/x", lambda: told.append("both"))
    broker.settle()
    assert told == ["both"]
    assert asleep(broker) == 0
    assert len(broker.node.router.plans("").of("both/x").targets) == PER_TURN + 1


def test_a_lane_waits_for_more_sessions(broker: BrokerHarness) -> None:
    assert not ask(broker, "a", never, most=FOR_A_LANE)


def test_topics_take_turns_and_who_waits_goes_on_in_order(broker: BrokerHarness) -> None:
    sleepers(broker, PER_TURN + 1, ("b", 1), prefix="b")
    told = list[str]()
    for name in ("a", "b", "a"):
        assert ask(broker, name, partial(told.append, f"{name}{len(told)}"))
    assert len(broker.node.router.waking) == 2
    broker.settle()
    assert [each[0] for each in told] == ["a", "a", "b"]


def test_one_that_goes_on_may_wait_for_the_next_topic(broker: BrokerHarness) -> None:
    sleepers(broker, PER_TURN + 1, ("b", 1), prefix="b")
    told = list[str]()

    def go_on() -> None:
        assert not ask(broker, "a", never)
        assert ask(broker, "b", lambda: told.append("b"))

    assert ask(broker, "a", go_on)
    broker.settle()
    assert told == ["b"]


def test_a_large_plan_lets_one_go_on_in_a_turn() -> None:
    """Each message to so many sessions takes about a turn."""
    broker = BrokerHarness()
    sleepers(broker, 6 * TARGETS, ("a", 1))
    told = list[int]()

    def go_on(number: int) -> None:
        assert not ask(broker, "a", never)
        told.append(number)

    for number in range(PER_TURN):
        assert ask(broker, "a", partial(go_on, number))
    most, before = 0, 0
    while turn(broker):
        most, before = max(most, len(told) - before), len(told)
    assert told == list(range(PER_TURN))
    assert most == -(-PER_TURN // 7)


def test_an_error_of_one_stops_no_other(broker: BrokerHarness) -> None:
    told = list[str]()
    assert ask(broker, "a", never)
    assert ask(broker, "a", lambda: told.append("a"))
    with pytest.raises(AssertionError, match="nothing has waited"):
        broker.settle()
    broker.settle()
    assert told == ["a"]


def test_a_session_that_is_at_another_node_is_not_made(broker: BrokerHarness) -> None:
    for slot in range(256):
        broker.node.router.place(slot, MOVES)
    assert not ask(broker, "a", never)
    assert asleep(broker) == PER_TURN + 1


def test_slots_that_leave_meanwhile_keep_their_sessions_asleep(broker: BrokerHarness) -> None:
    told = list[str]()
    slow_steps(broker)
    sleepers(broker, PER_TURN, ("a", 1), prefix="more")
    assert ask(broker, "a", lambda: told.append("a"))
    broker.pass_s(0.15)
    assert 0 < asleep(broker) <= PER_TURN + 1
    for slot in range(256):
        broker.node.slot_sessions.lose(slot)
    broker.pass_s(1)
    assert told == ["a"]
    assert broker.node.sessions.in_memory() == []
    assert broker.node.router.plans("").of("a").targets == ()


def test_one_goes_on_without_the_sessions_that_the_disk_fails_to_return(
    broker: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[str]()

    def go_on() -> None:
        assert not ask(broker, "a", never)
        told.append("a")

    monkeypatch.setattr(broker.node.sessions, "wake", lambda client: None)
    assert ask(broker, "a", go_on)
    broker.settle()
    assert told == ["a"]
