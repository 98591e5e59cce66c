"""When the broker reads a connection: late answers of plugins, rate limits, a slow disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from strogoff.broker.connection.flow_control import ANSWERS_NOT_TAKEN, NOT_TAKEN_MS
from strogoff.broker.connection.transport import PEER_CLOSED
from strogoff.broker.plugins.hooks import Verdict
from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.packets import Pingreq, Pingresp, Puback, Pubrel

from ...harness.broker import BrokerHarness, PacketClient, connect, publish


class Later:
    """A plugin whose answers come when the test decides."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def auth_on_publish(self, *args: Any) -> bool:
        self.asked.append(args[3])
        return True

    def auth_on_subscribe(self, *_: Any) -> bool:
        return True


def stage_with_later() -> tuple[BrokerHarness, Later, list[Callable[[], None]]]:
    """A broker whose `spawn` port keeps the work for the test."""
    plugin = Later()
    broker = BrokerHarness(plugin)
    work: list[Callable[[], None]] = []

    def spawn(question: Awaitable[Verdict], then: Callable[[Verdict], None]) -> None:
        def answer() -> None:
            try:
                question.__await__().send(None)
            except StopIteration as end:
                then(end.value)

        work.append(answer)

    broker.node.services.spawn = spawn
    return broker, plugin, work


def test_packets_wait_in_order_for_an_answer() -> None:
    """Nothing behind the PUBLISH is handled before the plugin has answered; then all of it is, in order."""
    broker, plugin, work = stage_with_later()
    subscriber = broker.client("s")
    subscriber.subscribe(("#", 1))
    client = broker.client("p")
    assert client.ask(publish("a", b"1", 1, 1), publish("b", b"2", 1, 2), Pingreq()) == []
    assert client.ask(publish("c", b"3", 1, 3)) == []
    work.pop(0)()
    broker.settle()
    assert client.take() == [Puback(1)] and plugin.asked == ["a"]
    work.pop(0)()
    broker.settle()
    assert client.take() == [Puback(2), Pingresp()]
    work.pop(0)()
    broker.settle()
    assert client.take() == [Puback(3)]
    assert plugin.asked == ["a", "b", "c"]
    assert subscriber.payloads() == [b"1", b"2", b"3"]


def test_an_answer_for_a_closed_connection() -> None:
    """The answer is ignored, and the message is not routed."""
    broker, _, work = stage_with_later()
    subscriber = broker.client("s")
    subscriber.subscribe(("#", 1))
    client = broker.client("p")
    client.publish("a", b"1", 1, 1)
    client.vanish()
    work.pop()()
    assert subscriber.messages() == []


def test_malformed_bytes_behind_a_held_packet() -> None:
    """Earlier packets are still handled, then the connection is closed."""
    broker, _, work = stage_with_later()
    client = broker.client("p", 5)
    assert client.ask(publish("a", b"1", 1, 1), b"\xf0\xff\xff\xff\xff") == []
    assert not client.closed
    work.pop()()
    broker.settle()
    first, second = client.take()
    assert first == Puback(1, 0x10)
    assert isinstance(second, packets.Disconnect) and client.closed


def test_keep_alive_does_not_expire_while_the_broker_does_not_read() -> None:
    """The broker does not hear a client that it does not read; the keep alive restarts when it
    reads the client again.
    """
    broker, _, work = stage_with_later()
    client = broker.client("p", keepalive_s=10)
    client.publish("a", b"1", 1, 1)
    broker.pass_s(100)
    assert not client.closed
    work.pop()()
    broker.settle()
    broker.pass_s(14)
    assert not client.closed
    broker.pass_s(2)
    assert client.closed


def test_max_message_rate() -> None:
    """Above the rate the publisher is not read until the second is over."""
    broker = BrokerHarness(max_message_rate=3)
    client = broker.client("p")
    for number in (1, 2, 3, 4):
        assert client.publish("t", b"", 1, number) == [Puback(number)]
    assert client.publish("t", b"", 1, 5) == []
    broker.pass_s(0.99)
    assert client.take() == []
    broker.pass_s(0.02)
    assert client.take() == [Puback(5)]


def test_the_rate_limit_holds_for_each_connection() -> None:
    """A client above its rate does not slow another one."""
    broker = BrokerHarness(max_message_rate=2)
    loud, calm = broker.client("loud"), broker.client("calm")
    loud.ask(*[publish("t", b"", 1, number) for number in range(1, 20)])
    assert loud.publish("t", b"", 1, 50) == []
    assert calm.publish("t", b"", 1, 1) == [Puback(1)]


