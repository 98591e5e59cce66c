"""Sessions over the death of the process, and of its machine: whatever was promised is there again (P1, P5, P7)."""

from __future__ import annotations

import pytest

from strogoff.broker.sessions.session import NEVER
from strogoff.mqtt.packets import Disconnect, Puback, Pubcomp, Pubrec, Pubrel

from ...harness.broker import BrokerHarness, connect, option, publish
from ...harness.transcript import RawClient

VERSIONS = (3, 4, 5)
POWER = pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])


def sender(stage: BrokerHarness, payload: bytes = b"m", qos: int = 1, topic: str = "t") -> None:
    """Somebody publishes, and completes it."""
    client = stage.client("sender", 5)
    client.publish(topic, payload, qos, 1)
    if qos == 2:
        client.ask(Pubrel(1))
    client.leave()


# -- subscriptions and messages


@POWER
@pytest.mark.parametrize("version", VERSIONS)
def test_what_waits_is_there_again(version: int, power: bool) -> None:
    """In order, each message once, whether the client was connected or not.

    [MQTT-3.1.2-4] [MQTT-3.1.2-5] [MQTT5-3.1.2-5] [MQTT-4.1.0-1] [MQTT5-3.1.2-23]
    """
    stage = BrokerHarness()
    for name in ("away", "there"):
        stage.persistent(name, version).subscribe(("t", 2))
        if name == "away":
            stage.persistent(name, version).vanish()
    for number in range(10):
        sender(stage, b"%d" % number, 1 + number % 2)
    stage.restart(power)
    for name in ("away", "there"):
        client, connack = stage.connect(name, version, False, 1000 if version == 5 else None)
        assert connack.session_present is (version > 3)
        assert [m.payload for m in client.drain()] == [b"%d" % number for number in range(10)]


@POWER
@pytest.mark.parametrize("version", VERSIONS)
def test_messages_in_flight_keep_their_packet_ids(version: int, power: bool) -> None:
    """Sent again as DUP under the ids that the client knows.

    [MQTT-4.4.0-1] [MQTT5-4.4.0-1] [MQTT-3.3.1-1] [MQTT5-3.3.1-1]
    """
    stage = BrokerHarness()
    client = stage.persistent("c", version)
    client.subscribe(("t", 2))
    for number in range(6):
        sender(stage, b"%d" % number, 1 + number % 2)
    before = {m.payload: m.packet_id for m in client.messages()}
    assert len(before) == 6
    stage.restart(power)
    after = stage.persistent("c", version).messages()
    assert {m.payload: m.packet_id for m in after} == before
    assert all(m.dup for m in after)


@pytest.mark.parametrize("version", VERSIONS)
def test_after_pubrec_only_pubrel_comes(version: int) -> None:
    """The client has the message; what it waits for is the end of it [MQTT-4.4.0-1] [MQTT5-4.4.0-1]."""
    stage = BrokerHarness()
    client = stage.persistent("c", version)
    client.subscribe(("t", 2))
    sender(stage, b"1", 2)
    (message,) = client.messages()
    assert client.ask(Pubrec(message.packet_id)) == [Pubrel(message.packet_id)]
    for _ in range(2):
        stage.restart()
        client = stage.persistent("c", version)
        stage.settle()
        assert client.take() == [Pubrel(message.packet_id)]
    client.ask(Pubcomp(message.packet_id))
    stage.restart()
    client = stage.persistent("c", version)
    stage.settle()
    assert client.take() == [] and stage.keys(b"q") == []


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_answered_does_not_come_again(version: int) -> None:
    """An acknowledgement whose commit is done is for good."""
    stage = BrokerHarness()
    client = stage.persistent("c", version)
    client.subscribe(("t", 2))
    sender(stage, b"1", 1)
    sender(stage, b"2", 2)
    client.drain()
    stage.restart()
    assert stage.persistent("c", version).messages() == []


def test_new_messages_get_new_packet_ids() -> None:
    """The ids of what is still in flight are not given again after a restart [MQTT-2.3.1-4] [MQTT5-2.2.1-4]."""
    stage = BrokerHarness()
    client = stage.persistent("c", 5)
    client.subscribe(("t", 1))
    for number in range(5):
        sender(stage, b"%d" % number)
    old = {m.packet_id for m in client.messages()}
    stage.restart()
    client = stage.persistent("c", 5)
    again = {m.packet_id for m in client.messages()}
    for number in range(5):
        sender(stage, b"n%d" % number)
    new = {m.packet_id for m in client.messages()}
    assert again == old and len(new) == 5 and not new & old


