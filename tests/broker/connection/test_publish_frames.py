"""PUBLISH packets to subscribers: packet ids, DUP, handshakes, properties, expiry."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.routing.ack_context import AckContext
from strogoff.cluster.identity import slot_of
from strogoff.mqtt.packets import Puback, Pubcomp, Pubrec, Pubrel

from ...harness.broker import BrokerHarness, PacketClient

VERSIONS = (3, 4, 5)


def pair(version: int, broker: BrokerHarness, qos: int = 2, text: str = "t") -> tuple[PacketClient, PacketClient]:
    """A persistent subscriber, and a publisher with MQTT 5, which can set all properties."""
    subscriber = broker.persistent("s", version)
    subscriber.subscribe((text, qos))
    return subscriber, broker.client("p", 5)


@pytest.mark.parametrize("version", VERSIONS)
def test_first_delivery(version: int) -> None:
    """A fresh packet id above zero, DUP 0, the QoS as granted.

    [MQTT-2.3.1-4] [MQTT5-2.2.1-4] [MQTT-4.3.2-1] [MQTT5-4.3.2-1] [MQTT5-4.3.2-2] [MQTT-4.3.3-1] [MQTT5-4.3.3-1]
    [MQTT5-4.3.3-2] [MQTT-4.3.1-1] [MQTT5-4.3.1-1] [MQTT-3.3.2-3] [MQTT5-3.3.2-3]
    """
    subscriber, publisher = pair(version, BrokerHarness())
    for number, qos in enumerate((0, 1, 2, 1, 2)):
        publisher.publish("t", b"%d" % qos, qos, 60000 + number)
    got = subscriber.messages()
    assert [(m.topic, m.payload, m.qos, m.dup) for m in got] == [
        ("t", b"%d" % qos, qos, False) for qos in (0, 1, 2, 1, 2)
    ]
    ids = [m.packet_id for m in got if m.qos]
    assert len(set(ids)) == 4 and 0 not in ids
    assert got[0].packet_id == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_unacknowledged_messages_are_sent_again_in_order_with_dup(version: int) -> None:
    """After a reconnect, under their old packet ids, in the order of the first sending.

    [MQTT-3.3.1-1] [MQTT5-3.3.1-1] [MQTT-4.6.0-1] [MQTT5-4.6.0-5] [MQTT-4.3.2-1] [MQTT5-4.3.2-3] [MQTT5-4.3.3-3]
    """
    broker = BrokerHarness()
    subscriber, publisher = pair(version, broker)
    for number in range(6):
        publisher.publish("t", b"%d" % number, 1 + number % 2, number + 1)
    first = subscriber.messages()
    subscriber.ask(Puback(first[2].packet_id))
    subscriber.vanish()
    subscriber = broker.persistent("s", version)
    again = subscriber.messages()
    assert [m.payload for m in again] == [b"0", b"1", b"3", b"4", b"5"]
    assert all(m.dup for m in again)
    assert [m.packet_id for m in again] == [m.packet_id for m in first if m.payload != b"2"]
    publisher.publish("t", b"new", 1, 9)
    assert [(m.payload, m.dup) for m in subscriber.messages()] == [(b"new", False)]


def test_nothing_is_sent_again_on_an_open_v5_connection() -> None:
    """MQTT 5.0 section 4.4: only a new connection sends again; `retry_interval` is for the older versions."""
    broker = BrokerHarness(retry_interval_s=1)
    subscriber, publisher = pair(5, broker)
    publisher.publish("t", b"x", 1)
    assert len(subscriber.messages()) == 1
    broker.pass_s(60)
    assert subscriber.messages() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_qos_2_handshake_to_the_subscriber(version: int) -> None:
    """PUBREC gets PUBREL with the same id, also a second time; PUBLISH is not sent again after PUBREL.

    [MQTT-4.3.3-1] [MQTT5-4.3.3-4] [MQTT5-4.3.3-5] [MQTT5-4.3.3-6] [MQTT-2.3.1-6] [MQTT5-2.2.1-5]
    """
    broker = BrokerHarness()
    subscriber, publisher = pair(version, broker)
    publisher.publish("t", b"x", 2, 50)
    (message,) = subscriber.messages()
    packet_id = message.packet_id
    assert subscriber.ask(Pubrec(packet_id)) == [Pubrel(packet_id)]
    assert subscriber.ask(Pubrec(packet_id)) == [Pubrel(packet_id)]
    subscriber.vanish()
    subscriber = broker.persistent("s", version)
    assert subscriber.take() == [Pubrel(packet_id)]
    broker.restart()
    subscriber = broker.persistent("s", version)
    assert subscriber.take() == [Pubrel(packet_id)]
    assert subscriber.ask(Pubcomp(packet_id)) == []
    subscriber.vanish()
    assert broker.persistent("s", version).take() == []


def test_pubrels_leave_in_the_order_of_the_pubrecs() -> None:
    """This holds also when the disk is slow [MQTT-4.6.0-4]."""
    broker = BrokerHarness()
    subscriber, publisher = pair(4, broker)
    for number in range(4):
        publisher.publish("t", b"%d" % number, 2, number + 1)
    ids = [m.packet_id for m in subscriber.messages()]
    order = [ids[2], ids[0], ids[3], ids[1]]
    broker.hold_disk()
    assert subscriber.ask(*[Pubrec(number) for number in order]) == []
    broker.free_disk()
    assert subscriber.take() == [Pubrel(number) for number in order]


def test_a_refused_delivery_is_over() -> None:
    """PUBREC and PUBACK with 0x80 or above: no PUBREL, not sent again, the id is free (section 4.3.3)."""
    broker = BrokerHarness()
    subscriber, publisher = pair(5, broker)
    publisher.publish("t", b"1", 1, 1)
    publisher.publish("t", b"2", 2, 2)
    one, two = subscriber.messages()
    assert subscriber.ask(Puback(one.packet_id, 0x83), Pubrec(two.packet_id, 0x83)) == []
    subscriber.vanish()
    assert broker.persistent("s", 5).take() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_with_an_unused_packet_id(version: int) -> None:
    """PUBACK, PUBREC and PUBCOMP with an unused id are counted; PUBREC is answered with PUBREL so that the handshake
    ends.
    """
    broker = BrokerHarness()
    client = broker.client("c", version)
    code = 0x92 if version == 5 else 0
    assert client.ask(Puback(7), Pubcomp(7), Pubrec(7)) == [Pubrel(7, code)]
    counters = broker.node.env.counters
    once = [0, 1] if version == 5 else [1, 0]
    assert [counters.puback_invalid, counters.pubrec_invalid, counters.pubcomp_invalid] == [once] * 3


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("qos", "before", "kind", "reason"),
    [
        (1, [], Pubrec, 0),
        (1, [], Pubrec, 0x80),
        (1, [], Pubcomp, 0),
        (2, [], Puback, 0),
        (2, [], Puback, 0x80),
        (2, [], Pubcomp, 0),
        (2, [Pubrec], Puback, 0),
    ],
)
def test_the_wrong_answer_closes_the_connection(
    version: int, qos: int, before: list[Any], kind: Any, reason: int
) -> None:
    """PUBACK is for QoS 1, PUBREC and then PUBCOMP are for QoS 2; else the message would fill the window for ever.

    [MQTT-4.8.0-1] [MQTT5-4.13.1-1] [MQTT-4.3.2-1] [MQTT-4.3.3-1] [MQTT5-4.3.2-3] [MQTT5-4.3.3-3] [MQTT5-4.3.3-5]
    """
    broker = BrokerHarness()
    subscriber, publisher = pair(version, broker)
    publisher.publish("t", b"x", qos, 1)
    (message,) = subscriber.messages()
    for right in before:
        subscriber.ask(right(message.packet_id))
    answers = subscriber.ask(kind(message.packet_id, reason if version == 5 else 0))
    assert [answer.reason for answer in answers] == ([0x82] if version == 5 else [])
    assert subscriber.closed
    again = broker.persistent("s", version)
    if before:
        assert again.take() == [Pubrel(message.packet_id)]
    else:
        assert [m.payload for m in again.messages()] == [b"x"]


# -- properties


FORWARDED: dict[str, Any] = {
    "payload_format_indicator": 1,
    "content_type": "text/plain; charset=utf-8",
    "response_topic": "answer/to",
    "correlation_data": b"\x00\xff\x01",
    "user_property": [("b", "2"), ("a", "1"), ("b", "2"), ("", "")],
}


@pytest.mark.parametrize("durable", [False, True])
def test_properties_are_passed_on_unchanged(durable: bool) -> None:
    """Live, from the queue, and after a restart.

    [MQTT5-3.3.2-4] [MQTT5-3.3.2-15] [MQTT5-3.3.2-16] [MQTT5-3.3.2-17] [MQTT5-3.3.2-18] [MQTT5-3.3.2-20]
    """
    broker = BrokerHarness()
    subscriber, publisher = pair(5, broker)
    if durable:
        subscriber.vanish()
    publisher.publish("t", b"x", 1, 1, **FORWARDED)
    if durable:
        broker.restart()
        subscriber = broker.persistent("s", 5)
    (message,) = subscriber.messages()
    assert message.properties == FORWARDED


def test_older_versions_get_no_properties() -> None:
    """Each subscriber gets the message in the form of its version, in any order of delivery."""
    broker = BrokerHarness()
    clients = [broker.client(f"c{number}", version) for number, version in enumerate((5, 4, 5, 3, 5))]
    for client in clients:
        client.subscribe(("t", 1))
    publisher = broker.client("p", 5)
    for qos in (0, 1):
        publisher.publish("t", b"x", qos, 1, **FORWARDED)
        got = [client.messages() for client in clients]
        assert [messages[0].properties for messages in got] == [FORWARDED, None, FORWARDED, None, FORWARDED]


# -- expiry


@pytest.mark.parametrize("version", VERSIONS)
def test_an_expired_message_is_not_delivered(version: int) -> None:
    """[MQTT5-3.3.2-5], to subscribers of every version, and there is an event (P8)."""
    broker = BrokerHarness()
    subscriber, publisher = pair(version, broker)
    subscriber.vanish()
    publisher.publish("t", b"short", 1, 1, message_expiry_interval=5)
    publisher.publish("t", b"long", 1, 2, message_expiry_interval=50)
    broker.pass_s(5)
    subscriber = broker.persistent("s", version)
    assert subscriber.payloads() == [b"long"]
    assert [event["topic"] for event in broker.events("q.expire")] == ["t"]
    assert broker.node.env.counters.queue_message_expired == 1


def test_an_expiry_that_no_interval_can_hold_is_the_longest_interval() -> None:
    """Another node chooses the time of expiry of its messages."""
    broker = BrokerHarness()
    subscriber, _ = pair(5, broker)
    message = Message("", "t", b"late", 1, False, None, 1 << 62, "p", Origin("n2", 1), 1)
    node = broker.node
    node.router.deliver(message, node.router.plans(""), True, (slot_of("", "s"),), (), AckContext())
    (found,) = subscriber.messages()
    assert found.properties == {"message_expiry_interval": 0xFFFF_FFFF}


def test_the_rest_of_the_expiry_interval_is_passed_on() -> None:
    """The received interval minus the time in the broker, also over a restart [MQTT5-3.3.2-6] (P7)."""
    broker = BrokerHarness()
    subscriber, publisher = pair(5, broker)
    publisher.publish("t", b"live", 1, 1, message_expiry_interval=100)
    (message,) = subscriber.messages()
    assert message.properties == {"message_expiry_interval": 100}
    subscriber.ask(Puback(message.packet_id))
    subscriber.vanish()
    publisher.publish("t", b"late", 1, 2, message_expiry_interval=100)
    broker.pass_s(30)
    broker.restart()
    broker.pass_s(10)
    (message,) = broker.persistent("s", 5).messages()
    assert message.properties == {"message_expiry_interval": 60}


def test_retained_messages_expire_too() -> None:
    """[MQTT5-3.3.2-5] [MQTT5-3.3.2-6]"""
    broker = BrokerHarness()
    broker.client("p", 5).publish("t", b"x", 1, 1, retain=True, message_expiry_interval=10)
    broker.pass_s(4)
    _, message = broker.client("a", 5).subscribe(("t", 1))
    assert message.properties == {"message_expiry_interval": 6}
    broker.pass_s(6)
    assert len(broker.client("b", 5).subscribe(("t", 1))) == 1


def test_a_sent_qos_2_message_does_not_expire() -> None:
    """[MQTT5-4.3.3-7]: its delivery is completed, over reconnect and restart; a message that was never sent does
    expire.
    """
    broker = BrokerHarness()
    subscriber = broker.persistent("s", 5, receive_maximum=1)
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p", 5)
    publisher.publish("t", b"sent", 2, 1, message_expiry_interval=5)
    publisher.publish("t", b"never sent", 2, 2, message_expiry_interval=5)
    assert subscriber.payloads() == [b"sent"]
    subscriber.vanish()
    broker.pass_s(10)
    subscriber = broker.persistent("s", 5)
    (message,) = subscriber.messages()
    assert (message.payload, message.dup) == (b"sent", True)
    assert message.properties == {"message_expiry_interval": 0}
