"""Sessions after the death of the process or of its machine: every promise is kept (P1, P5, P7)."""

from __future__ import annotations

import pytest

from strogoff.broker.sessions.absence import NEVER
from strogoff.mqtt.packets import Disconnect, Puback, Pubcomp, Pubrec, Pubrel

from ...harness.broker import BrokerHarness, connect, option, publish
from ...harness.transcript import RawClient

VERSIONS = (3, 4, 5)
POWER = pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])


def sender(broker: BrokerHarness, payload: bytes = b"m", qos: int = 1, topic: str = "t") -> None:
    """A client that publishes and completes the handshakes."""
    client = broker.client("sender", 5)
    client.publish(topic, payload, qos, 1)
    if qos == 2:
        client.ask(Pubrel(1))
    client.leave()


# -- subscriptions and messages


@POWER
@pytest.mark.parametrize("version", VERSIONS)
def test_waiting_messages_survive_a_restart(version: int, power: bool) -> None:
    """In order, each message once, whether the client was connected or not.

    [MQTT-3.1.2-4] [MQTT-3.1.2-5] [MQTT5-3.1.2-5] [MQTT-4.1.0-1] [MQTT5-3.1.2-23]
    """
    broker = BrokerHarness()
    for name in ("away", "there"):
        broker.persistent(name, version).subscribe(("t", 2))
        if name == "away":
            broker.persistent(name, version).vanish()
    for number in range(10):
        sender(broker, b"%d" % number, 1 + number % 2)
    broker.restart(power)
    for name in ("away", "there"):
        client, connack = broker.connect(name, version, False, 1000 if version == 5 else None)
        assert connack.session_present is (version > 3)
        assert [m.payload for m in client.drain()] == [b"%d" % number for number in range(10)]


@POWER
@pytest.mark.parametrize("version", VERSIONS)
def test_messages_in_flight_keep_their_packet_ids(version: int, power: bool) -> None:
    """They are sent again with DUP and the ids that the client knows.

    [MQTT-4.4.0-1] [MQTT5-4.4.0-1] [MQTT-3.3.1-1] [MQTT5-3.3.1-1]
    """
    broker = BrokerHarness()
    client = broker.persistent("c", version)
    client.subscribe(("t", 2))
    for number in range(6):
        sender(broker, b"%d" % number, 1 + number % 2)
    before = {m.payload: m.packet_id for m in client.messages()}
    assert len(before) == 6
    broker.restart(power)
    after = broker.persistent("c", version).messages()
    assert {m.payload: m.packet_id for m in after} == before
    assert all(m.dup for m in after)


@pytest.mark.parametrize("version", VERSIONS)
def test_after_pubrec_only_pubrel_comes(version: int) -> None:
    """The client has the message; only its PUBCOMP is missing [MQTT-4.4.0-1] [MQTT5-4.4.0-1]."""
    broker = BrokerHarness()
    client = broker.persistent("c", version)
    client.subscribe(("t", 2))
    sender(broker, b"1", 2)
    (message,) = client.messages()
    assert client.ask(Pubrec(message.packet_id)) == [Pubrel(message.packet_id)]
    for _ in range(2):
        broker.restart()
        client = broker.persistent("c", version)
        broker.settle()
        assert client.take() == [Pubrel(message.packet_id)]
    client.ask(Pubcomp(message.packet_id))
    broker.commit_late_writes()
    broker.restart()
    client = broker.persistent("c", version)
    broker.settle()
    assert client.take() == [] and broker.keys(b"q") == []


@pytest.mark.parametrize("version", VERSIONS)
def test_answered_messages_are_not_sent_again(version: int) -> None:
    """A committed acknowledgement is final."""
    broker = BrokerHarness()
    client = broker.persistent("c", version)
    client.subscribe(("t", 2))
    sender(broker, b"1", 1)
    sender(broker, b"2", 2)
    client.drain()
    broker.restart()
    assert broker.persistent("c", version).messages() == []


def test_new_messages_get_new_packet_ids() -> None:
    """After a restart no id of a message in flight is used for another message [MQTT-2.3.1-4] [MQTT5-2.2.1-4]."""
    broker = BrokerHarness()
    client = broker.persistent("c", 5)
    client.subscribe(("t", 1))
    for number in range(5):
        sender(broker, b"%d" % number)
    old = {m.packet_id for m in client.messages()}
    broker.restart()
    client = broker.persistent("c", 5)
    again = {m.packet_id for m in client.messages()}
    for number in range(5):
        sender(broker, b"n%d" % number)
    new = {m.packet_id for m in client.messages()}
    assert again == old and len(new) == 5 and not new & old


