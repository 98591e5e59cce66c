"""Refused PUBLISH packets: full disk, no permission, wrong topics, more than the Receive Maximum."""

from __future__ import annotations

import gc

import pytest

from strogoff.broker.connection.connection import ClientConnection
from strogoff.broker.plugins.hooks import Refuse
from strogoff.mqtt import packets
from strogoff.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from strogoff.netsplit.policy import ViewState

from ...harness.broker import BrokerHarness, PacketClient, publish

VERSIONS = (3, 4, 5)


def test_a_full_disk_refuses_v5_and_parks_v3_in_order() -> None:
    """v5 gets 0x97 and keeps the message; v3 has no such code, so the message waits and is accepted in order (P2)."""
    broker = BrokerHarness()
    subscriber = broker.persistent("s", 5)
    subscriber.subscribe(("t", 2))
    five, three = broker.client("p5", 5), broker.client("p3", 3)
    broker.disk.full = True
    three.publish("t", b"early", 1, 1)
    broker.pass_s(0.1)
    assert broker.node.policy.restricted
    assert five.publish("t", b"x", 1, 1) == [Puback(1, 0x97)]
    assert five.publish("t", b"x", 2, 2) == [Pubrec(2, 0x97)]
    sent = [publish("t", b"a", 1, 2), publish("t", b"b", 2, 3), publish("t", b"c", 1, 4), packets.Pingreq()]
    assert three.ask(*sent) == [packets.Pingresp()]
    broker.disk.full = False
    broker.pass_s(10)
    assert three.take() == [Puback(1), Puback(2), Puback(4), Pubrec(3)]
    assert [m.payload for m in subscriber.drain()] == [b"early", b"a", b"c", b"b"]
    assert five.publish("t", b"y", 1, 1) == [Puback(1)]


def test_a_refused_packet_id_means_a_new_message() -> None:
    """[MQTT5-4.3.3-9]: after PUBREC with 0x80 or above the id is free, and the refused message is not stored."""
    broker = BrokerHarness()
    subscriber = broker.client("s", 5)
    subscriber.subscribe(("t", 2), ("u", 2))
    client = broker.client("p", 5)
    broker.persistent("d", 5).subscribe(("d", 1))
    broker.disk.full = True
    broker.client("other", 5).publish("d", b"", 1, 1)
    assert client.publish("t", b"one", 2, 6) == [Pubrec(6, 0x97)]
    broker.disk.full = False
    broker.pass_s(10)
    assert client.publish("t", b"two", 2, 6) == [Pubrec(6)]
    assert subscriber.payloads() == [b"two"]


class Choosy:
    """A plugin that allows some topics."""

    def auth_on_publish(self, *args: object) -> object:
        topic = args[3]
        if topic == "said/why":
            return Refuse("no", 0x99, {"reason_string": "because", "user_property": [("a", "b")]})
        return topic == "open"

    def auth_on_subscribe(self, *args: object) -> bool:
        return True


def test_unauthorised_publish_v5() -> None:
    """v5 gets 0x87, or the code of the plugin; QoS 0 gets no answer; the connection stays open."""
    broker = BrokerHarness(Choosy())
    subscriber = broker.client("s", 5)
    subscriber.subscribe(("#", 2))
    client = broker.client("p", 5)
    assert client.publish("no") == []
    assert client.publish("no", b"", 1, 1) == [Puback(1, 0x87)]
    assert client.publish("no", b"", 2, 1) == [Pubrec(1, 0x87)]
    why = {"reason_string": "because", "user_property": [("a", "b")]}
    assert client.publish("said/why", b"", 1, 2) == [Puback(2, 0x99, why)]
    assert client.publish("said/why", b"", 2, 2) == [Pubrec(2, 0x99, why)]
    assert client.publish("open", b"", 1, 3) == [Puback(3)]
    assert [m.topic for m in subscriber.messages()] == ["open"]


