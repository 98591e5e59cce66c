"""A connection that has ended leaves nothing for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from strogoff.broker.connection.ended import ENDED
from strogoff.mqtt.packets import Disconnect

from ...harness.broker import BrokerHarness, PacketClient, connect


def _disconnects(client: PacketClient) -> None:
    client.send(Disconnect())


def _breaks_the_rules(client: PacketClient) -> None:
    client.send(connect("c"))


@pytest.mark.parametrize("ends", [PacketClient.vanish, _disconnects, _breaks_the_rules])
def test_no_part_of_an_ended_connection_refers_to_it(ends: Callable[[PacketClient], None]) -> None:
    broker = BrokerHarness()
    client = broker.client("c")
    client.subscribe(("t", 1))
    client.publish("t", b"1", 1)
    connection = next(iter(broker.node.connections.values()))
    parts = connection.output, connection.flow, connection.acks
    assert all(part in gc.get_referrers(connection) for part in parts)
    ends(client)
    broker.settle()
    assert connection.closed and broker.node.connections == {}
    assert not any(part in gc.get_referrers(connection) for part in parts), "else they are a circle"


def test_what_comes_later_finds_a_closed_connection() -> None:
    assert ENDED.closed and not ENDED.connected and ENDED.session is None
    ENDED.timers.set("output", 5, lambda: None)
    ENDED.timers.cancel("output")
    ENDED.process([])
    ENDED.unsendable(Disconnect())
    ENDED.not_taken(1)
    ENDED.drop("reason")
    ENDED.too_late()
    assert ENDED.more_packets(0) == [] and ENDED.next_turn() == 0