@POWER
@pytest.mark.parametrize("version", VERSIONS)
def test_inbound_qos_2_over_a_restart(version: int, power: bool) -> None:
    """PUBREC has left: the repeated PUBLISH is the same message (VerneMQ routes it twice).

    [MQTT-4.3.3-2] [MQTT5-4.3.3-10]
    """
    broker = BrokerHarness()
    broker.persistent("s", 5).subscribe(("t", 2))
    client = broker.persistent("c", version)
    for number in (3, 4, 5):
        assert client.publish("t", b"%d" % number, 2, number) == [Pubrec(number)]
    assert client.ask(Pubrel(4)) == [Pubcomp(4)]
    broker.restart(power)
    client = broker.persistent("c", version)
    for number in (3, 5):
        assert client.publish("t", b"%d" % number, 2, number, dup=True) == [Pubrec(number)]
        assert client.ask(Pubrel(number)) == [Pubcomp(number)]
    assert client.publish("t", b"new", 2, 4) == [Pubrec(4)]
    assert [m.payload for m in broker.persistent("s", 5).drain()] == [b"3", b"4", b"5", b"new"]


@POWER
def test_a_kill_in_the_middle_of_a_batch(power: bool) -> None:
    """Acknowledged data is there; unacknowledged data is there whole or not at all, and in order."""
    for seed in range(8):
        broker = BrokerHarness(seed=seed)
        broker.persistent("s").subscribe(("t", 1))
        client = broker.client("p")
        assert client.publish("t", b"1", 1, 1) == [Puback(1)]
        broker.hold_disk()
        client.ask(publish("t", b"2", 1, 2), publish("t", b"3", 1, 3))
        broker.restart(power)
        found = [m.payload for m in broker.persistent("s").drain()]
        assert found in ([b"1"], [b"1", b"2", b"3"]), seed


def test_a_change_of_subscriptions_is_safe_before_its_answer() -> None:
    """SUBACK and UNSUBACK mean that a restart does not undo it (P7)."""
    broker = BrokerHarness()
    client = broker.persistent("c", 5)
    client.subscribe(("a", 1), ("b", 1))
    client.unsubscribe("a")
    client.subscribe(("b", 0))
    broker.hold_disk()
    assert client.subscribe(("c", 1)) == []
    broker.free_disk()
    broker.restart()
    client = broker.persistent("c", 5)
    for topic in "abc":
        sender(broker, topic.encode(), 1, topic)
    assert [(m.topic, m.qos) for m in client.messages()] == [("b", 0), ("c", 1)]


def test_the_options_of_a_subscription_come_back() -> None:
    """No local, retain as published and the identifier are stored like the QoS."""
    broker = BrokerHarness()
    client = broker.persistent("c", 5)
    client.subscribe(option("t", 1, no_local=True, retain_as_published=True), subscription_identifier=7)
    broker.restart()
    client = broker.persistent("c", 5)
    client.publish("t", b"own", 1, 1)
    broker.client("p").publish("t", b"kept", 1, 1, retain=True)
    (message,) = client.messages()
    assert (message.payload, message.retain) == (b"kept", True)
    assert message.properties == {"subscription_identifier": [7]}


# -- expiry


@POWER
def test_the_session_expiry_interval_is_kept(power: bool) -> None:
    """The client's own, not the node's default (VerneMQ forgets it) [MQTT5-3.1.2-23] [MQTT5-4.1.0-2]."""
    broker = BrokerHarness(persistent_client_expiration_s=10)
    for name, expiry in (("short", 30), ("long", 300), ("never", NEVER)):
        broker.client(name, 5, False, expiry).leave()
    broker.client("plain", 4, False).leave()
    broker.pass_s(5)
    broker.restart(power)
    names = [session.client_id for session in broker.node.sessions.everything()]
    assert sorted(names) == ["long", "never", "plain", "short"]
    for seconds, left in ((10, ["long", "never", "short"]), (20, ["long", "never"]), (300, ["never"])):
        broker.pass_s(seconds)
        assert sorted(session.client_id for session in broker.node.sessions.everything()) == left


def test_the_time_of_absence_counts_over_a_restart() -> None:
    """The deadline is a time, so a restart does not begin it again [MQTT5-4.1.0-2]."""
    broker = BrokerHarness()
    broker.client("c", 5, False, 60).leave()
    broker.pass_s(50)
    broker.restart()
    broker.pass_s(9)
    assert broker.node.sessions.get("", "c") is not None
    broker.pass_s(2)
    assert broker.node.sessions.get("", "c") is None
    assert broker.keys(b"s") == []


