"""PUBLISH from clients and its answers: QoS 0, 1 and 2, refusals, order, and the part of the disk in it."""

from __future__ import annotations

import pytest

from strogoff.broker.connection.transport import PEER_CLOSED
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.packets import Disconnect, Pingreq, Pingresp, Puback, Pubcomp, Publish, Pubrec, Pubrel, Will
from strogoff.netsplit.policy import ViewState

from ...harness.broker import BrokerHarness, publish

VERSIONS = (3, 4, 5)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_qos_has_its_answer(version: int) -> None:
    """QoS 0 none, QoS 1 PUBACK, QoS 2 PUBREC, each with the packet id of the PUBLISH.

    [MQTT-3.3.4-1] [MQTT5-3.3.4-1] [MQTT-2.3.1-6] [MQTT5-2.2.1-5] [MQTT-4.3.2-2] [MQTT5-4.3.2-4] [MQTT5-4.3.3-8]
    """
    broker = BrokerHarness()
    broker.client("s", version).subscribe(("t", 2))
    client = broker.client("p", version)
    assert client.publish("t") == []
    assert client.publish("t", b"1", 1, 17) == [Puback(17)]
    assert client.publish("t", b"2", 2, 65535) == [Pubrec(65535)]
    assert client.ask(Pubrel(65535)) == [Pubcomp(65535)]  # [MQTT5-4.3.3-11]


def test_v5_learns_that_there_was_no_subscriber() -> None:
    """MQTT 5.0 sections 3.4.2.1 and 3.5.2.1: 0x10; the PUBREL of that QoS 2 message is still expected."""
    client = BrokerHarness().client("p", 5)
    assert client.publish("t", b"", 1, 3) == [Puback(3, 0x10)]
    assert client.publish("t", b"", 2, 4) == [Pubrec(4, 0x10)]
    assert client.ask(Pubrel(4)) == [Pubcomp(4)]


