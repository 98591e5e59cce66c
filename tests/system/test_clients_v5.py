"""Features of MQTT 5, with paho-mqtt as the client."""

from __future__ import annotations

from typing import Any

import pytest

from .brokers import EveryListener
from .paho_client import MQTT_5, Paho, properties, properties_of

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]


def test_properties_of_a_message_reach_the_subscriber(shared: EveryListener, name: str) -> None:
    """[MQTT5-3.3.2-4] [MQTT5-3.3.2-15] [MQTT5-3.3.2-16] [MQTT5-3.3.2-17] [MQTT5-3.3.2-18] [MQTT5-3.3.2-20]

    User properties stay in order, equal names included.
    """
    users = [("a", "1"), ("b", "2"), ("a", "3")]
    sent: dict[str, Any] = {
        "PayloadFormatIndicator": 1,
        "ContentType": "text/plain",
        "ResponseTopic": f"{name}/answers",
        "CorrelationData": b"\x00\x01\xff",
        "UserProperty": users,
    }
    with Paho(shared, f"{name}-r", MQTT_5) as reader, Paho(shared, f"{name}-w", MQTT_5) as writer:
        reader.subscribe(name, 2)
        for qos in (0, 1, 2):
            writer.publish(name, "text", qos, **sent)
            got = reader.next().properties
            assert {key: getattr(got, key) for key in sent} == sent


def test_request_and_response(shared: EveryListener, name: str) -> None:
    """The pattern of response topic and correlation data, between two versions."""
    with Paho(shared, f"{name}-server", MQTT_5) as server, Paho(shared, f"{name}-asks", MQTT_5) as asks:
        server.subscribe(f"{name}/requests", 1)
        asks.subscribe(f"{name}/answers", 1)
        asks.publish(f"{name}/requests", "6*7", 1, ResponseTopic=f"{name}/answers", CorrelationData=b"q1")
        request = server.next()
        asked = properties_of(request)
        server.publish(asked.ResponseTopic, "42", 1, CorrelationData=asked.CorrelationData)
        answer = asks.next()
        assert (answer.payload, properties_of(answer).CorrelationData) == (b"42", b"q1")


def test_subscription_identifiers(shared: EveryListener, name: str) -> None:
    """[MQTT5-3.3.4-3] [MQTT5-3.3.4-4] [MQTT5-3.3.4-5]: one copy for overlapping filters, with both identifiers."""
    with Paho(shared, name, MQTT_5) as client:
        client.subscribe(f"{name}/#", 1, identifier=7)
        client.subscribe(f"{name}/a", 1, identifier=268_435_455)
        client.publish(f"{name}/a", b"both", 1)
        client.publish(f"{name}/b", b"one", 1)
        both, one = client.next(), client.next()
        assert sorted(properties_of(both).SubscriptionIdentifier) == [7, 268_435_455]
        assert properties_of(one).SubscriptionIdentifier == [7]
        assert (both.payload, one.payload) == (b"both", b"one")


def test_message_expiry_counts_down_and_ends(shared: EveryListener, name: str) -> None:
    """[MQTT5-3.3.2-5] [MQTT5-3.3.2-6]: a message that waited has the rest of its interval; an
    expired one is not sent.
    """
    stays: dict[str, Any] = {"clean": False, "connect": {"SessionExpiryInterval": 600}}
    with Paho(shared, f"{name}-r", MQTT_5, **stays) as reader:
        reader.subscribe(f"{name}/#", 1)
    with Paho(shared, f"{name}-w", MQTT_5) as writer, Paho(shared, f"{name}-c", MQTT_5) as clock:
        writer.publish(f"{name}/short", b"short", 1, MessageExpiryInterval=1)
        writer.publish(f"{name}/long", b"long", 1, MessageExpiryInterval=100)
        # a will with a delay uses the broker's clock: it arrives when the second is over
        clock.subscribe(f"{name}-will", 1)
        will = {
            "topic": f"{name}-will",
            "payload": b"two seconds are over",
            "qos": 1,
            "properties": properties("WILLMESSAGE", WillDelayInterval=2),
        }
        delayed = {"SessionExpiryInterval": 60}
        dying = Paho(shared, f"{name}-d", MQTT_5, will=will, connect=delayed)
        dying.__enter__()
        dying.vanish()
        assert clock.next().payload == b"two seconds are over"
    with Paho(shared, f"{name}-r", MQTT_5, **stays) as reader:
        got = reader.next()
        assert got.payload == b"long"
        assert 90 <= properties_of(got).MessageExpiryInterval <= 98
        assert reader.messages.empty()


def test_topic_aliases_of_the_client(shared: EveryListener, name: str) -> None:
    """topic_alias_max_client is announced, and an alias stands for its topic. [MQTT5-3.3.2-7] [MQTT5-3.3.2-12]"""
    with Paho(shared, f"{name}-r", MQTT_5) as reader, Paho(shared, f"{name}-w", MQTT_5) as writer:
        assert writer.server["TopicAliasMaximum"] == 10
        reader.subscribe(f"{name}/#", 2)
        writer.publish(f"{name}/one", b"1", 1, TopicAlias=1)
        writer.publish(f"{name}/two", b"2", 2, TopicAlias=10)
        writer.publish("", b"3", 0, TopicAlias=1)
        writer.publish("", b"4", 2, TopicAlias=10)
        writer.publish(f"{name}/three", b"5", 1, TopicAlias=1)
        writer.publish("", b"6", 1, TopicAlias=1)
        got = {message.payload: message.topic.rpartition("/")[2] for message in (reader.next() for _ in range(6))}
        assert got == {b"1": "one", b"2": "two", b"3": "one", b"4": "two", b"5": "three", b"6": "three"}