def test_reading_stops_while_the_disk_is_behind() -> None:
    """Above `pause_reading_bytes` unwritten bytes the publishers are not read (P8); nothing is lost."""
    broker = BrokerHarness(pause_reading_bytes=1000, max_online_messages=-1, max_inflight_messages=0)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p")
    broker.hold_disk()
    for number in range(1, 21):
        publisher.publish("t", b"x" * 400 + b"%d" % number, 1, number)
    assert broker.node.env.store.bytes_waiting < 3000
    broker.free_disk()
    broker.pass_s(1)
    assert publisher.take() == [Puback(number) for number in range(1, 21)]
    assert [m.payload[400:] for m in subscriber.drain()] == [b"%d" % number for number in range(1, 21)]


@pytest.mark.parametrize("version", [3, 4])
def test_retry_interval(version: int) -> None:
    """3.1 and 3.1.1: unanswered packets are sent again, with DUP and in order [MQTT-4.6.0-1]."""
    broker = BrokerHarness(retry_interval_s=10)
    subscriber = broker.persistent("s", version)
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p")
    for number, qos in enumerate((1, 2, 1)):
        publisher.publish("t", b"%d" % number, qos, number + 1)
    first = subscriber.messages()
    broker.pass_s(9)
    assert subscriber.take() == []
    broker.pass_s(7)
    again = subscriber.messages()
    assert [(m.payload, m.dup, m.packet_id) for m in again] == [(m.payload, True, m.packet_id) for m in first]
    assert subscriber.ask(packets.Pubrec(first[1].packet_id)) == [packets.Pubrel(first[1].packet_id)]
    subscriber.ask(Puback(first[0].packet_id), Puback(first[2].packet_id))
    broker.pass_s(16)
    assert subscriber.take() == [packets.Pubrel(first[1].packet_id)]
    subscriber.ask(packets.Pubcomp(first[1].packet_id))
    broker.pass_s(60)
    assert subscriber.take() == []


def test_retry_sends_no_pubrel_before_it_is_safe() -> None:
    """PUBREL leaves only after "PUBREC seen" is on disk, whenever the timer fires."""
    broker = BrokerHarness(retry_interval_s=2)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 2))
    broker.client("p").publish("t", b"x", 2, 1)
    (message,) = subscriber.messages()
    broker.hold_disk()
    assert subscriber.ask(packets.Pubrec(message.packet_id)) == []
    broker.pass_s(20)
    assert subscriber.take() == []
    broker.free_disk()
    assert subscriber.take() == [packets.Pubrel(message.packet_id)]


def test_retry_does_not_pile_up_for_a_client_that_does_not_read() -> None:
    """Packets that the transport has not taken yet are not sent again (P8)."""
    broker = BrokerHarness(retry_interval_s=1, max_inflight_messages=10)
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 1))
    subscriber.pipe.to_client.pause()
    publisher = broker.client("p")
    for number in range(1, 11):
        publisher.publish("t", b"x" * 1000, 1, number)
    broker.pass_s(100)
    subscriber.pipe.to_client.resume()
    assert len(subscriber.messages()) < 20


def test_timers_of_a_closed_connection_are_cancelled() -> None:
    """Closing a connection cancels its timers."""
    broker = BrokerHarness(max_message_rate=1)
    waiting = len(broker.node.env.timers)
    client: PacketClient = broker.client("p", keepalive_s=5)
    client.ask(publish("t"), publish("t"), publish("t"))
    assert len(broker.node.env.timers) > waiting
    client.vanish()
    assert len(broker.node.env.timers) == waiting


FRAMES = {"ping": encode(Pingreq(), 4), "qos1": encode(publish("t", b"", 1, 7), 4), "pubrel": encode(Pubrel(7), 4)}


