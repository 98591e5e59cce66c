"""Sizes and topic aliases of packets to subscribers, changes by plugins, and the encoding that copies share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.packets import Publish

from ...harness.broker import BrokerHarness, option, publish

VERSIONS = (3, 4, 5)


def test_no_packet_is_larger_than_the_client_takes() -> None:
    """A packet of exactly the limit is sent; one byte more, and it is dropped with an event and counts as sent.

    [MQTT5-3.1.2-24] [MQTT5-3.1.2-25]
    """
    limit = 40
    for qos in (0, 1, 2):
        frame = encode(Publish("t", b"", qos, packet_id=7 if qos else 0), 5)
        assert frame is not None
        room = limit - len(frame)
        broker = BrokerHarness()
        subscriber = broker.persistent("s", 5, maximum_packet_size=limit)
        subscriber.subscribe(("t", 2))
        other = broker.client("o", 5)
        other.subscribe(("t", 2))
        publisher = broker.client("p", 5)
        publisher.publish("t", b"x" * (room + 1), qos, 1)
        assert subscriber.messages() == []
        assert broker.drops() == [("s", "t", "max_packet_size_exceeded")]
        publisher.publish("t", b"x" * room, qos, 2)
        assert [len(m.payload) for m in subscriber.messages()] == [room]
        assert len(other.messages()) == 2
        subscriber.vanish()
        assert [len(m.payload) for m in broker.persistent("s", 5).messages()] == ([room] if qos else [])


def test_a_message_that_is_too_large_takes_no_window() -> None:
    """It counts as delivered: the messages behind it are sent [MQTT5-3.1.2-25]."""
    broker = BrokerHarness()
    subscriber = broker.persistent("s", 5, maximum_packet_size=30, receive_maximum=1)
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p", 5)
    for number in range(5):
        publisher.publish("t", b"x" * 50 if number % 2 == 0 else b"%d" % number, 1, number + 1)
    assert [m.payload for m in subscriber.drain()] == [b"1", b"3"]


# -- topic aliases to the client


def test_aliases_to_the_client() -> None:
    """At most as many as client and configuration allow; a topic with an alias is sent without its name.

    [MQTT5-3.1.2-26] [MQTT5-3.3.2-11]
    """
    broker = BrokerHarness(topic_alias_max_broker=10)
    subscriber = broker.persistent("s", 5, topic_alias_maximum=2)
    subscriber.subscribe(("#", 1))
    publisher = broker.client("p")
    for topic in ("a", "b", "c", "a", "b", "c"):
        publisher.publish(topic, topic.encode(), 1)
    seen = [(m.topic, (m.properties or {}).get("topic_alias"), m.payload) for m in subscriber.messages()]
    assert seen == [("a", 1, b"a"), ("b", 2, b"b"), ("c", None, b"c"), ("", 1, b"a"), ("", 2, b"b"), ("c", None, b"c")]


def test_aliases_end_with_their_connection() -> None:
    """[MQTT5-3.3.2-7]: a message that is sent again on a new connection has its topic."""
    broker = BrokerHarness(topic_alias_max_broker=10)
    subscriber = broker.persistent("s", 5, topic_alias_maximum=2)
    subscriber.subscribe(("#", 1))
    publisher = broker.client("p")
    publisher.publish("a", b"1", 1)
    publisher.publish("a", b"2", 1)
    assert [m.topic for m in subscriber.messages()] == ["a", ""]
    subscriber.vanish()
    subscriber = broker.persistent("s", 5, topic_alias_maximum=2)
    assert [(m.topic, m.dup) for m in subscriber.messages()] == [("a", True), ("", True)]
    subscriber.vanish()
    assert [m.topic for m in broker.persistent("s", 5).messages()] == ["a", "a"]


@pytest.mark.parametrize(("of_client", "of_broker"), [(0, 10), (10, 0)])
def test_no_aliases_where_one_side_wants_none(of_client: int, of_broker: int) -> None:
    """[MQTT5-3.1.2-27]"""
    broker = BrokerHarness(topic_alias_max_broker=of_broker)
    limits: dict[str, Any] = {"topic_alias_maximum": of_client} if of_client else {}
    subscriber = broker.client("s", 5, **limits)
    subscriber.subscribe(("#", 0))
    publisher = broker.client("p")
    publisher.publish("a")
    publisher.publish("a")
    assert [(m.topic, m.properties) for m in subscriber.messages()] == [("a", None), ("a", None)]


def test_an_alias_whose_first_message_was_too_large_is_not_used() -> None:
    """The client never saw the topic that the alias stands for."""
    broker = BrokerHarness(topic_alias_max_broker=10)
    subscriber = broker.client("s", 5, topic_alias_maximum=5, maximum_packet_size=30)
    subscriber.subscribe(("#", 0))
    publisher = broker.client("p")
    publisher.publish("topic", b"x" * 50)
    publisher.publish("topic", b"small")
    assert [(m.topic, m.payload) for m in subscriber.messages()] == [("topic", b"small")]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("room", [0, 1, 2, 3])
def test_an_alias_does_not_make_a_packet_too_large(qos: int, room: int) -> None:
    """The property takes 3 bytes. A packet with less room is sent without alias, and the next topic gets it."""
    first, later = publish("topic", b"x" * 40, qos), publish("other", b"", qos, 2)
    broker = BrokerHarness(topic_alias_max_broker=10)
    subscriber = broker.client("s", 5, topic_alias_maximum=1, maximum_packet_size=len(encode(first, 5)) + room)
    subscriber.subscribe(("#", qos))
    publisher = broker.client("p", 5)
    publisher.send(first, later)
    seen = [(m.topic, bool(m.properties), len(m.payload)) for m in subscriber.messages()]
    assert seen == [("topic", room == 3, 40), ("other", room < 3, 0)]


def test_a_short_topic_is_sent_where_its_alias_takes_more_room() -> None:
    """The client keeps the alias for the messages behind."""
    large = publish("t", b"x" * 40)
    broker = BrokerHarness(topic_alias_max_broker=10)
    subscriber = broker.client("s", 5, topic_alias_maximum=1, maximum_packet_size=len(encode(large, 5)))
    subscriber.subscribe(("#", 0))
    publisher = broker.client("p", 5)
    publisher.send(publish("t", b"1"), large, publish("t", b"2"))
    seen = [(m.topic, m.properties) for m in subscriber.messages()]
    assert seen == [("t", {"topic_alias": 1}), ("t", None), ("", {"topic_alias": 1})]


def test_a_message_that_is_sent_again_is_not_too_large_for_its_alias() -> None:
    message = publish("topic", b"x" * 40, 1)
    broker = BrokerHarness(topic_alias_max_broker=10)
    limits = {"topic_alias_maximum": 1, "maximum_packet_size": len(encode(message, 5))}
    subscriber = broker.persistent("s", 5, **limits)
    subscriber.subscribe(("#", 1))
    broker.client("p", 5).send(message)
    assert [m.dup for m in subscriber.messages()] == [False]
    subscriber.vanish()
    assert [m.dup for m in broker.persistent("s", 5, **limits).messages()] == [True]


# -- aliases from the client


def test_aliases_of_the_client() -> None:
    """Every alias from 1 to the maximum of CONNACK is accepted; aliases end with the connection.

    [MQTT5-3.3.2-12] [MQTT5-3.3.2-7]
    """
    broker = BrokerHarness(topic_alias_max_client=3)
    subscriber = broker.client("s")
    subscriber.subscribe(("#", 2))
    publisher, connack = broker.connect("p", 5, False, 100)
    assert connack.properties == {"topic_alias_maximum": 3}
    for alias in (1, 2, 3):
        publisher.publish(f"t/{alias}", b"", 0, topic_alias=alias)
    publisher.publish("t/new", b"", 0, topic_alias=2)  # the same alias may get another topic
    for alias in (1, 2, 3):
        publisher.publish("", b"", 2, alias, topic_alias=alias)
    topics = [m.topic for m in subscriber.messages()]
    assert topics == ["t/1", "t/2", "t/3", "t/new", "t/1", "t/new", "t/3"]
    publisher.vanish()
    publisher, _ = broker.connect("p", 5, False, 100)
    (answer,) = publisher.publish("", b"", 0, topic_alias=1)
    assert answer.reason == 0x82 and publisher.closed


@pytest.mark.parametrize("alias", [4, 65535])
def test_an_alias_above_the_maximum_closes(alias: int) -> None:
    """DISCONNECT 0x94 (MQTT 5.0 section 3.3.2.3.4)."""
    publisher = BrokerHarness(topic_alias_max_client=3).client("p", 5)
    (answer,) = publisher.publish("t", b"", 0, topic_alias=alias)
    assert answer.reason == 0x94 and publisher.closed


# -- plugins


class Deliverer:
    """A plugin that changes deliveries to some clients."""

    def auth_on_publish(self, *_: Any) -> bool:
        return True

    def auth_on_subscribe(self, *_: Any) -> bool:
        return True

    def on_deliver(self, user: Any, subscriber: Any, qos: int, topic: str, payload: bytes, retain: bool) -> Any:
        if subscriber.client_id == "s":
            return {"topic": "for/s", "payload": b"%d" % qos + payload}
        return None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1])
def test_on_deliver_changes_one_copy(version: int, qos: int) -> None:
    """Topic and payload change for this subscriber only."""
    broker = BrokerHarness(Deliverer())
    clients = [broker.client(name, version) for name in ("a", "s", "z")]
    for client in clients:
        client.subscribe(("t", 2))
    broker.client("p").publish("t", b"x", qos)
    seen = [[(m.topic, m.payload) for m in client.messages()] for client in clients]
    assert seen == [[("t", b"x")], [("for/s", b"%dx" % qos)], [("t", b"x")]]


@given(
    st.lists(st.tuples(st.sampled_from([3, 4, 5]), st.integers(0, 2), st.booleans()), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.binary(max_size=300)), min_size=1, max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_a_cached_encoding_is_used_only_for_the_same_form(
    subscribers: list[tuple[int, int, bool]], messages: list[tuple[int, bool, bytes]]
) -> None:
    """Versions, QoS, RETAIN and identifiers mixed at random: each subscriber gets its own form of the message."""
    broker = BrokerHarness()
    clients = []
    for number, (version, qos, own) in enumerate(subscribers):
        client = broker.client(f"c{number}", version)
        extra = {"subscription_identifier": number + 1} if version == 5 and own else {}
        client.subscribe(option("t", qos, retain_as_published=version == 5 and own), **extra)
        clients.append(client)
    publisher = broker.client("p", 5)
    for at, (qos, retain, payload) in enumerate(messages):
        publisher.publish("t", payload, qos, at + 1, retain)
    for number, (version, granted, own) in enumerate(subscribers):
        identifiers = {"subscription_identifier": [number + 1]} if version == 5 and own else None
        got = clients[number].messages()
        assert [(m.qos, m.retain, m.payload, m.properties) for m in got] == [
            (min(qos, granted), retain and version == 5 and own, payload, identifiers)
            for qos, retain, payload in messages
        ]
        ids = [m.packet_id for m in got if m.qos]
        assert len(ids) == len(set(ids)) and isinstance(got[0], packets.Publish)
