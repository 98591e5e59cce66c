"""`max_message_rate`: the packets of each second are counted, and a client above the rate is not read."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.connection.rate_limit import RateLimit
from strogoff.mqtt import packets
from strogoff.sim.engine.host import EPOCH_MS
from tests.harness.broker import BrokerHarness, publish


class Limited(BrokerHarness):
    """One client and its rate."""

    def __init__(self) -> None:
        super().__init__()
        self.limited = self.client("c")
        (connection,) = self.node.connections.values()
        self.flow = connection.flow
        self.limit = RateLimit()

    def count(self, number: int, rate: int, later_ms: int = 0) -> None:
        handled: list[Any] = [packets.Publish("t", b"")] * number
        self.limit.count(handled, rate, EPOCH_MS + later_ms, self.flow)

    @property
    def throttled(self) -> bool:
        return "throttle" in self.flow.paused_for


def test_a_client_at_its_rate_is_read() -> None:
    broker = Limited()
    broker.count(2, 5)
    broker.count(3, 5)
    assert not broker.throttled


def test_a_client_above_its_rate_is_not_read_until_the_second_is_over() -> None:
    broker = Limited()
    broker.count(6, 5, later_ms=400)
    assert broker.throttled
    broker.pass_s(0.59)
    assert broker.throttled
    broker.pass_s(0.02)
    assert not broker.throttled


def test_the_count_starts_again_each_second() -> None:
    broker = Limited()
    broker.count(5, 5, later_ms=999)
    broker.count(5, 5, later_ms=1000)
    assert not broker.throttled
    broker.count(1, 5, later_ms=1999)
    assert broker.throttled


def test_a_turn_takes_the_rest_of_the_rate() -> None:
    broker = Limited()
    most = broker.flow.turn_size
    broker.count(2, 5)
    assert broker.flow.per_turn == 3
    broker.count(5, 5)
    assert broker.flow.per_turn == 1
    broker.count(0, 10 * most, later_ms=1000)
    assert broker.flow.per_turn == most


def test_without_a_rate_a_turn_takes_all() -> None:
    broker = Limited()
    broker.count(4, 5)
    assert broker.flow.per_turn < broker.flow.turn_size
    broker.count(1000, 0)
    assert broker.flow.per_turn == broker.flow.turn_size
    assert not broker.throttled


@pytest.mark.parametrize("kind", [packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp])
def test_an_acknowledgement_is_not_counted(kind: type) -> None:
    broker = Limited()
    broker.limit.count([kind(1)] * 100, 5, EPOCH_MS, broker.flow)
    assert (broker.throttled, broker.flow.per_turn) == (False, 5)


@pytest.mark.parametrize("packet", [packets.Pingreq(), packets.Subscribe(1, []), packets.Unsubscribe(1, [])])
def test_other_packets_are_counted(packet: Any) -> None:
    broker = Limited()
    broker.limit.count([packet] * 6, 5, EPOCH_MS, broker.flow)
    assert broker.throttled


def test_a_client_of_a_node_with_a_rate_waits() -> None:
    broker = BrokerHarness(max_message_rate=5)
    client = broker.client("c")
    assert len(client.ask(*[publish("t", b"", 1, number) for number in range(1, 21)])) < 20
    broker.pass_s(10.0)
    assert {each.packet_id for each in client.take()} >= {20}