@POWER
@pytest.mark.parametrize("version", VERSIONS)
def test_inbound_qos_2_over_a_restart(version: int, power: bool) -> None:
    """PUBREC has left: the repeated PUBLISH is the same message (VerneMQ routes it twice).

    [MQTT-4.3.3-2] [MQTT5-4.3.3-10]
    """
    stage = BrokerHarness()
    stage.persistent("s", 5).subscribe(("t", 2))
    client = stage.persistent("c", version)
    for number in (3, 4, 5):
        assert client.publish("t", b"%d" % number, 2, number) == [Pubrec(number)]
    assert client.ask(Pubrel(4)) == [Pubcomp(4)]
    stage.restart(power)
    client = stage.persistent("c", version)
    for number in (3, 5):
        assert client.publish("t", b"%d" % number, 2, number, dup=True) == [Pubrec(number)]
        assert client.ask(Pubrel(number)) == [Pubcomp(number)]
    assert client.publish("t", b"new", 2, 4) == [Pubrec(4)]
    assert [m.payload for m in stage.persistent("s", 5).drain()] == [b"3", b"4", b"5", b"new"]


@POWER
def test_a_kill_in_the_middle_of_a_batch(power: bool) -> None:
    """What was acknowledged is there; what was not is there whole or not at all, and in order."""
    for seed in range(8):
        stage = BrokerHarness(seed=seed)
        stage.persistent("s").subscribe(("t", 1))
        client = stage.client("p")
        assert client.publish("t", b"1", 1, 1) == [Puback(1)]
        stage.hold_disk()
        client.ask(publish("t", b"2", 1, 2), publish("t", b"3", 1, 3))
        stage.restart(power)
        found = [m.payload for m in stage.persistent("s").drain()]
        assert found in ([b"1"], [b"1", b"2", b"3"]), seed


def test_a_change_of_subscriptions_is_safe_before_its_answer() -> None:
    """SUBACK and UNSUBACK mean that a restart does not undo it (P7)."""
    stage = BrokerHarness()
    client = stage.persistent("c", 5)
    client.subscribe(("a", 1), ("b", 1))
    client.unsubscribe("a")
    client.subscribe(("b", 0))
    stage.hold_disk()
    assert client.subscribe(("c", 1)) == []
    stage.free_disk()
    stage.restart()
    client = stage.persistent("c", 5)
    for topic in "abc":
        sender(stage, topic.encode(), 1, topic)
    assert [(m.topic, m.qos) for m in client.messages()] == [("b", 0), ("c", 1)]


def test_the_options_of_a_subscription_come_back() -> None:
    """No local, retain as published and the identifier are as much part of it as its QoS."""
    stage = BrokerHarness()
    client = stage.persistent("c", 5)
    client.subscribe(option("t", 1, no_local=True, retain_as_published=True), subscription_identifier=7)
    stage.restart()
    client = stage.persistent("c", 5)
    client.publish("t", b"own", 1, 1)
    stage.client("p").publish("t", b"kept", 1, 1, retain=True)
    (message,) = client.messages()
    assert (message.payload, message.retain) == (b"kept", True)
    assert message.properties == {"subscription_identifier": [7]}


# -- expiry


@POWER
def test_the_session_expiry_interval_is_kept(power: bool) -> None:
    """The client's own, not the node's default (VerneMQ forgets it) [MQTT5-3.1.2-23] [MQTT5-4.1.0-2]."""
    stage = BrokerHarness(persistent_client_expiration_s=10)
    for name, expiry in (("short", 30), ("long", 300), ("never", NEVER)):
        stage.client(name, 5, False, expiry).leave()
    stage.client("plain", 4, False).leave()
    stage.pass_s(5)
    stage.restart(power)
    names = [session.client_id for session in stage.node.sessions]
    assert sorted(names) == ["long", "never", "plain", "short"]
    for seconds, left in ((10, ["long", "never", "short"]), (20, ["long", "never"]), (300, ["never"])):
        stage.pass_s(seconds)
        assert sorted(session.client_id for session in stage.node.sessions) == left


def test_the_time_of_absence_counts_over_a_restart() -> None:
    """The deadline is a time, so a restart does not begin it again [MQTT5-4.1.0-2]."""
    stage = BrokerHarness()
    stage.client("c", 5, False, 60).leave()
    stage.pass_s(50)
    stage.restart()
    stage.pass_s(9)
    assert stage.node.sessions.get("", "c") is not None
    stage.pass_s(2)
    assert stage.node.sessions.get("", "c") is None
    assert stage.keys(b"s") == []