@pytest.mark.parametrize("kind", FRAMES)
def test_answers_to_a_client_that_does_not_read_are_bounded(kind: str) -> None:
    """Above a bound the client is not read any more; when it has taken its answers, the rest is handled and none is
    missing.
    """
    broker = BrokerHarness()
    client = broker.client("c")
    client.pipe.to_client.pause()
    written = [0]
    original = client.pipe.write

    def write(data: bytes) -> None:
        written[0] += len(data)
        original(data)

    client.pipe.write = write
    count = 60_000
    for _ in range(count // 100):
        client.send(FRAMES[kind] * 100)
        broker.settle()
    broker.pass_s(1)
    assert written[0] < ANSWERS_NOT_TAKEN + 20_000 and client.pipe.to_node.paused and not client.closed
    client.pipe.to_client.resume()
    broker.pass_s(1)
    assert len(client.take()) == count and not client.pipe.to_node.paused
    broker.pass_s(2 * NOT_TAKEN_MS / 1000)
    assert not client.closed


def test_a_client_that_never_reads_its_answers_is_closed() -> None:
    """It is closed after `NOT_TAKEN_MS` with a reason, whatever its keep alive, and the will is sent."""
    broker = BrokerHarness()
    watcher = broker.client("w")
    watcher.subscribe(("gone", 0))
    client = broker.client("c", keepalive_s=1, will=packets.Will("gone", b"will"))
    client.pipe.to_client.pause()
    for _ in range(500):
        client.send(FRAMES["ping"] * 100)
        broker.settle()
    broker.pass_s(NOT_TAKEN_MS / 1000 - 1)
    assert watcher.payloads() == []
    broker.pass_s(2)
    assert watcher.payloads() == [b"will"]
    (row,) = broker.events("conn.close")
    assert (row["client"], row["reason"]) == ("c", "output_not_read") and "60 s" in row["detail"]


def test_a_slow_subscriber_is_still_read() -> None:
    """A client is read although it has not taken its deliveries: its few answers fill no buffer."""
    broker = BrokerHarness()
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 0))
    subscriber.pipe.to_client.pause()
    publisher = broker.client("p")
    publisher.ask(*[publish("t", bytes(1000)) for _ in range(200)])
    other = broker.client("o")
    other.subscribe(("x", 0))
    subscriber.send(Pingreq(), publish("x", b"heard"))
    assert other.payloads() == [b"heard"]
    assert not subscriber.pipe.to_node.paused


def test_a_client_that_closes_while_a_plugin_decides() -> None:
    """Its packets wait for the plugin: the message is routed, and DISCONNECT deletes the will. A client that resets its
    connection has no more packets."""
    broker, plugin, work = stage_with_later()
    subscriber = broker.client("s")
    subscriber.subscribe(("#", 1))
    for reason in (PEER_CLOSED, "connection_reset"):
        client = PacketClient(broker, 4)
        client.ask(connect("p", will=packets.Will("will", b"dead")))
        work.pop()()
        broker.settle()
        (connection,) = (each for each in broker.node.connections.values() if each.client_id == "p")
        client.ask(publish("a", b"last"), packets.Disconnect())
        connection.lost(reason)
        assert connection.closed == (reason != PEER_CLOSED)
        work.pop()()
        broker.settle()
        assert connection.closed and plugin.asked[-1] == "a"
        assert subscriber.payloads() == [b"last" if reason == PEER_CLOSED else b"dead"]


def test_a_client_that_closes_while_its_rate_is_used_up() -> None:
    """Its packets are handled at its rate; DISCONNECT, the last one, deletes the will."""
    broker = BrokerHarness(max_message_rate=10)
    subscriber = broker.client("s")
    subscriber.subscribe(("#", 1))
    client = broker.client("p", will=packets.Will("will", b"dead"))
    (connection,) = (each for each in broker.node.connections.values() if each.client_id == "p")
    client.ask(b"".join([encode(publish("t"), 4)] * 30 + [encode(packets.Disconnect(), 4)]))
    connection.lost(PEER_CLOSED)
    assert not connection.closed
    broker.pass_s(5)
    assert connection.closed and subscriber.payloads() == [b"m"] * 30


@pytest.mark.parametrize("reason", [PEER_CLOSED, "connection_reset"])
def test_a_client_that_closes_behind_deferred_publishes(reason: str) -> None:
    """They are accepted once the disk has room, and DISCONNECT deletes the will."""
    broker = BrokerHarness(max_parked_publishes=3)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("#", 1))
    client = broker.client("p", will=packets.Will("will", b"dead"))
    (connection,) = (each for each in broker.node.connections.values() if each.client_id == "p")
    broker.disk.full = True
    broker.client("other").publish("fill", b"fill", 1, 1)
    client.ask(*[publish("t", b"%d" % n, 1, n) for n in range(1, 6)], packets.Disconnect())
    connection.lost(reason)
    assert connection.closed == (reason != PEER_CLOSED)
    broker.disk.full = False
    broker.pass_s(10)
    assert connection.closed
    last = [b"1", b"2", b"3", b"4", b"5"] if reason == PEER_CLOSED else [b"dead"]
    assert [each.payload for each in subscriber.drain() if each.payload != b"fill"] == last
