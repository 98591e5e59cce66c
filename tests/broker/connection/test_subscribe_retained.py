"""Retained messages as clients see them: kept, replaced, removed, sent to new subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.mqtt.packets import Puback, Publish, Pubrec, Suback

from ...harness.broker import BrokerHarness, option

VERSIONS = (3, 4, 5)


def retained_for(broker: BrokerHarness, version: int, *wanted: Any, name: str = "reader") -> list[Publish]:
    """Returns the packets that a new subscription of a new client gets."""
    client = broker.client(name, version)
    came = client.subscribe(*wanted)
    assert isinstance(came[0], Suback)  # retained messages come behind it
    client.leave()
    return came[1:]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_retained_message_is_for_later_subscribers(version: int) -> None:
    """With its QoS, and with RETAIN 1; the lower QoS of the subscription counts.

    [MQTT-3.3.1-5] [MQTT-3.3.1-6] [MQTT-3.3.1-8] [MQTT5-3.3.1-5] [MQTT5-3.3.1-9]
    """
    broker = BrokerHarness()
    publisher = broker.client("p", version)
    for number, topic in enumerate(("a/0", "a/1", "a/2", "b")):
        publisher.publish(topic, topic.encode(), number % 3, number + 1, retain=True)
    got = retained_for(broker, version, ("a/#", 2))
    assert [(m.topic, m.payload, m.qos, m.retain, m.dup) for m in got] == [
        ("a/0", b"a/0", 0, True, False),
        ("a/1", b"a/1", 1, True, False),
        ("a/2", b"a/2", 2, True, False),
    ]
    assert [m.qos for m in retained_for(broker, version, ("a/+", 1))] == [0, 1, 1]
    assert [m.topic for m in retained_for(broker, version, ("b", 0), ("a/1", 0))] == ["b", "a/1"]


def test_no_local_holds_for_retained_messages_too() -> None:
    """A bridge would send them back to where they came from, each time that it connects [MQTT5-3.8.3-3]."""
    broker = BrokerHarness()
    broker.client("other", 5).publish("t/2", b"other", retain=True)
    client = broker.client("client", 5)
    for topic in ("t/1", "t/3"):
        client.publish(topic, b"own", retain=True)
    assert [m.topic for m in client.subscribe(option("t/#", no_local=True))[1:]] == ["t/2"]
    assert broker.node.sessions.get("", "client").queue.replay is None  # type: ignore[union-attr]
    assert [m.topic for m in client.subscribe(option("t/#"))[1:]] == ["t/1", "t/2", "t/3"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_one_is_kept(version: int) -> None:
    """This holds also for QoS 0; a PUBLISH without RETAIN changes nothing.

    [MQTT-3.3.1-7] [MQTT-3.3.1-12] [MQTT5-3.3.1-5] [MQTT5-3.3.1-8]
    """
    broker = BrokerHarness()
    publisher = broker.client("p", version)
    publisher.publish("t", b"old", 2, 1, retain=True)
    publisher.publish("t", b"new", 0, retain=True)
    publisher.publish("t", b"passing", 1, 2)
    publisher.publish("t", b"", 1, 3)
    assert [(m.payload, m.qos) for m in retained_for(broker, version, ("t", 2))] == [(b"new", 0)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_empty_payload_removes(version: int, qos: int) -> None:
    """The empty message is delivered as usual, and is not retained itself.

    [MQTT-3.3.1-10] [MQTT-3.3.1-11] [MQTT5-3.3.1-6] [MQTT5-3.3.1-7] [MQTT-3.3.1-9]
    """
    broker = BrokerHarness()
    live = broker.client("live", version)
    live.subscribe(("t", 2))
    publisher = broker.client("p", version)
    publisher.publish("t", b"x", 1, 1, retain=True)
    publisher.publish("t", b"", qos, 2, retain=True)
    assert [(m.payload, m.retain) for m in live.messages()] == [(b"x", False), (b"", False)]
    assert retained_for(broker, version, ("t", 2)) == []
    assert broker.keys(b"r") == []


@pytest.mark.parametrize("version", [3, 4])
def test_the_older_versions_get_them_again_with_each_subscribe(version: int) -> None:
    """[MQTT-3.8.4-3]"""
    broker = BrokerHarness()
    broker.client("p").publish("t", b"x", 1, 1, retain=True)
    client = broker.client("s", version)
    for _ in range(3):
        suback, message = client.subscribe(("t", 0))
        assert (suback, message.payload) == (Suback(1, [0]), b"x")


def test_retain_handling() -> None:
    """0: with every SUBSCRIBE; 1: with a new subscription; 2: never.

    [MQTT5-3.3.1-9] [MQTT5-3.3.1-10] [MQTT5-3.3.1-11] [MQTT5-3.8.4-4]
    """
    broker = BrokerHarness()
    broker.client("p").publish("t", b"x", 0, retain=True)
    client = broker.client("s", 5)

    def count(handling: int) -> int:
        return len(client.subscribe(option("t", 0, retain_handling=handling))) - 1

    assert [count(2), count(1), count(0), count(0), count(1), count(2)] == [0, 0, 1, 1, 0, 0]
    client.unsubscribe("t")
    assert [count(1), count(1)] == [1, 0]


def test_shared_subscriptions_get_none() -> None:
    """MQTT 5.0 section 4.8.2."""
    broker = BrokerHarness()
    broker.client("p").publish("t", b"x", 0, retain=True)
    assert broker.client("s", 5).subscribe(("$share/g/t", 1)) == [Suback(1, [1])]


def test_identifiers_of_retained_messages() -> None:
    """They have the identifier of the subscription that matched [MQTT5-3.3.4-3]."""
    broker = BrokerHarness()
    broker.client("p").publish("t", b"x", 0, retain=True)
    client = broker.client("s", 5)
    client.subscribe(("#", 0), subscription_identifier=1)
    _, message = client.subscribe(("t", 0), subscription_identifier=2)
    assert message.properties == {"subscription_identifier": [2]}


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("payload", [b"x", b""])
def test_the_acknowledgement_means_that_the_change_is_on_disk(qos: int, payload: bytes) -> None:
    """Set or removed: acknowledged after the commit, and so after a kill (P4, P7)."""
    broker = BrokerHarness()
    publisher = broker.client("p")
    publisher.publish("t", b"before", 1, 9, retain=True)
    broker.hold_disk()
    assert publisher.publish("t", payload, qos, 1, retain=True) == []
    broker.free_disk()
    assert publisher.take() == [Puback(1) if qos == 1 else Pubrec(1)]
    broker.restart()
    assert [m.payload for m in retained_for(broker, 4, ("t", 0))] == [payload] * bool(payload)


def test_a_second_deletion_waits_for_the_first() -> None:
    """The second client's acknowledgement means the same as the first one's: it waits for the same commit."""
    broker = BrokerHarness()
    one, two = broker.client("one"), broker.client("two")
    one.publish("t", b"x", 1, 1, retain=True)
    broker.hold_disk()
    assert one.publish("t", b"", 1, 2, retain=True) == []
    assert two.publish("t", b"", 1, 2, retain=True) == []
    broker.free_disk()
    assert two.take() == [Puback(2)]


def test_limits_of_retained_messages() -> None:
    """A message above a limit is not retained, with an event; the PUBLISH itself is delivered (P8)."""
    broker = BrokerHarness(retained_max_messages=1)
    live = broker.client("live")
    live.subscribe(("#", 0))
    publisher = broker.client("p")
    assert publisher.publish("a", b"1", 1, 1, retain=True) == [Puback(1)]
    assert publisher.publish("b", b"2", 1, 2, retain=True) == [Puback(2)]
    assert live.payloads() == [b"1", b"2"]
    assert [m.topic for m in retained_for(broker, 4, ("#", 0))] == ["a"]
    (event,) = broker.events("ret.refuse")
    assert (event["topic"], event["client"], event["reason"]) == ("b", "p", "retained_max_messages")


def test_a_full_disk_keeps_no_retained_qos_0() -> None:
    """The message is delivered, and an event tells that it is not retained (P8)."""
    broker = BrokerHarness()
    live, publisher = broker.client("live"), broker.client("p")
    live.subscribe(("t", 0))
    publisher.publish("t", b"kept", 1, 1, retain=True)
    live.messages()
    broker.disk.full = True
    broker.client("other").publish("u", b"waits", 1, 1, retain=True)
    broker.pass_s(0.1)
    publisher.publish("t", b"not kept", 0, retain=True)
    assert live.payloads() == [b"not kept"]
    assert [event["topic"] for event in broker.events("ret.refuse")] == ["t"]
    broker.disk.full = False
    broker.pass_s(10)
    assert [m.payload for m in retained_for(broker, 4, ("t", 0))] == [b"kept"]


def test_properties_and_expiry_of_retained_messages_survive() -> None:
    """Over a restart, with the rest of the interval (P7) [MQTT5-3.3.2-6]."""
    broker = BrokerHarness()
    own: dict[str, Any] = {"content_type": "x", "user_property": [("a", "1"), ("a", "2")]}
    broker.client("p", 5).publish("t", b"x", 1, 1, True, message_expiry_interval=100, **own)
    broker.pass_s(40)
    broker.restart()
    (message,) = retained_for(broker, 5, ("t", 1))
    assert message.properties == {**own, "message_expiry_interval": 60}


def test_expired_retained_messages_are_swept() -> None:
    """`expire_retain_cache`: they go from the disk too, within the interval."""
    broker = BrokerHarness(expire_retain_cache_s=10)
    broker.client("p", 5).publish("t", b"x", 1, 1, retain=True, message_expiry_interval=5)
    assert len(broker.keys(b"r")) == 1
    broker.pass_s(21)
    assert broker.keys(b"r") == [] and broker.node.retained.count == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("power", [False, True])
def test_a_restart_right_behind_the_suback_takes_nothing(version: int, power: bool) -> None:
    """A client with a SUBACK does not ask again: it gets the messages retained before, also those not sent yet (P4,
    P7).
    """
    broker = BrokerHarness()
    publisher = broker.client("p", version)
    topics = [f"t/{number}" for number in range(50)]
    for topic in topics:
        publisher.publish(topic, qos=1, retain=True)
    client = broker.persistent("s", version, **({"receive_maximum": 20} if version == 5 else {}))
    broker.hold_disk()
    client.subscribe(("t/#", 1))
    broker.disk.stall_until = 0.0
    while not client.received:
        assert broker.loop.turn()
    suback, *came = client.take()
    assert isinstance(suback, Suback)
    broker.restart(power)
    client = broker.persistent("s", version)
    came += client.drain()
    assert sorted({each.topic for each in came}) == sorted(topics)
    client.leave()
    broker.restart()
    assert broker.persistent("s", version).drain() == []  # once is enough


def test_a_connection_that_is_lost_before_the_suback() -> None:
    """A client that subscribes again gets only new retained messages: these count as new (MQTT 5.0 section 3.8.3.1)."""
    broker = BrokerHarness()
    broker.client("p").publish("t", b"kept", 1, 1, retain=True)
    once = option("t", 1, retain_handling=1)
    client = broker.persistent("s", 5)
    broker.hold_disk()
    assert client.subscribe(once) == []
    client.vanish()
    broker.free_disk()
    client = broker.persistent("s", 5)
    assert client.take() == []
    assert [type(each) for each in client.subscribe(once)] == [Suback, Publish]
    assert [type(each) for each in client.subscribe(once)] == [Suback]


def test_two_subscribe_packets_at_once_are_not_both_new() -> None:
    """[MQTT5-3.3.1-10]: also if the first has no answer yet."""
    broker = BrokerHarness()
    broker.client("p").publish("t", b"kept", 1, 1, retain=True)
    client = broker.persistent("s", 5)
    broker.hold_disk()
    for _ in range(2):
        client.subscribe(option("t", 1, retain_handling=1))
    broker.free_disk()
    assert [type(each) for each in client.take()] == [Suback, Publish, Suback]