def test_unauthorised_publish_of_the_older_versions() -> None:
    """[MQTT-3.3.5-2]: 3.1.1 is closed; 3.1 is acknowledged as usual, or closed where the configuration says so."""
    broker = BrokerHarness(Choosy())
    four, three = broker.client("p4", 4), broker.client("p3", 3)
    assert four.publish("no", b"", 1, 1) == []
    assert four.closed
    assert three.publish("no", b"", 1, 1) == [Puback(1)]
    assert three.publish("no", b"", 2, 2) == [Pubrec(2)]
    assert three.ask(Pubrel(2)) == [Pubcomp(2)]
    assert not three.closed
    strict = BrokerHarness(Choosy(), disconnect_on_unauthorized_publish_v3=True)
    three = strict.client("p3", 3)
    assert three.publish("no", b"", 1, 1) == [] and three.closed


def test_reasons_are_left_out_for_small_packets_or_if_not_requested() -> None:
    """Reason string and user properties are left out if the packet would be too large, or if the client did not ask for
    them.

    [MQTT5-3.4.2-2] [MQTT5-3.4.2-3] [MQTT5-3.5.2-2] [MQTT5-3.5.2-3] [MQTT5-3.1.2-29]
    """
    broker = BrokerHarness(Choosy())
    # 23 bytes with the reason string, 15 with the user property, 6 with neither
    small = broker.client("small", 5, maximum_packet_size=14)
    assert small.publish("said/why", b"", 1, 2) == [Puback(2, 0x99)]
    assert small.publish("said/why", b"", 2, 2) == [Pubrec(2, 0x99)]
    quiet = broker.client("quiet", 5, request_problem_information=0)
    assert quiet.publish("said/why", b"", 1, 2) == [Puback(2, 0x99)]
    assert quiet.publish("said/why", b"", 2, 2) == [Pubrec(2, 0x99)]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_of_the_broker_are_not_for_clients(version: int) -> None:
    """A PUBLISH to `$...` is not routed; v5 gets 0x90, v3 the usual answer so that its window is not blocked."""
    broker = BrokerHarness()
    subscriber = broker.client("s", version)
    subscriber.subscribe(("$SYS/#", 1))
    client = broker.client("p", version)
    code = 0x90 if version == 5 else 0
    assert client.publish("$SYS/x", b"", 0) == []
    assert client.publish("$SYS/x", b"", 1, 1) == [Puback(1, code)]
    assert client.publish("$share/g/x", b"", 2, 1) == [Pubrec(1, code)]
    assert subscriber.messages() == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_topics_that_are_too_deep(version: int, qos: int) -> None:
    """`topic_max_depth` bounds the levels of a topic: such a message is never acknowledged as accepted.

    If the version has no refusal, the connection is closed [MQTT-4.8.0-1].
    """
    broker = BrokerHarness(topic_max_depth=3)
    broker.client("s", version).subscribe(("#", 0))
    client = broker.client("p", version)
    kind = {1: Puback, 2: Pubrec}
    assert client.publish("a/b/c", b"", qos, 1) == ([kind[qos](1)] if qos else [])
    answers = client.publish("a/b/c/d", b"", qos, 2)
    if version == 5 and qos:
        assert answers == [kind[qos](2, 0x90)] and not client.closed
    else:
        assert [answer.reason for answer in answers] == ([0x90] if version == 5 else [])
        assert client.closed


# -- the receive maximum of the broker


def test_more_unacknowledged_publishes_than_allowed_close_the_connection() -> None:
    """MQTT 5.0 section 3.3.4: above the broker's Receive Maximum comes DISCONNECT 0x93."""
    broker = BrokerHarness(receive_max_broker=2)
    broker.persistent("s", 5).subscribe(("t", 2))
    client, connack = broker.connect("p", 5)
    assert connack.properties == {"receive_maximum": 2}
    broker.hold_disk()
    client.ask(publish("t", b"1", 1, 1), publish("t", b"2", 1, 2))
    broker.free_disk()
    assert client.take() == [Puback(1), Puback(2)]
    broker.hold_disk()
    sent = [publish("t", b"3", 1, 1), publish("t", b"4", 1, 2), publish("t", b"5", 1, 3)]
    (answer,) = client.ask(*sent)
    assert (type(answer), answer.reason) == (packets.Disconnect, 0x93)
    assert client.closed