def test_the_expiry_of_a_killed_connection_counts_from_the_start() -> None:
    """It lasted until the node died. The time of death is unknown, so the interval counts from the start
    [MQTT5-4.1.0-1].
    """
    broker = BrokerHarness()
    broker.client("c", 5, False, 60)
    broker.pass_s(500)
    broker.restart()
    broker.pass_s(59)
    assert broker.node.sessions.get("", "c") is not None
    broker.pass_s(2)
    assert broker.node.sessions.get("", "c") is None


@POWER
def test_a_session_that_ends_with_its_connection_ends_with_the_node(power: bool) -> None:
    """This includes a session that was kept before, and whose last CONNECT had an expiry of 0 [MQTT5-4.1.0-2]."""
    broker = BrokerHarness()
    broker.persistent("c", 5).subscribe(("t", 1))
    broker.client("c", 5, False, 0)
    sender(broker, b"lost with it")
    broker.restart(power)
    broker.pass_s(1)
    assert not broker.connect("c", 5, False, 1000)[1].session_present
    assert broker.keys(b"q") == broker.keys(b"b") == []


def test_sessions_and_messages_expire_while_the_node_is_down() -> None:
    """Expired sessions and messages are gone, with events."""
    broker = BrokerHarness()
    broker.client("c", 5, False, 60).leave()
    broker.persistent("d", 5).subscribe(("t", 1))
    broker.persistent("d", 5).vanish()
    publisher = broker.client("p", 5)
    publisher.publish("t", b"short", 1, 1, message_expiry_interval=30)
    publisher.publish("t", b"long", 1, 2, message_expiry_interval=300)
    broker.disk.crash(False)
    broker.host.kill()
    broker.pass_s(100)
    broker.disk = broker.disk.reopen()
    broker.host.start()
    broker.settle()
    assert [event["client"] for event in broker.events("sess.expire")] == ["c"]
    (message,) = broker.persistent("d", 5).messages()
    assert (message.payload, message.properties) == (b"long", {"message_expiry_interval": 200})


@pytest.mark.parametrize("version", VERSIONS)
def test_the_expiry_of_a_message_is_kept(version: int) -> None:
    """Its interval does not start again (VerneMQ restarts it) [MQTT5-3.3.2-5] [MQTT5-3.3.2-6]."""
    broker = BrokerHarness()
    broker.persistent("c", version).subscribe(("t", 1))
    broker.persistent("c", version).vanish()
    publisher = broker.client("p", 5)
    publisher.publish("t", b"short", 1, 1, message_expiry_interval=30)
    publisher.publish("t", b"long", 1, 2, message_expiry_interval=90)
    broker.pass_s(20)
    broker.restart()
    broker.pass_s(20)
    (message,) = broker.persistent("c", version).messages()
    assert message.payload == b"long"
    assert message.properties == ({"message_expiry_interval": 50} if version == 5 else None)


def test_an_expiry_that_disconnect_set() -> None:
    """A restart uses it as well (MQTT 5.0 section 3.14.2.2.2)."""
    broker = BrokerHarness()
    broker.client("c", 5, False, 1000).ask(Disconnect(0, {"session_expiry_interval": 20}))
    broker.restart()
    broker.pass_s(19)
    assert broker.node.sessions.get("", "c") is not None
    broker.pass_s(2)
    assert broker.node.sessions.get("", "c") is None


# -- data that must not return


@pytest.mark.parametrize("version", VERSIONS)
def test_ended_sessions_stay_ended(version: int) -> None:
    """Clean sessions, with or without a will, and sessions deleted by Clean Start [MQTT-3.1.2-6] [MQTT5-3.1.2-4]."""
    broker = BrokerHarness()
    broker.client("clean", version).subscribe(("t", 1))
    old = broker.persistent("c", version)
    old.subscribe(("t", 1))
    sender(broker, b"old")
    assert RawClient(broker, version).says(connect("c", version))[0].session_present is False
    broker.restart()
    assert len(broker.node.sessions) == 0
    expiry = 1000 if version == 5 else None
    client, connack = broker.connect("c", version, False, expiry)
    assert not connack.session_present
    sender(broker, b"new")
    assert client.messages() == []


def test_restarts_leave_nothing_behind() -> None:
    """After many restarts, and the end of every session, the disk has the content of a new one."""
    broker = BrokerHarness()
    empty = {key for key in broker.disk.content() if key[:1] in b"sbiqwr"}
    for round_ in range(5):
        client = broker.persistent("c", 5)
        client.subscribe((f"t/{round_}", 2), ("t", 2))
        sender(broker, b"x", 1)
        client.publish("x", b"", 2, round_ + 1)
        broker.restart(round_ % 2 == 1)
    broker.persistent("c", 5).ask(Disconnect(0, {"session_expiry_interval": 0}))
    broker.pass_s(5)
    assert {key for key in broker.disk.content() if key[:1] in b"sbiqwr"} == empty
