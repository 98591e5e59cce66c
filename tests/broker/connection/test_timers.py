"""The timers of a connection: one for each name, none after the connection is closed."""

from __future__ import annotations

from strogoff.broker.connection.timers import ConnectionTimers
from tests.harness.broker import BrokerHarness, PacketClient


class Waiting(BrokerHarness):
    """Timers that note which of them ran, and after how many ms."""

    def __init__(self) -> None:
        super().__init__()
        self.timers = ConnectionTimers(self.node.env)
        self.begin = self.node.env.tick()
        self.ran: list[tuple[str, int]] = []

    def set(self, name: str, delay_ms: int, note: str = "") -> None:
        self.timers.set(name, delay_ms, lambda: self.ran.append((note or name, self.node.env.now - self.begin)))


def test_a_timer_runs_once_after_its_delay() -> None:
    broker = Waiting()
    broker.set("a", 100)
    broker.set("b", 50)
    broker.pass_s(1.0)
    assert broker.ran == [("b", 50), ("a", 100)]


def test_a_timer_replaces_the_timer_of_its_name() -> None:
    broker = Waiting()
    broker.set("a", 100, "old")
    broker.set("a", 200, "new")
    broker.pass_s(1.0)
    assert broker.ran == [("new", 200)]


def test_a_timer_that_has_run_can_be_set_again() -> None:
    broker = Waiting()
    broker.set("a", 100, "first")
    broker.pass_s(0.1)
    broker.set("a", 100, "second")
    broker.pass_s(1.0)
    assert broker.ran == [("first", 100), ("second", 200)]


def test_a_cancelled_timer_does_not_run() -> None:
    broker = Waiting()
    broker.set("a", 100)
    broker.set("b", 100)
    broker.timers.cancel("a")
    broker.timers.cancel("a")
    broker.timers.cancel("never set")
    broker.pass_s(1.0)
    assert broker.ran == [("b", 100)]


def test_all_timers_are_cancelled_at_once() -> None:
    broker = Waiting()
    broker.set("a", 100)
    broker.set("b", 100)
    broker.timers.cancel_all()
    broker.timers.cancel_all()
    broker.pass_s(1.0)
    assert broker.ran == []


def test_a_connection_that_closes_leaves_no_timer() -> None:
    broker = BrokerHarness()
    before = len(broker.node.env.timers)
    client = broker.client("c", keepalive_s=10)
    assert len(broker.node.env.timers) > before
    client.leave()
    assert len(broker.node.env.timers) == before


def test_a_connection_waits_for_connect() -> None:
    broker = BrokerHarness(mqtt_connect_timeout_ms=1000)
    silent = PacketClient(broker, 4)
    broker.pass_s(0.9)
    assert not silent.closed
    broker.pass_s(0.2)
    assert silent.closed
