"""Sessions over connections: their content, their duration, and their end."""

from __future__ import annotations

import pytest

from strogoff.mqtt.packets import Disconnect, Puback, Pubcomp, Publish, Pubrec, Pubrel, Suback

from ...harness.broker import BrokerHarness, PacketClient, connect
from ...harness.transcript import CLOSED, RawClient, accepted, reason_of

VERSIONS = (3, 4, 5)


def sender(broker: BrokerHarness, payload: bytes = b"m", qos: int = 1, topic: str = "t") -> None:
    """A client that publishes and completes the handshakes."""
    client = broker.client("sender", 5)
    client.publish(topic, payload, qos, 1)
    if qos == 2:
        client.ask(Pubrel(1))
    client.leave()


def present(broker: BrokerHarness, client_id: str) -> bool:
    """Whether a session of this client id exists."""
    return broker.node.sessions.get("", client_id) is not None


# -- the content of a session


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("leaves", [True, False])
def test_a_persistent_session(version: int, leaves: bool) -> None:
    """Subscriptions stay, QoS 1 and 2 messages wait in order, QoS 0 ones do not.

    [MQTT-3.1.2-4] [MQTT-3.1.2-5] [MQTT5-3.1.2-5] [MQTT5-3.1.2-23] [MQTT-4.1.0-1] [MQTT-4.5.0-1] [MQTT5-4.5.0-1]
    """
    broker = BrokerHarness()
    client = broker.persistent("c", version)
    client.subscribe(("t", 2))
    if leaves:
        client.leave()
    else:
        client.vanish()
    for number in range(6):
        sender(broker, b"%d" % number, number % 3)
    client = broker.persistent("c", version)
    assert [(m.payload, m.qos) for m in client.drain()] == [(b"1", 1), (b"2", 2), (b"4", 1), (b"5", 2)]
    sender(broker, b"new")
    assert client.payloads() == [b"new"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("leaves", [True, False])
def test_a_clean_session(version: int, leaves: bool) -> None:
    """It ends with its connection, and the next one finds nothing of it.

    [MQTT-3.1.2-6] [MQTT-4.1.0-2] [MQTT5-4.1.0-2] [MQTT-3.2.2-3] [MQTT5-3.2.2-3]
    """
    broker = BrokerHarness()
    client = broker.client("c", version)
    client.subscribe(("t", 2))
    broker.pass_s(5000)
    sender(broker, b"there")
    assert client.payloads() == [b"there"]
    if leaves:
        client.leave()
    else:
        client.vanish()
    assert not present(broker, "c") and broker.keys(b"s") == []
    sender(broker, b"away")
    client, connack = broker.connect("c", version, False, 60 if version == 5 else None)
    assert not connack.session_present and client.messages() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_lasts_as_long_as_its_connection(version: int) -> None:
    """This holds for any expiry: it counts from the end of the connection [MQTT-4.1.0-2] [MQTT5-4.1.0-1]."""
    broker = BrokerHarness(persistent_client_expiration_s=10)
    client = broker.client("c", version, False, 10 if version == 5 else None)
    client.subscribe(("t", 1))
    broker.pass_s(1000)
    sender(broker)
    assert client.payloads() == [b"m"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_end_of_a_session_deletes_no_retained_message(version: int) -> None:
    """Retained messages belong to no session [MQTT-3.1.2-7]."""
    broker = BrokerHarness()
    client = broker.client("c", version)
    client.publish("r", b"kept", 1, retain=True)
    client.leave()
    client = broker.persistent("c", version)
    client.publish("r2", b"kept too", 1, retain=True)
    client.leave()
    broker.client("c", version).leave()
    assert broker.node.retained.count == 2
    _, retained = broker.client("late", version).subscribe(("r", 0))
    assert retained.payload == b"kept"


# -- messages in flight


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [1, 2])
def test_unacknowledged_messages_are_sent_again(version: int, qos: int) -> None:
    """In order, under their packet ids, marked DUP [MQTT-4.4.0-1] [MQTT5-4.4.0-1] [MQTT-3.3.1-1] [MQTT5-3.3.1-1]"""
    broker = BrokerHarness()
    client = broker.persistent("c", version)
    client.subscribe(("t", 2))
    for number in range(5):
        sender(broker, b"%d" % number, qos)
    before = client.messages()
    client.vanish()
    client = broker.persistent("c", version)
    assert client.messages() == [Publish("t", m.payload, qos, False, True, m.packet_id) for m in before]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partly_answered_window(version: int) -> None:
    """Answered messages are not sent again; after PUBREC only PUBREL is [MQTT-4.4.0-1]

    [MQTT5-4.4.0-1] [MQTT5-4.3.3-7].
    """
    broker = BrokerHarness()
    client = broker.persistent("c", version)
    client.subscribe(("t", 2))
    for number in range(4):
        sender(broker, b"%d" % number, 2)
    ids = [m.packet_id for m in client.messages()]
    assert client.ask(Pubrec(ids[0]), Pubrec(ids[1])) == [Pubrel(ids[0]), Pubrel(ids[1])]
    client.ask(Pubcomp(ids[0]))
    client.vanish()
    client = broker.persistent("c", version)
    broker.settle()
    again = client.take()
    assert [type(each) for each in again] == [Pubrel, Publish, Publish]
    assert [each.packet_id for each in again] == ids[1:]
    client.ask(*[Pubcomp(ids[1]), Pubrec(ids[2]), Pubrec(ids[3])])
    client.ask(Pubcomp(ids[2]), Pubcomp(ids[3]))
    client.vanish()
    assert broker.persistent("c", version).messages() == []


def test_nothing_is_sent_again_while_the_connection_lasts() -> None:
    """v5: only a new connection makes the broker send messages again [MQTT5-4.4.0-1]."""
    broker = BrokerHarness()
    client = broker.persistent("c", 5)
    client.subscribe(("t", 2))
    sender(broker, b"1", 1)
    sender(broker, b"2", 2)
    _, second = client.messages()
    client.ask(Pubrec(second.packet_id))
    broker.pass_s(3600)
    assert client.take() == []


@pytest.mark.parametrize("version", [3, 4])
def test_unanswered_messages_are_repeated_to_older_versions(version: int) -> None:
    """`retry_interval`: unanswered messages are sent again on the same connection, with DUP."""
    broker = BrokerHarness(retry_interval_s=20)
    client = broker.persistent("c", version)
    client.subscribe(("t", 1))
    sender(broker, b"1", 1)
    (first,) = client.messages()
    broker.pass_s(19)
    assert client.take() == []
    broker.pass_s(12)
    again = client.take()
    assert again[0] == Publish("t", b"1", 1, False, True, first.packet_id)


@pytest.mark.parametrize(("qos", "answer"), [(1, Puback), (2, Pubrec)])
@pytest.mark.parametrize("code", [0x80, 0x83, 0x87, 0x97, 0x99])
def test_refused_messages_are_not_sent_again(qos: int, answer: type, code: int) -> None:
    """An answer of 0x80 and above finishes the message [MQTT5-4.4.0-2]."""
    broker = BrokerHarness()
    client = broker.persistent("c", 5)
    client.subscribe(("t", 2))
    sender(broker, b"1", qos)
    (message,) = client.messages()
    assert client.ask(answer(message.packet_id, code)) == []
    client.vanish()
    client = broker.persistent("c", 5)
    assert client.messages() == []
    assert broker.keys(b"q") == []


# -- expiry


@pytest.mark.parametrize("leaves", [True, False])
def test_session_expiry_interval(leaves: bool) -> None:
    """The session ends when the interval has passed, not before, and for good [MQTT5-3.1.2-23] [MQTT5-4.1.0-2]
    [MQTT5-3.2.2-3].
    """
    broker = BrokerHarness()
    for due in (False, True):
        client = broker.client("c", 5, False, 60)
        client.subscribe(("t", 1))
        if leaves:
            client.leave()
        else:
            client.vanish()
        broker.pass_s(60.1 if due else 59.9)
        client, connack = broker.connect("c", 5, False, 60)
        assert connack.session_present is not due
        client.leave()
    broker.pass_s(61)
    assert broker.keys(b"s") == broker.keys(b"b") == []
    assert [event["client"] for event in broker.events("sess.expire")] == ["c", "c"]


def test_a_session_that_never_expires() -> None:
    """0xFFFFFFFF (MQTT 5.0 section 3.1.2.11.2)."""
    broker = BrokerHarness()
    broker.client("c", 5, False, 0xFFFFFFFF).leave()
    broker.pass_s(86400)
    session = broker.node.sessions.get("", "c")
    assert session is not None and session.absence.expires_at == 0 and session.timer is None


def test_the_expiry_of_the_last_connection_counts() -> None:
    """Each CONNECT brings its own, Clean Start or not (MQTT 5.0 section 3.1.2.11.2)."""
    broker = BrokerHarness()
    broker.client("c", 5, True, 1000).leave()
    broker.client("c", 5, False, 10).leave()
    broker.pass_s(11)
    assert not present(broker, "c")
    broker.client("c", 5, False, 10).leave()
    broker.client("c", 5, False).leave()
    assert not present(broker, "c")
    broker.client("c", 5, False, 10).leave()
    broker.client("c", 5, False, 0xFFFFFFFF).leave()
    broker.pass_s(86400)
    assert present(broker, "c")


def test_clean_start_with_expiry() -> None:
    """A new session that is kept [MQTT5-3.1.2-4] [MQTT5-3.1.2-23]."""
    broker = BrokerHarness()
    client = broker.client("c", 5, True, 100)
    client.subscribe(("t", 1))
    client.leave()
    sender(broker, b"waits")
    client, connack = broker.connect("c", 5, False, 100)
    assert connack.session_present and client.payloads() == [b"waits"]


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("configured", [0, 50])
def test_persistent_client_expiration(version: int, configured: int) -> None:
    """The setting for clients whose version has no expiry interval; 0 is never."""
    broker = BrokerHarness(persistent_client_expiration_s=configured)
    broker.persistent("c", version).vanish()
    broker.pass_s(49)
    assert present(broker, "c")
    broker.pass_s(2)
    assert present(broker, "c") is (configured == 0)


@pytest.mark.parametrize("version", [3, 4])
def test_a_session_may_live_for_a_billion_years(version: int) -> None:
    """The largest value of the setting means never: a deadline so far away does not fit into the record."""
    broker = BrokerHarness(persistent_client_expiration_s=999_999_999 * 48 * 604_800)
    client = broker.persistent("c", version)
    client.ask(Disconnect())
    assert client.closed
    broker.restart()
    assert present(broker, "c")


@pytest.mark.parametrize(("asked", "said", "lives"), [(100, 10, 11), (10, 100, 101), (100, 0, 0)])
def test_disconnect_may_change_the_expiry(asked: int, said: int, lives: int) -> None:
    """MQTT 5.0 section 3.14.2.2.2."""
    broker = BrokerHarness()
    broker.client("c", 5, False, asked).ask(Disconnect(0, {"session_expiry_interval": said}))
    if lives:
        broker.pass_s(lives - 2)
        assert present(broker, "c")
        broker.pass_s(2)
    assert not present(broker, "c")


def test_disconnect_may_not_make_a_session_last() -> None:
    """A change from 0 is a protocol error (MQTT 5.0 section 3.14.2.2.2) [MQTT5-4.13.1-1] [MQTT5-3.14.2-1]."""
    broker = BrokerHarness()
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5)) == [accepted()]
    assert reason_of(caller.says(Disconnect(0, {"session_expiry_interval": 10}))) == 0x82
    assert not present(broker, "c")


