"""Every packet that a client may send has a function that handles it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from strogoff.broker.connection.dispatch import HANDLERS
from strogoff.broker.connection.states import State
from strogoff.mqtt import packets
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode
from tests.harness.broker import BrokerHarness, PacketClient, option

EXAMPLES: list[Any] = [
    packets.Connect("c", 5),
    packets.Connack(False, 0),
    packets.Publish("t", b"m"),
    packets.Puback(1),
    packets.Pubrec(1),
    packets.Pubrel(1),
    packets.Pubcomp(1),
    packets.Subscribe(1, [option("t")]),
    packets.Suback(1, [0]),
    packets.Unsubscribe(1, ["t"]),
    packets.Unsuback(1, [0]),
    packets.Pingreq(),
    packets.Pingresp(),
    packets.Disconnect(),
    packets.Auth(0x18, {"authentication_method": "m"}),
]


def _from_client(packet: Any) -> bool:
    """The broker's decoder takes this packet."""
    frame = encode(packet, 5)
    assert frame is not None
    decoder = Decoder("server", 0 if isinstance(packet, packets.Connect) else 5)
    return [type(each) for each in decoder.feed(frame)] == [type(packet)]


FROM_CLIENTS = [packet for packet in EXAMPLES if _from_client(packet)]


def test_the_examples_are_all_packets() -> None:
    assert {type(packet) for packet in EXAMPLES} == set(get_args(packets.Packet))
    assert len(FROM_CLIENTS) == 11


def test_the_handlers_are_for_the_packets_of_clients() -> None:
    """`publish` and `puback` stand outside the dictionary, because they are the most frequent."""
    handled = set(HANDLERS.others) | {packets.Publish, packets.Puback}
    assert handled == {type(packet) for packet in FROM_CLIENTS}


@pytest.mark.parametrize("packet", FROM_CLIENTS, ids=lambda packet: type(packet).__name__)
def test_a_connected_client_may_send_each_packet(packet: Any) -> None:
    broker = BrokerHarness()
    client = broker.client("c", 5)
    client.ask(packet)
    name = type(packet).__name__
    ends = {"Connect": ["protocol_error"], "Auth": ["protocol_error"], "Disconnect": ["disconnect"]}
    assert [event["reason"] for event in broker.events("conn.close")] == ends.get(name, [])


@pytest.mark.parametrize("packet", FROM_CLIENTS, ids=lambda packet: type(packet).__name__)
def test_only_some_packets_may_come_first(packet: Any) -> None:
    first = {packets.Connect, packets.Auth, packets.Disconnect}
    assert (type(packet) in HANDLERS.first) is (type(packet) in first)


def test_a_packet_before_connect_ends_the_connection() -> None:
    broker = BrokerHarness()
    client = PacketClient(broker, 5)
    client.ask(packets.Pingreq())
    assert client.closed
    assert broker.node.connections == {}


def test_a_new_connection_has_the_handlers_and_waits_for_connect() -> None:
    broker = BrokerHarness()
    PacketClient(broker, 5)
    (connection,) = broker.node.connections.values()
    assert connection.handlers is HANDLERS
    assert connection.state is State.OPEN
