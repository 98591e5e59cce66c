"""The named timers of a connection."""

from __future__ import annotations

from strogoff.broker.connection.timers import ConnectionTimers
from tests.harness.broker import BrokerHarness


def test_a_timer_is_replaced_by_its_name() -> None:
    broker = BrokerHarness()
    timers, rung = ConnectionTimers(broker.node.env), []
    timers.set("a", 1000, lambda: rung.append("first"))
    timers.set("a", 2000, lambda: rung.append("second"))
    timers.set("b", 1000, lambda: rung.append("other"))
    broker.pass_s(3.0)
    assert rung == ["other", "second"]


def test_a_timer_is_cancelled_by_its_name_or_with_all() -> None:
    broker = BrokerHarness()
    timers, rung = ConnectionTimers(broker.node.env), []
    for name in ("a", "b", "c"):
        timers.set(name, 1000, lambda name=name: rung.append(name))  # type: ignore[misc]
    timers.cancel("a")
    timers.cancel("unknown")
    timers.cancel_all()
    timers.set("d", 1000, lambda: rung.append("d"))
    broker.pass_s(3.0)
    assert rung == ["d"]