# -- messages that expire


def expiring(broker: BrokerHarness, seconds: int, payload: bytes = b"x") -> None:
    """Publish a message with this expiry interval."""
    client = broker.client("sender", 5)
    client.publish("t", payload, 1, 1, message_expiry_interval=seconds)
    client.leave()


def absent(broker: BrokerHarness, version: int = 5) -> PacketClient:
    """A session of an offline client."""
    client = broker.persistent("c", version)
    client.subscribe(("t", 1))
    client.vanish()
    return client


def test_a_message_expires_while_it_waits() -> None:
    """It is dropped with an event; a message that is sent has the rest of its interval
    [MQTT5-3.3.2-5] [MQTT5-3.3.2-6].
    """
    broker = BrokerHarness()
    absent(broker)
    expiring(broker, 10, b"short")
    expiring(broker, 100, b"long")
    broker.pass_s(20)
    (message,) = broker.persistent("c", 5).messages()
    assert (message.payload, message.properties) == (b"long", {"message_expiry_interval": 80})
    assert [event["client"] for event in broker.events("q.expire")] == ["c"]


@pytest.mark.parametrize("version", [3, 4])
def test_a_message_expires_for_older_versions_as_well(version: int) -> None:
    """The publisher sets the interval, whatever version the receiver has [MQTT5-3.3.2-5]."""
    broker = BrokerHarness()
    absent(broker, version)
    expiring(broker, 10, b"short")
    expiring(broker, 100, b"long")
    broker.pass_s(20)
    assert broker.persistent("c", version).payloads() == [b"long"]


# -- subscribing


@pytest.mark.parametrize("version", VERSIONS)
def test_subscriptions_of_a_resumed_session_can_be_changed(version: int) -> None:
    """Replaced and removed as if the connection had never ended [MQTT-3.8.4-3] [MQTT5-3.8.4-3]."""
    broker = BrokerHarness()
    client = broker.persistent("c", version)
    client.subscribe(("a", 2), ("b", 2))
    client.vanish()
    client = broker.persistent("c", version)
    assert client.subscribe(("a", 0)) == [Suback(1, [0])]
    client.unsubscribe("b")
    client.vanish()
    client = broker.persistent("c", version)
    sender(broker, b"1", 2, "a")
    sender(broker, b"2", 2, "b")
    assert [(m.payload, m.qos) for m in client.messages()] == [(b"1", 0)]


def test_a_disconnect_of_the_client_gets_no_answer() -> None:
    """DISCONNECT is answered only with the close [MQTT5-3.14.4-2] [MQTT5-3.14.4-1]."""
    for version in VERSIONS:
        caller = RawClient(BrokerHarness(), version)
        caller.says(connect("c", version))
        assert caller.says(Disconnect()) == [CLOSED]
