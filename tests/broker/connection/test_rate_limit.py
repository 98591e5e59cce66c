"""`max_message_rate`: a client above it is not read until the next second."""

from __future__ import annotations

from strogoff.broker.connection.flow_control import FlowControl
from strogoff.broker.connection.rate_limit import RateLimit
from strogoff.mqtt import packets
from tests.harness.broker import BrokerHarness

MESSAGE = packets.Publish("t", b"", 0, False, False, 0, None)


def flow() -> FlowControl:
    broker = BrokerHarness()
    broker.client("c")
    (connection,) = broker.node.connections.values()
    return connection.flow


def test_a_client_above_the_rate_is_not_read() -> None:
    limit, control = RateLimit(), flow()
    limit.count([MESSAGE] * 3, 3, 5_000, control)
    assert "throttle" not in control.paused_for and control.per_turn == 1
    limit.count([MESSAGE], 3, 5_999, control)
    assert "throttle" in control.paused_for


def test_each_second_counts_anew() -> None:
    limit, control = RateLimit(), flow()
    limit.count([MESSAGE] * 3, 3, 5_000, control)
    limit.count([MESSAGE] * 2, 3, 6_000, control)
    assert "throttle" not in control.paused_for and control.per_turn == 1
    limit.count([], 3, 7_000, control)
    assert control.per_turn == 3


def test_acknowledgements_are_not_counted() -> None:
    limit, control = RateLimit(), flow()
    limit.count([packets.Puback(1), packets.Pubrec(2), packets.Pubrel(3), packets.Pubcomp(4)], 1, 5_000, control)
    assert "throttle" not in control.paused_for


def test_without_a_rate_a_turn_has_its_full_size() -> None:
    limit, control = RateLimit(), flow()
    limit.count([MESSAGE] * 9, 10, 5_000, control)
    assert control.per_turn == 1
    limit.count([MESSAGE] * 9, 0, 5_000, control)
    assert control.per_turn == control.turn_size