def test_a_connection_that_the_kill_cut_begins_its_absence_then() -> None:
    """It lasted until the node was gone; since when nobody knows, so it counts from the start [MQTT5-4.1.0-1]."""
    stage = BrokerHarness()
    stage.client("c", 5, False, 60)
    stage.pass_s(500)
    stage.restart()
    stage.pass_s(59)
    assert stage.node.sessions.get("", "c") is not None
    stage.pass_s(2)
    assert stage.node.sessions.get("", "c") is None


@POWER
def test_a_session_that_ends_with_its_connection_ends_with_the_node(power: bool) -> None:
    """Also one that was kept before, and that its last CONNECT gave an expiry of 0 [MQTT5-4.1.0-2]."""
    stage = BrokerHarness()
    stage.persistent("c", 5).subscribe(("t", 1))
    stage.client("c", 5, False, 0)
    sender(stage, b"lost with it")
    stage.restart(power)
    stage.pass_s(1)
    assert not stage.connect("c", 5, False, 1000)[1].session_present
    assert stage.keys(b"q") == stage.keys(b"b") == []


def test_what_expires_while_the_node_is_down() -> None:
    """Sessions and messages whose time came meanwhile are gone, and it is said."""
    stage = BrokerHarness()
    stage.client("c", 5, False, 60).leave()
    stage.persistent("d", 5).subscribe(("t", 1))
    stage.persistent("d", 5).vanish()
    publisher = stage.client("p", 5)
    publisher.publish("t", b"short", 1, 1, message_expiry_interval=30)
    publisher.publish("t", b"long", 1, 2, message_expiry_interval=300)
    stage.disk.crash(False)
    stage.host.kill()
    stage.pass_s(100)
    stage.disk = stage.disk.reopen()
    stage.host.start()
    stage.settle()
    assert [event["client"] for event in stage.events("sess.expire")] == ["c"]
    (message,) = stage.persistent("d", 5).messages()
    assert (message.payload, message.properties) == (b"long", {"message_expiry_interval": 200})


@pytest.mark.parametrize("version", VERSIONS)
def test_the_expiry_of_a_message_is_kept(version: int) -> None:
    """Its deadline does not begin again (VerneMQ lets it) [MQTT5-3.3.2-5] [MQTT5-3.3.2-6]."""
    stage = BrokerHarness()
    stage.persistent("c", version).subscribe(("t", 1))
    stage.persistent("c", version).vanish()
    publisher = stage.client("p", 5)
    publisher.publish("t", b"short", 1, 1, message_expiry_interval=30)
    publisher.publish("t", b"long", 1, 2, message_expiry_interval=90)
    stage.pass_s(20)
    stage.restart()
    stage.pass_s(20)
    (message,) = stage.persistent("c", version).messages()
    assert message.payload == b"long"
    assert message.properties == ({"message_expiry_interval": 50} if version == 5 else None)


def test_an_expiry_that_disconnect_set() -> None:
    """It is what a restart goes by, too (MQTT 5.0 section 3.14.2.2.2)."""
    stage = BrokerHarness()
    stage.client("c", 5, False, 1000).ask(Disconnect(0, {"session_expiry_interval": 20}))
    stage.restart()
    stage.pass_s(19)
    assert stage.node.sessions.get("", "c") is not None
    stage.pass_s(2)
    assert stage.node.sessions.get("", "c") is None


# -- what must not come back


@pytest.mark.parametrize("version", VERSIONS)
def test_ended_sessions_stay_ended(version: int) -> None:
    """Clean sessions, with or without a will, and what Clean Start threw away [MQTT-3.1.2-6] [MQTT5-3.1.2-4]."""
    stage = BrokerHarness()
    stage.client("clean", version).subscribe(("t", 1))
    old = stage.persistent("c", version)
    old.subscribe(("t", 1))
    sender(stage, b"old")
    assert RawClient(stage, version).says(connect("c", version))[0].session_present is False
    stage.restart()
    assert len(stage.node.sessions) == 0
    expiry = 1000 if version == 5 else None
    client, connack = stage.connect("c", version, False, expiry)
    assert not connack.session_present
    sender(stage, b"new")
    assert client.messages() == []


def test_restarts_leave_nothing_behind() -> None:
    """Many restarts, every session ended at last: the disk holds what a new one holds."""
    stage = BrokerHarness()
    empty = {key for key in stage.disk.content() if key[:1] in b"sbiqwr"}
    for round_ in range(5):
        client = stage.persistent("c", 5)
        client.subscribe((f"t/{round_}", 2), ("t", 2))
        sender(stage, b"x", 1)
        client.publish("x", b"", 2, round_ + 1)
        stage.restart(round_ % 2 == 1)
    stage.persistent("c", 5).ask(Disconnect(0, {"session_expiry_interval": 0}))
    stage.pass_s(5)
    assert {key for key in stage.disk.content() if key[:1] in b"sbiqwr"} == empty