def test_qos_2_counts_until_pubrel() -> None:
    """PUBCOMP gives the quota back to the publisher; a repeated PUBLISH takes none (section 4.9)."""
    broker = BrokerHarness(receive_max_broker=2)
    client = broker.client("p", 5)
    client.publish("t", b"", 2, 1)
    client.publish("t", b"", 2, 2)
    assert client.publish("t", b"", 2, 1, dup=True) == [Pubrec(1)]
    assert client.publish("t", b"") == [] and not client.closed
    assert client.ask(Pubrel(1)) == [Pubcomp(1)]
    assert client.publish("t", b"", 2, 3) == [Pubrec(3, 0x10)]
    (answer,) = client.publish("t", b"", 2, 4)
    assert answer.reason == 0x93 and client.closed


def test_a_refused_publish_takes_no_quota() -> None:
    """PUBREC with 0x80 or above gives the quota back (section 4.9)."""
    broker = BrokerHarness(Choosy(), receive_max_broker=1)
    client = broker.client("p", 5)
    for packet_id in (1, 2, 3):
        assert client.publish("no", b"", 2, packet_id) == [Pubrec(packet_id, 0x87)]
    assert client.publish("open", b"", 2, 4) == [Pubrec(4, 0x10)]


def test_publishes_to_a_failed_disk_close_the_connection() -> None:
    """A PUBLISH whose disk has failed for good is never acknowledged; a window full of them closes the connection
    [MQTT-4.8.0-2].
    """
    broker = BrokerHarness(receive_max_broker=1)
    broker.persistent("s", 5).subscribe(("t", 1))
    client = broker.client("p", 5)
    broker.hold_disk()
    assert client.publish("t", b"", 1, 1) == []
    (answer,) = client.publish("t", b"", 1, 2)
    assert isinstance(answer, packets.Disconnect) and client.closed


@pytest.mark.parametrize("version", VERSIONS)
def test_incoming_dup_is_not_passed_on(version: int) -> None:
    """[MQTT-3.3.1-3] [MQTT5-3.3.1-3] [MQTT-4.3.1-1] [MQTT5-4.3.1-1] [MQTT-2.3.1-5]: DUP belongs to one hop."""
    broker = BrokerHarness()
    subscriber = broker.client("s", version)
    subscriber.subscribe(("t", 1))
    client = broker.client("p", version)
    client.publish("t", b"1", 1, 1, dup=True)
    client.publish("t", b"0")
    assert subscriber.messages() == [Publish("t", b"1", 1, packet_id=1), Publish("t", b"0", 0)]


def test_parked_publishes_are_bounded() -> None:
    """Above `session.max_parked_publishes` the client is not read; later all are accepted in order (P8, P2)."""
    broker = BrokerHarness(max_parked_publishes=3)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 1), ("fill", 1))
    client = broker.client("p")
    broker.disk.full = True
    broker.client("other").publish("fill", b"", 1, 1)
    for number in range(1, 11):
        client.publish("t", b"%d" % number, 1, number)
    client.send(packets.Pingreq())
    broker.pass_s(0.1)
    assert client.take() == []
    assert (
        len(
            next(
                connection for connection in broker.node.connections.values() if connection.client_id == "p"
            ).publishing.deferred
        )
        == 3
    )
    broker.disk.full = False
    broker.pass_s(10)
    came = client.take()
    assert [packet for packet in came if isinstance(packet, Puback)] == [Puback(number) for number in range(1, 11)]
    assert packets.Pingresp() in came
    assert [m.payload for m in subscriber.drain()] == [b"", *[b"%d" % number for number in range(1, 11)]]


def with_full_disk() -> tuple[BrokerHarness, PacketClient, PacketClient]:
    """A node that knows that its disk is full, a client that subscribes to `t`, and one that publishes."""
    broker = BrokerHarness()
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 2))
    client = broker.client("p")
    broker.disk.full = True
    broker.client("other").publish("x", b"v", 1, 1, retain=True)
    return broker, subscriber, client


@pytest.mark.parametrize("qos", [1, 2])
def test_a_parked_publish_that_is_repeated(qos: int) -> None:
    """The same packet id while it is parked: QoS 2 is one message, and each repetition gets its answer."""
    broker, subscriber, client = with_full_disk()
    assert client.publish("t", b"x", qos, 5) == []
    assert client.publish("t", b"x", qos, 5, dup=True) == []
    broker.disk.full = False
    broker.pass_s(10)
    kind = Puback if qos == 1 else Pubrec
    assert client.take() == [kind(5), kind(5)]
    assert len(subscriber.messages()) == (2 if qos == 1 else 1)


