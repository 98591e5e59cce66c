"""A client connection: packets before, behind and after each other, keep alive, and the end of a connection."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.packets import Disconnect, Pingreq, Pingresp, Puback, Pubcomp, Publish, Pubrec, Pubrel, Suback

from ...harness.broker import BrokerHarness, connect, option, publish
from ...harness.transcript import CLOSED, PendingHooks, RawClient, accepted, reason_of, will

VERSIONS = (3, 4, 5)


def expiry(version: int) -> int | None:
    """Returns the session expiry interval that makes a session persistent."""
    return 1000 if version == 5 else None


# -- bytes


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_packets_come_in_pieces_of_any_size(version: int, size: int) -> None:
    """TCP is a stream: where its pieces end means nothing [MQTT-7.1.1-1] [MQTT5-4.2.0-1]."""
    broker = BrokerHarness()
    sent: list[packets.Packet] = [
        connect("c", version, will=will(), username="u"),
        packets.Subscribe(1, [option("a/+", 2), option("b", 1)]),
        publish("a/b", b"x" * 200, 0),
        publish("b", b"", 1, 300),
        Pingreq(),
    ]
    data = b"".join(encode(each, version) or b"" for each in sent)
    caller = RawClient(broker, version)
    heard: list[Any] = []
    for start in range(0, len(data), size):
        heard += caller.says(data[start : start + size])
    assert heard == [
        accepted(),
        Suback(1, [2, 1]),
        Publish("a/b", b"x" * 200),
        Publish("b", b"", 1, False, False, 1),
        Puback(300),
        Pingresp(),
    ]


# -- behind CONNECT


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("persistent", [False, True])
def test_packets_behind_connect(version: int, persistent: bool) -> None:
    """They need not wait for CONNACK (MQTT 5.0 section 3.1.4), which is the first answer all the same.

    [MQTT-3.2.0-1] [MQTT5-3.2.0-1] [MQTT5-3.2.0-2]
    """
    broker = BrokerHarness()
    caller = RawClient(broker, version)
    broker.hold_disk()
    heard = caller.says(
        connect("c", version, not persistent, expiry(version) if persistent else None),
        packets.Subscribe(1, [option("t", 1)]),
        publish("t", b"m", 1, 2),
        Pingreq(),
    )
    if persistent:
        assert heard == []
        broker.free_disk()
        heard = caller.hears()
    assert heard[0] == accepted()
    rest = heard[1:]
    assert [each for each in rest if isinstance(each, (Suback, Puback))] == [Suback(1, [1]), Puback(2)]
    assert sorted(type(each).__name__ for each in rest) == ["Pingresp", "Puback", "Publish", "Suback"]


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_of_a_resumed_session_come_behind_connack(version: int) -> None:
    """This holds also when CONNACK has to wait for the disk [MQTT-3.2.0-1] [MQTT5-3.2.0-1]."""
    broker = BrokerHarness()
    broker.persistent("c", version).subscribe(("t", 1))
    broker.persistent("c", version).vanish()
    broker.client("p").publish("t", b"m", 1, 1)
    broker.hold_disk()
    caller = RawClient(broker, version)
    assert caller.says(connect("c", version, False, expiry(version))) == []
    broker.free_disk()
    connack, message = caller.hears()
    assert connack == accepted(version > 3) and message.payload == b"m"


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_behind_a_refused_connect_is_processed(version: int) -> None:
    """[MQTT-3.1.4-5] [MQTT5-3.1.4-6] [MQTT-3.2.2-5] [MQTT5-4.13.2-1]"""
    broker = BrokerHarness(max_client_id_size=5)
    watcher = broker.client("w")
    watcher.subscribe(("#", 0))
    caller = RawClient(broker, version)
    heard = caller.says(
        connect("too long", version, will=will()), publish("t"), publish("t", b"", 1, 1), connect("c", version)
    )
    assert [each if each == CLOSED else each.reason for each in heard] == [0x85 if version == 5 else 2, CLOSED]
    assert caller.says(publish("t"), Pingreq()) == []
    assert watcher.messages() == []


class Later:
    """A plugin that answers CONNECT when the test decides."""

    def __init__(self, answer: bool = True) -> None:
        self.answer = answer

    async def auth_on_register(self, *_: Any) -> bool:
        return self.answer

    def auth_on_publish(self, *_: Any) -> bool:
        return True

    def auth_on_subscribe(self, *_: Any) -> bool:
        return True


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("answer", [True, False])
def test_packets_wait_while_a_plugin_thinks(version: int, answer: bool) -> None:
    """Nothing is answered, nothing is done before the plugin has allowed the connection.

    [MQTT-3.1.4-5] [MQTT5-3.1.4-6] [MQTT5-3.2.0-1]
    """
    broker = BrokerHarness(Later(answer), allow_anonymous=False)
    questions = PendingHooks(broker)
    caller = RawClient(broker, version)
    assert caller.says(connect("c", version), packets.Subscribe(1, [option("t", 0)]), publish("t", b"1")) == []
    assert caller.says(publish("t", b"2"), Pingreq()) == []
    broker.pass_s(60)
    assert caller.hears() == [] and len(questions) == 1
    questions.answer()
    heard = caller.hears()
    if answer:
        assert heard == [accepted(), Suback(1, [0]), Publish("t", b"1"), Publish("t", b"2"), Pingresp()]
    else:
        assert [each if each == CLOSED else each.reason for each in heard] == [0x86 if version == 5 else 5, CLOSED]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_leaves_while_a_plugin_thinks(version: int) -> None:
    """The broker makes no session for it."""
    broker = BrokerHarness(Later(), allow_anonymous=False)
    questions = PendingHooks(broker)
    caller = RawClient(broker, version)
    caller.says(connect("c", version, False, expiry(version), will=will()))
    caller.vanish()
    questions.answer()
    assert len(broker.node.sessions) == 0 and not broker.events("will.fire", "conn.open")


# -- time


@pytest.mark.parametrize("sent", [b"", b"\x10", b"\x10\x0d\x00\x04MQTT"])
def test_connect_must_come_in_time(sent: bytes) -> None:
    """`mqtt_connect_timeout`: a client that sends nothing, or only a part of CONNECT, is closed."""
    broker = BrokerHarness(mqtt_connect_timeout_ms=3000)
    caller = RawClient(broker)
    caller.send(sent) if sent else None
    broker.pass_s(2.9)
    assert caller.hears() == []
    broker.pass_s(0.2)
    assert caller.hears() == [CLOSED]
    assert broker.node.connections == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_connect_timeout_ends_with_connect(version: int) -> None:
    """A connected client may be as silent as its keep alive allows."""
    broker = BrokerHarness(mqtt_connect_timeout_ms=3000)
    client = broker.client("c", version)
    broker.pass_s(100)
    assert client.ask(Pingreq()) == [Pingresp()]


@pytest.mark.parametrize("version", VERSIONS)
def test_keep_alive(version: int) -> None:
    """One and a half intervals of silence end the connection; v5 gets 0x8D.

    [MQTT-3.1.2-24] [MQTT5-3.1.2-22] [MQTT5-3.2.2-22] [MQTT5-4.13.2-1]
    """
    broker = BrokerHarness()
    caller = RawClient(broker, version)
    caller.says(connect("c", version, keepalive_s=10))
    for _ in range(5):
        broker.pass_s(14.9)
        assert caller.says(Pingreq()) == [Pingresp()]
    broker.pass_s(14.9)
    assert caller.hears() == []
    broker.pass_s(0.2)
    assert caller.hears() == ([Disconnect(0x8D), CLOSED] if version == 5 else [CLOSED])
    assert sum(broker.node.env.counters.keepalive_expired) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_any_packet_restarts_keep_alive(version: int) -> None:
    """Every packet of the client counts, not PINGREQ alone; packets from the broker do not count."""
    broker = BrokerHarness()
    caller = RawClient(broker, version)
    caller.says(connect("c", version, keepalive_s=10))
    for number in range(4):
        broker.pass_s(14)
        assert caller.says(publish("t", b"", number % 3, number + 1)) is not None
        assert not caller.closed
    caller.subscribe(("t", 0))
    for _ in range(2):
        broker.pass_s(10)
        broker.client("p").publish("t")
    assert caller.hears()[-1] == CLOSED


@pytest.mark.parametrize("version", VERSIONS)
def test_keep_alive_0_is_none(version: int) -> None:
    """The client may be silent for ever [MQTT-3.1.2-24] [MQTT5-3.1.2-22]."""
    broker = BrokerHarness()
    client = broker.client("c", version, keepalive_s=0)
    broker.pass_s(5000)
    assert client.ask(Pingreq()) == [Pingresp()]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_time_in_which_nothing_is_read_does_not_count(version: int) -> None:
    """The broker cannot measure the silence of a client that it does not read."""
    broker = BrokerHarness(max_message_rate=1)
    client = broker.client("c", version, keepalive_s=1)
    client.ask(*[publish("t")] * 3)
    for _ in range(20):
        client.send(publish("t"), publish("t"))
        broker.pass_s(1.4)
    assert not client.closed


@pytest.mark.parametrize("version", VERSIONS)
def test_max_connection_lifetime(version: int) -> None:
    """The limit holds for busy clients as well; v5 gets 0xA0, and the will is sent."""
    broker = BrokerHarness()
    watcher = broker.client("w")
    watcher.subscribe(("will", 0))
    caller = RawClient(broker, version, max_connection_lifetime_s=30)
    caller.says(connect("c", version, will=will()))
    broker.pass_s(29.9)
    assert caller.says(Pingreq()) == [Pingresp()]
    broker.pass_s(0.2)
    heard = caller.hears()
    assert heard[-1] == CLOSED and reason_of(heard) == (0xA0 if version == 5 else None)
    assert watcher.payloads() == [b"gone"]


# -- pings


@pytest.mark.parametrize("version", VERSIONS)
def test_ping_while_the_disk_works(version: int) -> None:
    """PINGRESP does not wait behind acknowledgements [MQTT-3.12.4-1] [MQTT5-3.12.4-1]."""
    broker = BrokerHarness()
    broker.persistent("s").subscribe(("t", 1))
    client = broker.client("p", version)
    broker.hold_disk()
    assert client.publish("t", b"", 1, 1) == []
    assert client.ask(Pingreq()) == [Pingresp()]
    broker.free_disk()
    assert client.take() == [Puback(1)]


# -- the end of a connection


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_follows_a_disconnect(version: int) -> None:
    """The client's DISCONNECT: later packets are not processed, and nothing more is sent.

    [MQTT5-3.14.4-1] [MQTT5-3.14.4-2]
    """
    broker = BrokerHarness()
    watcher = broker.client("w")
    watcher.subscribe(("#", 0))
    caller = RawClient(broker, version)
    caller.says(connect("c", version))
    assert caller.says(publish("t", b"before"), Disconnect(), publish("t", b"behind"), Pingreq()) == [CLOSED]
    assert watcher.payloads() == [b"before"]


@pytest.mark.parametrize("qos", [1, 2])
def test_nothing_follows_the_broker_s_disconnect(qos: int) -> None:
    """Acknowledgements that still wait for the disk are not sent behind it [MQTT5-3.14.4-1] [MQTT5-3.14.4-2]."""
    broker = BrokerHarness()
    broker.persistent("s").subscribe(("t", 2))
    caller = RawClient(broker, 5)
    caller.says(connect("c", 5))
    broker.hold_disk()
    assert reason_of(caller.says(publish("t", b"", qos, 1), b"\x00\x00")) in (0x81, 0x82)
    broker.free_disk()
    assert caller.hears() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_packets_before_a_violation_are_processed(version: int) -> None:
    """They are answered as well; the violation closes its own connection only [MQTT-4.8.0-1] [MQTT5-4.13.1-1]
    [MQTT5-4.13.2-1].
    """
    broker = BrokerHarness()
    other = broker.client("o", version)
    caller = RawClient(broker, version)
    caller.says(connect("c", version))
    heard = caller.says(publish("t", b"", 2, 1), Pingreq(), b"\xf0\xff\xff\xff\xff")
    assert heard[:2] == [Pubrec(1, 0x10 if version == 5 else 0), Pingresp()] and heard[-1] == CLOSED
    assert (reason_of(heard) is not None) == (version == 5)
    assert other.ask(Pingreq()) == [Pingresp()]


def test_no_reason_string_for_clients_that_decline_it() -> None:
    """Request Problem Information 0 [MQTT5-3.1.2-29]; else the text says what was wrong."""
    for wanted in (0, 1):
        caller = RawClient(BrokerHarness(), 5)
        caller.says(connect("c", 5, request_problem_information=wanted))
        disconnect, closed = caller.says(b"\x00\x00")
        assert closed == CLOSED and ("reason_string" in (disconnect.properties or {})) is bool(wanted)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lost_connection_cancels_its_timers(version: int) -> None:
    """No timer fires later, and the connection no longer counts."""
    broker = BrokerHarness()
    client = broker.client("c", version, keepalive_s=10)
    client.publish("t", b"", 2, 1)
    client.vanish()
    broker.pass_s(100)
    assert broker.node.connections == {} and len(broker.events("conn.close")) == 1
    client = broker.client("c", version)
    assert client.ask(Pubrel(1)) == [Pubcomp(1, 0x92 if version == 5 else 0)]
