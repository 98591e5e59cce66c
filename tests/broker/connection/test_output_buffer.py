"""The output of a connection: one write per turn, within its bounds."""

from __future__ import annotations

import pytest

from strogoff.broker.connection.output_buffer import LARGE
from strogoff.mqtt.packets import Puback, Publish

from ...harness.broker import BrokerHarness, PacketClient, connect, publish


def writes_of(client: PacketClient) -> list[bytes]:
    """Returns a list of the node's later writes to this client."""
    found: list[bytes] = []
    stream = client.pipe.to_client

    def write(data: bytes) -> None:
        found.append(data)
        stream.send(data)

    client.pipe.write = write
    return found


@pytest.mark.parametrize("version", [4, 5])
def test_one_write_per_turn(version: int) -> None:
    """One write has all messages and answers of a turn."""
    broker = BrokerHarness()
    client = broker.client("c", version)
    client.subscribe(("t", 1))
    writes = writes_of(client)
    got = client.ask(*[publish("t", b"%d" % number, number % 2, number) for number in range(1, 11)])
    assert len(writes) == 1
    assert [packet.payload for packet in got if isinstance(packet, Publish)] == [
        b"%d" % number for number in range(1, 11)
    ]


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("size", [LARGE - 50, LARGE, 3 * LARGE])
def test_large_messages_are_not_joined(qos: int, size: int) -> None:
    """Small pieces before and after a large one keep their order."""
    broker = BrokerHarness()
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 1))
    writes = writes_of(subscriber)
    large = b"x" * size
    sent = [publish("t", payload, qos, at + 1) for at, payload in enumerate((b"a", b"b", large, b"c", large, b"d"))]
    broker.client("p").ask(*sent)
    assert subscriber.payloads() == [b"a", b"b", large, b"c", large, b"d"]
    # joined, or in pieces of which only the small ones are joined: never a write per message
    assert len(writes) < (10 if qos else 7)


def test_a_client_that_does_not_read_is_not_written_to_without_bound() -> None:
    """QoS 0 waits in the queue up to its limit; above it, messages are dropped with an event (P8)."""
    broker = BrokerHarness(max_online_messages=5)
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 0))
    subscriber.pipe.to_client.pause()
    publisher = broker.client("p")
    for _ in range(30):
        publisher.publish("t", b"x" * 1000)
    dropped = len(broker.drops())
    assert dropped > 15 and set(broker.drops()) == {("s", "t", "queue_full")}
    subscriber.pipe.to_client.resume()
    assert len(subscriber.messages()) == 30 - dropped
    publisher.publish("t", b"after")
    assert subscriber.payloads() == [b"after"]


def test_qos_1_waits_for_a_client_that_does_not_read() -> None:
    """Nothing is lost, and the order is kept, when the transport is full and empties again."""
    broker = BrokerHarness(max_inflight_messages=0)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 1))
    subscriber.pipe.to_client.pause()
    publisher = broker.client("p")
    payloads = [b"%d" % number + b"x" * 1000 for number in range(30)]
    for at, payload in enumerate(payloads):
        assert publisher.publish("t", payload, 1, at + 1) == [Puback(at + 1)]
    connection = broker.node.sessions.get("", "s").queue.inflight  # type: ignore[union-attr]
    assert len(connection) < 10
    subscriber.pipe.to_client.resume()
    assert [m.payload for m in subscriber.drain()] == payloads


def test_a_turn_is_bounded() -> None:
    """A turn collects `out_buffer_bytes`, the rest follows in later turns; nothing is lost."""
    broker = BrokerHarness(out_buffer_bytes=100, max_inflight_messages=0, max_online_messages=-1)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 1))
    writes = writes_of(subscriber)
    broker.client("p").ask(*[publish("t", b"x" * 20 + b"%d" % number, 1, number) for number in range(1, 101)])
    got = subscriber.payloads()
    assert got == [b"x" * 20 + b"%d" % number for number in range(1, 101)]
    assert len(writes) > 15 and max(map(len, writes)) < 200


def test_room_in_the_transport_does_not_start_an_unaccepted_connection() -> None:
    """The transport has room again before CONNACK: CONNACK stays the first packet [MQTT-3.2.0-1]."""
    broker = BrokerHarness()
    broker.persistent("s").subscribe(("t", 1))
    broker.client("gone", clean=True)
    broker.persistent("s").vanish()
    broker.client("p").publish("t", b"waits", 1)
    broker.hold_disk()
    client = PacketClient(broker, 4)
    client.ask(connect("s", 4, False))
    (connection,) = [connection for connection in broker.node.connections.values() if connection.client_id == "s"]
    connection.writable(False)
    connection.writable(True)
    broker.settle()
    assert client.take() == []
    broker.free_disk()
    connack, message = client.take()
    assert (connack.reason, message.payload) == (0, b"waits")


def test_a_paused_transport_at_connack_starts_when_it_has_room() -> None:
    """The waiting messages of the session are sent later, all of them."""
    broker = BrokerHarness()
    broker.persistent("s").subscribe(("t", 1))
    broker.persistent("s").vanish()
    broker.client("p").publish("t", b"waits", 1)
    broker.hold_disk()
    client = PacketClient(broker, 4)
    client.ask(connect("s", 4, False))
    (connection,) = [connection for connection in broker.node.connections.values() if connection.client_id == "s"]
    connection.writable(False)
    broker.free_disk()
    assert len(client.take()) == 1
    connection.writable(True)
    assert client.payloads() == [b"waits"]
