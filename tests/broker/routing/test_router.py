"""From a message to its queues: QoS, overlap, No Local, `$` topics."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strogoff.broker.queues.message import Message
from strogoff.mqtt.packets import Puback
from strogoff.mqtt.topics import matches

from ...harness.broker import BrokerHarness, option, publish

VERSIONS = (3, 4, 5)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("upgrade", [False, True])
def test_qos_of_a_delivery(version: int, upgrade: bool) -> None:
    """The lower of published and granted QoS; with `upgrade_outgoing_qos` the granted one where it is higher.

    [MQTT-3.8.4-6] [MQTT5-3.8.4-8]
    """
    broker = BrokerHarness(upgrade_outgoing_qos=upgrade)
    clients = [broker.client(f"s{granted}", version) for granted in range(3)]
    for granted, client in enumerate(clients):
        client.subscribe(("t", granted))
    publisher = broker.client("p", version)
    for published in range(3):
        publisher.publish("t", b"", published, published)
        for granted, client in enumerate(clients):
            wanted = granted if upgrade else min(granted, published)
            assert [m.qos for m in client.messages()] == [wanted]


def test_upgraded_qos_0_is_kept_for_an_absent_client() -> None:
    """With `upgrade_outgoing_qos` a QoS 0 message is QoS 1 in this queue, so it is kept."""
    broker = BrokerHarness(upgrade_outgoing_qos=True)
    client = broker.persistent("s")
    client.subscribe(("t", 1))
    client.leave()
    broker.client("p").publish("t", b"x")
    assert [(m.payload, m.qos) for m in broker.persistent("s").messages()] == [(b"x", 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_overlapping_subscriptions(version: int) -> None:
    """One copy at the highest QoS [MQTT-3.3.5-1] [MQTT5-3.3.4-2], whatever the order of subscribing."""
    broker = BrokerHarness()
    client = broker.client("s", version)
    client.subscribe(("a/#", 0), ("a/b", 2), ("+/b", 1))
    broker.client("p").publish("a/b", b"x", 2, 1)
    assert [m.qos for m in client.messages()] == [2]


def test_subscription_identifiers() -> None:
    """The identifiers of all matching subscriptions, doubled if two have the same, none if there is none.

    [MQTT5-3.3.4-3] [MQTT5-3.3.4-4]
    """
    broker = BrokerHarness()
    client = broker.client("s", 5)
    client.subscribe(("a/#", 0), subscription_identifier=1)
    client.subscribe(("a/+", 1), subscription_identifier=268435455)
    client.subscribe(("+/b", 1), subscription_identifier=1)
    client.subscribe(("c", 0))
    publisher = broker.client("p", 5)
    publisher.publish("a/b", b"", 1, 1)
    publisher.publish("a/b/c")
    publisher.publish("c")
    found = [sorted((m.properties or {}).get("subscription_identifier", [])) for m in client.messages()]
    assert found == [[1, 1, 268435455], [1], []]


def test_an_identifier_is_replaced_with_its_subscription() -> None:
    """The identifier survives a restart with its subscription [MQTT5-3.3.4-3] [MQTT5-3.8.4-3]."""
    broker = BrokerHarness()
    client = broker.persistent("s", 5)
    client.subscribe(("t", 1), subscription_identifier=5)
    client.subscribe(("t", 1), subscription_identifier=6)
    broker.restart()
    broker.client("p", 5).publish("t", b"", 1, 1)
    (message,) = broker.persistent("s", 5).messages()
    assert message.properties == {"subscription_identifier": [6]}


def test_a_clients_publish_has_no_identifier() -> None:
    """A PUBLISH that brings one is a protocol error [MQTT5-3.3.4-6]."""
    broker = BrokerHarness()
    client = broker.client("p", 5)
    frame = b"\x30\x07\x00\x01t\x02\x0b\x05x"
    (answer,) = client.ask(frame)
    assert answer.reason == 0x82 and client.closed


def test_each_shared_copy_has_its_own_identifier() -> None:
    """A client with an ordinary and a shared subscription gets two copies, each with its own [MQTT5-3.3.4-5]."""
    broker = BrokerHarness()
    client = broker.client("s", 5)
    client.subscribe(("t", 1), subscription_identifier=1)
    client.subscribe(("$share/g/t", 1), subscription_identifier=2)
    broker.client("p", 5).publish("t", b"", 1, 1)
    assert sorted(m.properties["subscription_identifier"] for m in client.messages()) == [[1], [2]]  # type: ignore[index]


def test_no_local() -> None:
    """This subscription does not get the client's own messages; another one of the client does [MQTT5-3.8.3-3]."""
    broker = BrokerHarness()
    client, other = broker.client("c", 5), broker.client("o", 5)
    client.subscribe(option("t", 1, no_local=True), option("u", 2, no_local=True), option("+", 0))
    client.unsubscribe("+")
    (answer,) = client.publish("t", b"mine", 1, 1)
    assert isinstance(answer, Puback)
    other.publish("t", b"theirs", 1, 1)
    assert client.payloads() == [b"theirs"]
    client.subscribe(("#", 1), subscription_identifier=7)
    client.send(publish("u", b"mine", 2, 2))
    got = client.messages()
    assert [(m.payload, m.qos, m.properties) for m in got] == [(b"mine", 1, {"subscription_identifier": [7]})]


