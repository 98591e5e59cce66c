"""Time of a node: the begin of a turn, deadlines, and what happens to them when cluster time is set."""

from __future__ import annotations

from strogoff.cluster.clock import ClusterClock
from tests.harness.broker import BrokerHarness


def test_a_tick_takes_the_time_of_the_turn() -> None:
    broker = BrokerHarness()
    env = broker.node.env
    before = env.now
    broker.pass_s(2.0)
    assert env.tick() == env.now == env.clock.now_ms() >= before + 2000


def test_a_wake_up_runs_the_deadlines_that_are_due() -> None:
    env = BrokerHarness().node.env
    done: list[str] = []
    env.timers.at(env.clock.now_ms(), lambda: done.append("due"))
    env.timers.at(env.clock.now_ms() + 60_000, lambda: done.append("later"))
    env.wake()
    assert done == ["due"]


class SetBack(ClusterClock):
    """A clock that its leader sets back by 10 s."""

    __slots__ = ()

    def follow(self, offset_ms: float | None) -> float:
        return -10_000.0


def test_a_clock_that_is_set_back_moves_the_deadlines_and_is_logged() -> None:
    broker = BrokerHarness()
    env = broker.node.env
    env.clock.__class__ = SetBack
    done: list[int] = []
    env.timers.at(env.clock.now_ms() + 9_000, lambda: done.append(1))
    env.follow(0.0)
    assert done == [1]
    assert any("cluster time is set by -10.0 s" in line for level, line in broker.host.lines if level == "warning")


def test_an_event_is_emitted_unless_events_are_off() -> None:
    broker = BrokerHarness(level=0)
    broker.node.env.event("conn.open", client="c")
    assert broker.events("conn.open") == []
    broker.node.env.events.set_level(1)
    broker.node.env.event("sess.end", client="c", mountpoint="", reason="test")
    assert [event["client"] for event in broker.events("sess.end")] == ["c"]
