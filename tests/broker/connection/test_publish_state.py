"""The state of a publishing connection: topics, aliases, packet ids, and waiting messages."""

from __future__ import annotations

from strogoff.broker.connection.connection import ClientConnection
from strogoff.broker.connection.publish_state import PublishRequest, PublishState, digest_of, request_of
from strogoff.broker.remembered import TEXT_KEPT
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import BrokerHarness, publish


def _connection(broker: BrokerHarness) -> ClientConnection:
    (connection,) = broker.node.connections.values()
    return connection


def test_a_request_is_the_packet_as_it_came() -> None:
    packet = packets.Publish("t", b"m", 2, True, True, 7)
    digest = digest_of(packet)
    assert request_of(packet) == PublishRequest("t", b"m", 2, True, None, 0, 7, routed_qos=2, dup=False, digest=digest)
    packet.dup = False
    assert request_of(packet).first


def test_another_topic_payload_or_retain_has_another_digest() -> None:
    """Also if what the topic lacks is in the payload."""
    packet = packets.Publish("tt", b"m", 2, True, True, 7)
    others = [("u", b"m", True), ("tt", b"n", True), ("tt", b"m", False), ("t", b"tm", True)]
    digests = [digest_of(packets.Publish(topic, payload, 2, retain, True, 7)) for topic, payload, retain in others]
    assert digest_of(packet) not in digests and len(digest_of(packet)) == 16


def test_a_connection_begins_with_nothing() -> None:
    state, other = PublishState(), PublishState()
    assert (state.plans, state.permitted, state.aliases, state.alias_maximum) == (None, {}, {}, 0)
    assert (state.packet_ids, state.waiting_for_lease, state.deferred) == (set(), [], [])
    assert state.permitted is not other.permitted
    assert state.aliases is not other.aliases


def test_v5_limits_unanswered_packets() -> None:
    broker = BrokerHarness(receive_max_broker=5, topic_alias_max_client=3)
    broker.client("c", 5)
    state = _connection(broker).publishing
    assert (state.receive_maximum, state.alias_maximum) == (5, 3)


def test_older_versions_have_no_limit() -> None:
    """The limit is above the number of packet ids."""
    broker = BrokerHarness(receive_max_broker=5, topic_alias_max_client=3)
    broker.client("c", 4)
    state = _connection(broker).publishing
    assert state.receive_maximum > 65535
    assert state.alias_maximum == 0


def test_the_plans_belong_to_the_mountpoint() -> None:
    broker = BrokerHarness()
    broker.client("c")
    assert _connection(broker).publishing.plans is broker.node.router.plans("")


def test_a_cached_permission_holds_for_one_epoch_of_the_hooks() -> None:
    broker = BrokerHarness()
    client = broker.client("c")
    state = _connection(broker).publishing
    client.publish("t")
    assert state.permitted == {"t": broker.node.env.hooks.epoch}
    broker.node.env.hooks.epoch += 1
    client.publish("t")
    assert state.permitted == {"t": broker.node.env.hooks.epoch}


def test_permissions_for_long_topics_are_not_cached() -> None:
    """A client could fill the memory with them: topics may have 64 KiB. It may publish to them all the same."""
    broker = BrokerHarness()
    subscriber, client = broker.client("s"), broker.client("c")
    subscriber.subscribe(("+", 1))
    topics = ["a" * TEXT_KEPT, "b" * (TEXT_KEPT + 1), "c" * 60_000]
    for number, topic in enumerate([*topics, *topics], 1):
        assert client.publish(topic, b"", 1, number) == [packets.Puback(number)]
    (publisher,) = [each for each in broker.node.connections.values() if each.client_id == "c"]
    assert list(publisher.publishing.permitted) == topics[:1]
    assert [each.topic for each in subscriber.drain()] == [*topics, *topics]


def test_an_alias_stands_for_its_topic() -> None:
    broker = BrokerHarness(topic_alias_max_client=3)
    client = broker.client("c", 5)
    client.publish("a", topic_alias=1)
    client.publish("b", topic_alias=2)
    assert _connection(broker).publishing.aliases == {1: "a", 2: "b"}


def test_a_packet_id_counts_until_pubrel() -> None:
    broker = BrokerHarness()
    client = broker.client("c", 5)
    state = _connection(broker).publishing
    client.ask(publish("t", b"", 2, 7), publish("t", b"", 2, 8), publish("t", b"", 1, 9))
    assert state.packet_ids == {7, 8}
    client.ask(packets.Pubrel(7))
    assert state.packet_ids == {8}


def test_a_message_that_the_split_policy_forbids_waits() -> None:
    broker = BrokerHarness()
    client = broker.client("c")
    state = _connection(broker).publishing
    client.publish("t", b"first", 0)
    broker.node.policy.view_state = ViewState.MAJORITY
    assert client.publish("t", b"m", 1, 7) == []
    ((mountpoint, plans, request),) = state.deferred
    assert (mountpoint, request.topic, request.payload, request.packet_id) == ("", "t", b"m", 7)
    assert plans is state.plans
    broker.node.policy.view_state = ViewState.WHOLE
    assert client.ask() == [packets.Puback(7)]
    assert state.deferred == []


def test_a_handshake_waits_for_a_lease() -> None:
    """The lease ends while the packet id waits for the disk."""
    broker = BrokerHarness()
    client = broker.persistent("p")
    state = _connection(broker).publishing
    broker.hold_disk()
    assert client.publish("t", b"m", 2, 7) == []
    broker.node.policy.view_state = ViewState.MINORITY
    broker.free_disk()
    assert (client.take(), len(state.waiting_for_lease)) == ([], 1)
    broker.node.policy.view_state = ViewState.WHOLE
    assert client.ask() == [packets.Pubrec(7)]
    assert state.waiting_for_lease == []