@pytest.mark.parametrize("version", VERSIONS)
def test_after_puback_the_packet_id_means_a_new_message(version: int) -> None:
    """Whatever DUP says [MQTT-4.3.2-2] [MQTT5-4.3.2-5]."""
    broker = BrokerHarness()
    subscriber = broker.client("s", version)
    subscriber.subscribe(("t", 1))
    client = broker.client("p", version)
    client.publish("t", b"one", 1, 5)
    client.publish("t", b"two", 1, 5, dup=True)
    assert subscriber.payloads() == [b"one", b"two"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("persistent", [False, True])
def test_qos_2_is_delivered_once_until_pubrel(version: int, persistent: bool) -> None:
    """The same packet id gets PUBREC again and no second delivery; after PUBCOMP it means a new message.

    [MQTT-4.3.3-2] [MQTT5-4.3.3-10] [MQTT5-4.3.3-12]
    """
    broker = BrokerHarness()
    subscriber = broker.client("s", version)
    subscriber.subscribe(("t", 2))
    client = broker.persistent("p", version) if persistent else broker.client("p", version)
    assert client.publish("t", b"one", 2, 9) == [Pubrec(9)]
    assert client.publish("t", b"one", 2, 9, dup=True) == [Pubrec(9)]
    assert client.publish("t", b"one", 2, 9) == [Pubrec(9)]
    assert subscriber.payloads() == [b"one"]
    assert client.ask(Pubrel(9)) == [Pubcomp(9)]
    assert client.publish("t", b"two", 2, 9, dup=True) == [Pubrec(9)]
    assert subscriber.payloads() == [b"two"]


@pytest.mark.parametrize("version", VERSIONS)
def test_repeated_publish_while_the_disk_works_is_routed_once(version: int) -> None:
    """A PUBLISH that is repeated before its PUBREC left is the same message [MQTT-4.3.3-2] [MQTT5-4.3.3-10]."""
    broker = BrokerHarness()
    subscriber = broker.client("s", version)
    subscriber.subscribe(("t", 2))
    client = broker.persistent("p", version)
    broker.hold_disk()
    assert client.publish("t", b"one", 2, 9) == []
    assert client.publish("t", b"one", 2, 9, dup=True) == []
    broker.free_disk()
    assert client.take() == [Pubrec(9), Pubrec(9)]
    assert subscriber.payloads() == [b"one"]


@pytest.mark.parametrize("version", VERSIONS)
def test_qos_2_state_survives_connection_and_process(version: int) -> None:
    """Until PUBREL the id stays taken: over a lost connection, and over the death of the node (P7)."""
    broker = BrokerHarness()
    subscriber = broker.persistent("s", version)
    subscriber.subscribe(("t", 2))
    client = broker.persistent("p", version)
    assert client.publish("t", b"one", 2, 9) == [Pubrec(9)]
    client.vanish()
    client = broker.persistent("p", version)
    assert client.publish("t", b"one", 2, 9, dup=True) == [Pubrec(9)]
    assert [m.payload for m in subscriber.drain()] == [b"one"]
    broker.restart()
    subscriber = broker.persistent("s", version)
    client = broker.persistent("p", version)
    assert client.publish("t", b"one", 2, 9, dup=True) == [Pubrec(9)]
    assert client.ask(Pubrel(9)) == [Pubcomp(9)]
    assert client.publish("t", b"two", 2, 9) == [Pubrec(9)]
    assert [m.payload for m in subscriber.drain()] == [b"two"]


@pytest.mark.parametrize("permitted", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_packet_id_whose_removal_the_disk_has_lost_stands_for_a_new_message(version: int, permitted: bool) -> None:
    """Without DUP the message is new, whatever the disk says. With DUP it may be the one that the disk knows,
    unless its content is another one (H-12).

    [MQTT-3.3.1-1] [MQTT5-3.3.1-1]
    """
    broker = BrokerHarness()
    subscriber = broker.persistent("s", version)
    subscriber.subscribe(("t", 2))
    client = broker.persistent("p", version)
    client.ask(publish("t", b"zero", 2, 7), publish("t", b"one", 2, 8), publish("t", b"two", 2, 9))
    rows = {key: value for key, value in broker.disk.content().items() if key[:1] == b"i"}
    assert client.ask(Pubrel(7), Pubrel(8), Pubrel(9)) == [Pubcomp(7), Pubcomp(8), Pubcomp(9)]
    assert len(rows) == 3 and broker.keys(b"i") == []
    for key, value in rows.items():
        broker.disk.rot(key, value)
    broker.restart()
    client = broker.persistent("p", version)
    if permitted:
        client.publish("t", b"permitted", 0)
    assert client.publish("t", b"three", 2, 9) == [Pubrec(9)]
    assert client.publish("t", b"three", 2, 9, dup=True) == [Pubrec(9)]
    assert client.publish("t", b"one", 2, 8, dup=True) == [Pubrec(8)]
    for _ in range(2):
        assert client.publish("t", b"four", 2, 7, dup=True) == [Pubrec(7)]
    assert client.ask(Pubrel(7), Pubrel(8), Pubrel(9)) == [Pubcomp(7), Pubcomp(8), Pubcomp(9)]
    assert broker.keys(b"i") == []
    subscriber = broker.persistent("s", version)
    assert [m.payload for m in subscriber.drain() if m.qos] == [b"zero", b"one", b"two", b"three", b"four"]


def test_each_answer_to_a_publish_is_in_the_event_log() -> None:
    """The broker answers a repeated PUBLISH with a second PUBREC, and logs both: the publisher may never have got the
    first one.
    """
    broker = BrokerHarness(level=2)
    client = broker.persistent("p", 5)
    assert client.publish("t", b"one", 2, 9)[0].packet_id == 9
    client.vanish()
    client = broker.persistent("p", 5)
    assert client.publish("t", b"one", 2, 9, dup=True)[0].packet_id == 9
    first, second = broker.events("pub.ack")
    assert first["mid"] == second["mid"] and first["client"] == second["client"] == "p"


def test_a_new_session_forgets_packet_ids() -> None:
    """Clean start ends the session, and with it the meaning of its packet ids."""
    broker = BrokerHarness()
    subscriber = broker.client("s", 5)
    subscriber.subscribe(("t", 2))
    client = broker.persistent("p", 5)
    client.publish("t", b"one", 2, 9)
    client = broker.client("p", 5)
    assert client.publish("t", b"two", 2, 9) == [Pubrec(9)]
    assert subscriber.payloads() == [b"one", b"two"]


@pytest.mark.parametrize("version", VERSIONS)
def test_pubrel_of_an_unknown_id_is_answered(version: int) -> None:
    """PUBCOMP in any case, so that the sender is not stuck; v5 with 0x92 (MQTT 5.0 section 3.7.2.1)."""
    client = BrokerHarness().client("p", version)
    assert client.ask(Pubrel(77)) == [Pubcomp(77, 0x92 if version == 5 else 0)]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_handshake_continues_when_the_message_has_expired(version: int) -> None:
    """[MQTT5-4.3.3-13]: PUBREC, PUBREL and PUBCOMP are answered whatever the expiry interval said."""
    broker = BrokerHarness()
    client = broker.client("p", 5)
    assert client.publish("t", b"", 2, 4, message_expiry_interval=1) == [Pubrec(4, 0x10)]
    broker.pass_s(2)
    assert client.publish("t", b"", 2, 4, dup=True, message_expiry_interval=1) == [Pubrec(4)]
    assert client.ask(Pubrel(4)) == [Pubcomp(4)]


# -- acknowledgements and the disk


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_acknowledged_before_its_commit(version: int, qos: int) -> None:
    """The broker owns a message when a durable queue has it (P1) [MQTT-4.3.2-2] [MQTT5-4.3.2-4] [MQTT5-4.3.3-8]."""
    broker = BrokerHarness()
    broker.persistent("s", version).subscribe(("t", 2))
    client = broker.client("p", version)
    broker.hold_disk()
    assert client.publish("t", b"1", qos, 1) == []
    assert client.publish("t", b"2", qos, 2) == []
    broker.free_disk()
    kind = Puback if qos == 1 else Pubrec
    assert client.take() == [kind(1), kind(2)]


@pytest.mark.parametrize("qos", [1, 2])
def test_messages_for_clean_sessions_are_acknowledged_at_once(qos: int) -> None:
    """The message of a clean session is not written, so its answer waits for no commit."""
    broker = BrokerHarness()
    broker.client("s").subscribe(("t", 2))
    client = broker.client("p")
    broker.hold_disk()
    assert client.publish("t", b"1", qos, 1) == [Puback(1) if qos == 1 else Pubrec(1)]


def test_acknowledgements_keep_the_order_of_their_packets() -> None:
    """One that needs no disk does not overtake one that does [MQTT-4.6.0-2] [MQTT-4.6.0-3] [MQTT5-4.6.0-5]."""
    broker = BrokerHarness()
    broker.persistent("s").subscribe(("d", 2))
    broker.client("c").subscribe(("m", 2))
    client = broker.client("p")
    broker.hold_disk()
    sent = [publish("d", b"1", 1, 1), publish("m", b"2", 1, 2), publish("d", b"3", 1, 3), publish("m", b"4", 1, 4)]
    assert client.ask(*sent) == []
    broker.free_disk()
    assert client.take() == [Puback(1), Puback(2), Puback(3), Puback(4)]
    broker.hold_disk()
    sent = [publish("d", b"5", 2, 5), publish("m", b"6", 2, 6), publish("d", b"7", 2, 7)]
    client.ask(*sent)
    broker.free_disk()
    assert client.take() == [Pubrec(5), Pubrec(6), Pubrec(7)]


def test_pubcomp_waits_until_the_id_is_forgotten_on_disk() -> None:
    """The packet id is deleted on disk before PUBCOMP, or a restart would drop the next message with this id."""
    broker = BrokerHarness()
    client = broker.persistent("p")
    assert client.publish("t", b"1", 2, 5) == [Pubrec(5)]
    broker.hold_disk()
    assert client.ask(Pubrel(5)) == []
    broker.free_disk()
    assert client.take() == [Pubcomp(5)]


def test_a_kill_before_the_commit_loses_nothing_that_was_acknowledged() -> None:
    """The pending batch may be lost: its message is unacknowledged, and its publisher sends it again."""
    for seed in range(6):
        broker = BrokerHarness(seed=seed)
        subscriber = broker.persistent("s")
        subscriber.subscribe(("t", 2))
        client = broker.persistent("p")
        client.publish("t", b"1", 2, 1)
        client.ask(Pubrel(1))
        broker.hold_disk()
        client.publish("t", b"2", 2, 2)
        broker.restart()
        client = broker.persistent("p")
        assert client.publish("t", b"2", 2, 2, dup=True) == [Pubrec(2)]
        found = [m.payload for m in broker.persistent("s").drain()]
        assert found == [b"1", b"2"], seed


@pytest.mark.parametrize("retain", [True, False])
@pytest.mark.parametrize("second", [0, 1, 2])
@pytest.mark.parametrize("first", [1, 2])
def test_no_publish_overtakes_one_that_waits_in_the_turn_in_which_the_node_gets_a_lease(
    first: int, second: int, retain: bool
) -> None:
    broker = BrokerHarness()
    watcher, writer = broker.client("watcher"), broker.client("writer", 4)
    watcher.subscribe(("t", 2))
    (connection,) = [each for each in broker.node.connections.values() if each.client_id == "writer"]
    policy = broker.node.policy
    policy.view_state = ViewState.MINORITY
    writer.send(publish("t", b"1", first, 1, retain=retain))
    broker.settle()
    policy.view_state = ViewState.WHOLE
    connection.receive(encode(publish("t", b"2", second, 2 if second else 0, retain=retain), 4))
    broker.settle()
    assert [each.payload for each in watcher.messages()] == [b"1", b"2"]
    late = broker.client("late")
    answers = [*late.subscribe(("t", 0)), *late.messages()]
    assert [each.payload for each in answers if isinstance(each, Publish)] == [b"2"] * retain


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1])
def test_no_later_message_overtakes_one_of_qos_2(version: int, qos: int) -> None:
    """Its packet id waits for the disk. A later retained message replaces it [MQTT-3.3.1-5] [MQTT5-3.3.1-5]."""
    broker = BrokerHarness()
    subscriber = broker.client("s", version)
    subscriber.subscribe(("t", 2))
    client = broker.persistent("p", version)
    broker.hold_disk()
    sent = [publish("t", b"old", 2, 7, retain=True), publish("t", b"new", qos, 8 if qos else 0, retain=True)]
    assert client.ask(*sent, publish("t", b"newest", 2, 9)) == []
    broker.free_disk()
    assert [type(answer) for answer in client.take()] == [Pubrec, *[Puback] * qos, Pubrec]
    assert subscriber.payloads() == [b"old", b"new", b"newest"]
    kept = [each.payload for each in broker.client("late", version).subscribe(("t", 0)) if isinstance(each, Publish)]
    assert kept == [b"new"]


def test_messages_and_disconnect_behind_one_of_qos_2_are_handled_after_it() -> None:
    broker = BrokerHarness()
    subscriber = broker.client("s")
    subscriber.subscribe(("#", 0))
    client = broker.persistent("p", will=Will("will", b"", 0, False))
    broker.hold_disk()
    client.ask(publish("t", b"first", 2, 7), publish("t", b"second"), Disconnect())
    connection = next(each for each in broker.node.connections.values() if each.client_id == "p")
    connection.lost(PEER_CLOSED)
    broker.free_disk()
    assert subscriber.payloads() == [b"first", b"second"]


def test_a_message_without_a_lease_holds_no_other_packet() -> None:
    """It may wait for long, and the client wants an answer to its PINGREQ."""
    broker = BrokerHarness()
    client = broker.persistent("p")
    broker.hold_disk()
    assert client.ask(publish("t", b"m", 2, 7), publish("t", b"n", 1, 8), Pingreq()) == []
    broker.node.policy.view_state = ViewState.MINORITY
    broker.free_disk()
    assert client.take() == [Pingresp()]
    broker.node.policy.view_state = ViewState.WHOLE
    assert client.ask() == [Pubrec(7), Puback(8)]
