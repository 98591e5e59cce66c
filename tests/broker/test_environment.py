"""The time of a node: set at the begin of a turn, and moved once when the cluster's time becomes known."""

from __future__ import annotations

import pytest

from strogoff.broker.environment import Environment
from strogoff.broker.timers import STEP
from strogoff.cluster.clock import ALARM_MS
from strogoff.sim.engine.host import EPOCH_MS
from tests.harness.broker import BrokerHarness


class Newcomer(BrokerHarness):
    """A node that waits for the time of its cluster. `ran` has the times in ms at which its deadlines fired."""

    def __init__(self) -> None:
        super().__init__()
        self.env: Environment = self.node.env
        self.ran: list[int] = []
        self.env.clock.ask_cluster()

    def deadline(self, delay_ms: int) -> None:
        self.env.timers.at(self.env.tick() + delay_ms, lambda: self.ran.append(self.env.now))

    def follow(self, ahead_ms: float) -> None:
        """Set the leader's time this much ahead of the time here."""
        self.env.follow(EPOCH_MS + ahead_ms)


def test_tick_sets_the_time_of_the_turn() -> None:
    broker = BrokerHarness()
    env = broker.node.env
    before = env.tick()
    broker.loop.run_for(1.5)
    assert (env.tick(), env.now) == (before + 1500, before + 1500)


def test_the_time_does_not_change_between_ticks() -> None:
    broker = BrokerHarness()
    env = broker.node.env
    before = env.tick()
    broker.pass_s(0.5)
    assert env.now == before < env.clock.now_ms()


def test_wake_runs_the_timers_that_are_due_at_the_new_time() -> None:
    broker = BrokerHarness()
    env = broker.node.env
    start = env.tick()
    ran: list[tuple[str, int]] = []
    env.timers._wake_at = lambda when_ms: None
    env.timers.at(start + 100, lambda: ran.append(("due", env.now)))
    env.timers.at(start + 900, lambda: ran.append(("later", env.now)))
    broker.pass_s(0.5)
    assert ran == []
    env.wake()
    assert ran == [("due", start + 500)]


def test_a_deadline_wakes_the_node() -> None:
    broker = BrokerHarness()
    env = broker.node.env
    start = env.tick()
    ran: list[int] = []
    env.timers.at(start + 100, lambda: ran.append(env.now))
    broker.pass_s(0.2)
    assert ran == [start + 100]


def test_many_deadlines_of_a_millisecond_take_many_turns() -> None:
    """Other functions run in between, and no time passes."""
    broker = BrokerHarness()
    env = broker.node.env
    due = env.tick() + 100
    ran: list[int] = []
    for _ in range(5 * STEP):
        env.timers.at(due, lambda: ran.append(env.now))
    broker.pass_s(0.05)
    longest = 0
    while len(ran) < 5 * STEP:
        before = len(ran)
        assert broker.loop.turn() and env.clock.now_ms() <= due
        longest = max(longest, len(ran) - before)
    assert longest == STEP and set(ran) == {due}


def test_a_deadline_moves_when_time_is_set_back() -> None:
    node = Newcomer()
    node.deadline(1000)
    node.follow(-60_000)
    node.pass_s(0.9)
    assert node.ran == []
    node.pass_s(0.2)
    assert node.ran == [EPOCH_MS - 60_000 + 1000]


def test_a_deadline_that_has_passed_is_due_when_time_is_set_ahead() -> None:
    node = Newcomer()
    node.deadline(1000)
    node.deadline(100_000)
    node.follow(60_000)
    assert node.ran == [EPOCH_MS + 60_000]
    assert node.env.now == EPOCH_MS + 60_000


def test_time_is_set_once() -> None:
    node = Newcomer()
    node.follow(60_000)
    node.deadline(1000)
    node.follow(-60_000)
    assert node.env.tick() == EPOCH_MS + 60_000
    node.pass_s(0.9)
    assert node.ran == []
    assert len(node.host.lines) == 1


@pytest.mark.parametrize(("ahead_ms", "shown"), [(5000, "+5.0"), (-2500, "-2.5")])
def test_a_large_change_of_time_is_logged(ahead_ms: int, shown: str) -> None:
    node = Newcomer()
    node.follow(ahead_ms)
    assert node.host.lines == [
        ("warning", f"cluster time is set by {shown} s to follow another node"),
    ]


@pytest.mark.parametrize("ahead_ms", [ALARM_MS, -ALARM_MS])
def test_a_small_change_of_time_is_not_logged(ahead_ms: int) -> None:
    node = Newcomer()
    node.follow(ahead_ms)
    assert node.env.tick() == EPOCH_MS + ahead_ms
    assert node.host.lines == []


def test_the_log_names_the_wall_clock() -> None:
    node = Newcomer()
    node.host.wall_off_ms = 5000.0
    node.env.follow(None)
    assert node.host.lines == [("warning", "cluster time is set by +5.0 s to follow the wall clock")]


def test_an_event_is_recorded_at_the_level_of_sessions() -> None:
    broker, silent = BrokerHarness(level=1), BrokerHarness(level=0)
    for each in (broker, silent):
        each.node.env.event("will.cancel", client="c", reason="resumed")
    assert [event["client"] for event in broker.events("will.cancel")] == ["c"]
    assert silent.events("will.cancel") == []