def test_retain_as_published() -> None:
    """0: RETAIN is 0 for an established subscription; 1: as the publisher had it.

    [MQTT-3.3.1-9] [MQTT5-3.3.1-12] [MQTT5-3.3.1-13]
    """
    broker = BrokerHarness()
    plain, kept, old = broker.client("a", 5), broker.client("b", 5), broker.client("c", 4)
    plain.subscribe(option("t", 1))
    kept.subscribe(option("t", 1, retain_as_published=True))
    old.subscribe(("t", 1))
    publisher = broker.client("p", 5)
    for retain in (True, False):
        publisher.publish("t", b"", 1, 1, retain)
    assert [m.retain for m in plain.messages()] == [False, False]
    assert [m.retain for m in kept.messages()] == [True, False]
    assert [m.retain for m in old.messages()] == [False, False]


@pytest.mark.parametrize("version", VERSIONS)
def test_wildcards_do_not_match_dollar_topics(version: int) -> None:
    """[MQTT-4.7.2-1] [MQTT5-4.7.2-1]"""
    broker = BrokerHarness()
    client = broker.client("s", version)
    client.subscribe(("#", 0), ("+/x", 0), ("$SYS/x", 0), ("+/+", 0))
    node = broker.node
    for topic in ("$SYS/x", "$SYS/y"):
        node.publisher.publish(Message("", topic, b"", 0, False, None, 0, "", node.env.origin, node.env.numbers.next()))
    assert [m.topic for m in client.messages()] == ["$SYS/x"]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_are_compared_without_normalisation(version: int) -> None:
    """No normalisation: case, spaces, composed and decomposed letters, empty levels [MQTT-4.7.3-4] [MQTT5-4.7.3-4]."""
    broker = BrokerHarness()
    client = broker.client("s", version)
    topics = ["a", "A", " a", "a/", "/a", "\u00e9", "e\u0301", "a//b", "a/b"]
    publisher = broker.client("p", version)
    for topic in topics:
        client.subscribe((topic, 0))
        for each in topics:
            publisher.publish(each, each.encode())
        got = client.messages()
        assert [(m.topic, m.payload) for m in got] == [(topic, topic.encode())]
        client.unsubscribe(topic)


LEVELS = st.sampled_from(["a", "b", "", "c"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=3).map("/".join).filter(bool)
FILTERS = (
    st.tuples(st.lists(st.sampled_from(["a", "b", "", "+"]), min_size=0, max_size=3), st.booleans())
    .map(lambda pair: "/".join([*pair[0], "#"] if pair[1] else pair[0]))
    .filter(bool)
)


@given(
    st.lists(st.tuples(st.integers(0, 3), FILTERS, st.integers(0, 2)), max_size=12),
    st.lists(st.tuples(TOPICS, st.integers(0, 2)), min_size=1, max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_every_session_gets_one_copy_at_its_best_qos(
    subscribed: list[tuple[int, str, int]], published: list[tuple[str, int]]
) -> None:
    """One copy for each session with a matching filter, at the best QoS, and no other copies [MQTT-3.3.2-3]
    [MQTT5-3.3.2-3].
    """
    broker = BrokerHarness()
    clients = [broker.client(f"c{number}") for number in range(4)]
    wanted: list[dict[str, int]] = [{} for _ in clients]
    publisher = broker.client("p")
    for number, text, qos in subscribed:
        clients[number].subscribe((text, qos))
        wanted[number][text] = qos
    for at, (topic, qos) in enumerate(published):
        publisher.publish(topic, b"", qos, at + 1)
        for client, filters in zip(clients, wanted, strict=True):
            best = [granted for text, granted in filters.items() if matches(text, topic)]
            expected = [(topic, min(qos, max(best)))] if best else []
            assert [(m.topic, m.qos) for m in client.messages()] == expected