def test_topic_aliases_of_the_broker(shared: EveryListener, name: str) -> None:
    """To a client that takes them (topic_alias_max_broker). [MQTT5-3.1.2-26]: no higher one than it allows."""
    with (
        Paho(shared, f"{name}-r", MQTT_5, connect={"TopicAliasMaximum": 2}) as reader,
        Paho(shared, f"{name}-w", MQTT_5) as writer,
    ):
        reader.subscribe(f"{name}/#", 0)
        known: dict[int, str] = {}
        for number in range(12):
            topic = f"{name}/{number % 3}"
            writer.publish(topic, b"%d" % number, 1)
            got = reader.next()
            alias = getattr(got.properties, "TopicAlias", None)
            assert alias in (None, 1, 2)
            if alias is not None and got.topic:
                known[alias] = got.topic
            assert (got.topic or known[alias or 0]) == topic
        assert len(known) == 2


def test_reason_codes_that_only_version_5_has(shared: EveryListener, name: str) -> None:
    """[MQTT5-3.11.3-2]: no subscriber, no subscription, and success."""
    with Paho(shared, name, MQTT_5) as client:
        assert client.publish(name, b"nobody", 1) == 0x10
        assert client.unsubscribe(name) == [0x11]
        client.subscribe(name, 1)
        assert client.publish(name, b"somebody", 1) == 0
        assert client.unsubscribe(name) == [0]


def test_options_of_a_subscription(shared: EveryListener, name: str) -> None:
    """No local [MQTT5-3.8.3-3], retain as published [MQTT5-3.3.1-12] [MQTT5-3.3.1-13], retain handling
    [MQTT5-3.3.1-10] [MQTT5-3.3.1-11]."""
    with Paho(shared, f"{name}-r", MQTT_5) as reader, Paho(shared, f"{name}-w", MQTT_5) as writer:
        writer.publish(f"{name}/kept", b"before", 1, retain=True)
        reader.subscribe(f"{name}/#", 1, noLocal=True, retainAsPublished=True, retainHandling=2)
        reader.publish(f"{name}/mine", b"mine", 1)
        writer.publish(f"{name}/kept", b"live", 1, retain=True)
        got = reader.next()
        assert (got.payload, got.retain) == (b"live", True)
        reader.subscribe(f"{name}/#", 1, retainHandling=1)
        writer.publish(f"{name}/kept", b"", 1, retain=True)
        got = reader.next()
        assert (got.payload, got.retain) == (b"", False)


def test_the_broker_names_a_client_without_a_name(shared: EveryListener, name: str) -> None:
    """[MQTT5-3.1.3-6] [MQTT5-3.1.3-7] [MQTT5-3.2.2-16]"""
    with Paho(shared, "", MQTT_5) as one, Paho(shared, "", MQTT_5) as two:
        names = {client.server["AssignedClientIdentifier"] for client in (one, two)}
        assert len(names) == 2 and "" not in names


def test_a_retained_message_carries_its_properties_across_versions(shared: EveryListener, name: str) -> None:
    """Published by version 5, read by 3.1.1 and 5."""
    with Paho(shared, f"{name}-w", MQTT_5) as writer:
        writer.publish(name, b"kept", 1, retain=True, UserProperty=[("k", "v")], MessageExpiryInterval=500)
    with Paho(shared, f"{name}-5", MQTT_5) as five, Paho(shared, f"{name}-4", 4) as four:
        five.subscribe(name, 1)
        four.subscribe(name, 1)
        got = five.next()
        assert properties_of(got).UserProperty == [("k", "v")]
        assert 490 <= properties_of(got).MessageExpiryInterval <= 500
        assert four.next().payload == b"kept"


def test_a_message_too_large_for_a_client_is_not_sent_to_it(shared: EveryListener, name: str) -> None:
    """[MQTT5-3.1.2-24] [MQTT5-3.1.2-25]: dropped for this subscriber as if it had been sent."""
    with (
        Paho(shared, f"{name}-r", MQTT_5, connect={"MaximumPacketSize": 200}) as small,
        Paho(shared, f"{name}-w", MQTT_5) as writer,
    ):
        small.subscribe(f"{name}/#", 1)
        writer.publish(f"{name}/big", b"x" * 1000, 1)
        writer.publish(f"{name}/small", b"small", 1)
        assert small.next().payload == b"small"
        assert not small.gone.is_set()


def test_a_will_waits_for_its_delay_unless_the_client_returns(shared: EveryListener, name: str) -> None:
    """[MQTT5-3.1.3-9]: a client that is back in time keeps its will from being published."""
    will = {
        "topic": f"{name}/will",
        "payload": b"dead",
        "qos": 1,
        "properties": properties("WILLMESSAGE", WillDelayInterval=1, UserProperty=[("by", "will")]),
    }
    kept: dict[str, Any] = {"clean": False, "connect": {"SessionExpiryInterval": 60}}
    with Paho(shared, f"{name}-r", MQTT_5) as reader:
        reader.subscribe(f"{name}/#", 1)
        first = Paho(shared, name, MQTT_5, will=will, **kept)
        first.__enter__()
        first.vanish()
        with Paho(shared, name, MQTT_5, **kept) as again:
            assert again.session_present
            late = Paho(shared, f"{name}-late", MQTT_5, will=will | {"payload": b"late"}, **kept)
            late.__enter__()
            late.vanish()
            got = reader.next()
            assert got.payload == b"late"
            assert properties_of(got).UserProperty == [("by", "will")]
            assert reader.messages.empty()