def test_a_client_that_leaves_while_its_publishes_are_parked() -> None:
    """An unacknowledged message is not accepted: its publisher sends it again, or it is lost."""
    broker, subscriber, client = with_full_disk()
    client.publish("t", b"x", 1, 5)
    client.vanish()
    broker.disk.full = False
    broker.pass_s(10)
    assert subscriber.messages() == []


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("durable", [False, True])
def test_a_publish_that_expires_while_parked_is_not_delivered(qos: int, durable: bool) -> None:
    """A repeated PUBLISH of v5 waits for the lease longer than its expiry interval [MQTT5-3.3.2-5]."""
    broker = BrokerHarness()
    client = broker.persistent("p", 5)
    subscriber = (broker.persistent if durable else broker.client)("s", 5)
    subscriber.subscribe(("t", 2), ("$share/g/t", 2))
    broker.node.policy.view_state = ViewState.MINORITY
    assert client.publish("t", b"short", qos, 1, dup=True, message_expiry_interval=1) == []
    assert client.publish("t", b"long", qos, 2, dup=True, message_expiry_interval=100) == []
    broker.pass_s(10)
    broker.node.policy.view_state = ViewState.WHOLE
    broker.settle()
    assert [each.packet_id for each in client.take()] == [1, 2]
    assert subscriber.payloads() == [b"long", b"long"]
    assert [event["client"] for event in broker.events("q.expire")] == ["s", "s"]


def test_a_publish_that_expires_during_its_handshake_is_not_delivered() -> None:
    """The QoS 2 message was stored with a lease, and there was no lease when its copies could be
    sent [MQTT5-3.3.2-5].
    """
    broker = BrokerHarness()
    client, subscriber = broker.persistent("p", 5), broker.client("s", 5)
    subscriber.subscribe(("t", 2))
    broker.hold_disk()
    assert client.publish("t", b"x", 2, 1, message_expiry_interval=1) == []
    broker.node.policy.view_state = ViewState.MINORITY
    broker.free_disk()
    broker.pass_s(10)
    broker.node.policy.view_state = ViewState.WHOLE
    broker.settle()
    assert client.take() == [Pubrec(1)]
    assert client.ask(Pubrel(1)) == [Pubcomp(1)]
    assert subscriber.payloads() == []


def test_a_handshake_stays_behind_one_that_waits_for_the_lease() -> None:
    """The lease is back, and the node may notice it only when it is about to route the second message."""
    broker = BrokerHarness()
    client, subscriber = broker.persistent("p", 5), broker.persistent("s", 5)
    subscriber.subscribe(("t", 2))
    broker.hold_disk()
    assert client.ask(*(publish("t", b"%d" % number, 2, number, retain=True) for number in (1, 2, 3))) == []
    broker.node.policy.view_state = ViewState.MINORITY
    looks = 0

    def look() -> bool:
        nonlocal looks
        looks += 1
        if looks == 2:
            broker.node.policy.view_state = ViewState.WHOLE
        return looks >= 2

    broker.node.env.cluster.has_lease = look  # type: ignore[method-assign]
    broker.free_disk()
    broker.node.policy.view_state = ViewState.WHOLE
    broker.settle()
    assert client.take() == [Pubrec(1), Pubrec(2), Pubrec(3)]
    assert [message.payload for message in subscriber.drain()] == [b"1", b"2", b"3"]


def test_parked_publishes_of_a_departed_client_are_forgotten() -> None:
    """This holds however often a client connects, waits and leaves during the split (P8)."""
    broker = BrokerHarness(allow_register_during_netsplit="on")
    broker.node.policy.view_state = ViewState.MINORITY
    for _ in range(3):
        client = broker.client("p")
        assert client.publish("t", b"x" * 1000, 1, 1) == []
        client.vanish()
        del client
    gc.collect()
    assert [
        each
        for each in gc.get_objects()
        if type(each) is ClientConnection and each.env is broker.node.env and each.closed
    ] == []
