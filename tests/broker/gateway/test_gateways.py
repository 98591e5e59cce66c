"""Clients whose session is at another node: what they see is what they would see there."""

from __future__ import annotations

import gc
from random import Random
from typing import Any

import pytest

from strogoff.broker.connection.transport import ConnectionOrigin
from strogoff.broker.gateway import gateway_connection
from strogoff.broker.plugins.hooks import Allow, Refuse
from strogoff.cluster.identity import SLOTS, slot_of
from strogoff.configs.listeners import ListenerSettings
from strogoff.mqtt import packets as p
from strogoff.mqtt.encoder import encode
from strogoff.sim.engine.host import AllowAll
from tests.harness.broker import BrokerHarness, PacketClient, connect, option, publish

from .relay_harness import RelayHarness, props

VERSIONS = pytest.mark.parametrize("version", [4, 5])


def messages(client: Any) -> list[tuple[str, bytes, int]]:
    return [(each.topic, each.payload, each.qos) for each in client.messages()]


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("places", [(1, 1), (1, 2), (2, 1)])
def test_messages_go_both_ways(version: int, qos: int, places: tuple[int, int]) -> None:
    """The publisher, the subscriber, or both are connected to a gateway."""
    cluster = RelayHarness()
    sub = cluster[places[0]].client("sub", version, clean=False)
    assert [type(each) for each in sub.subscribe(("t/#", qos))] == [p.Suback]
    pub = cluster[places[1]].client("pub", version)
    answers = pub.publish("t/1", b"x" * 1000, qos, 7)
    assert [type(each) for each in answers] == [[], [p.Puback], [p.Pubrec]][qos]
    if qos == 2:
        assert [type(each) for each in pub.ask(p.Pubrel(7))] == [p.Pubcomp]
    assert messages(sub) == [("t/1", b"x" * 1000, qos)]
    assert cluster.counts(1)[0] == places.count(1) == cluster.counts(2)[1]
    assert len(cluster[1].node.connections) == 0 and len(cluster[1].node.sessions) == 0
    assert len(cluster[2].node.sessions) == 2
    assert cluster[2].host.lines is not None and not [each for each in cluster[2].host.lines if each[0] == "error"]
    sub.ask(p.Disconnect())
    pub.ask(p.Disconnect())
    cluster.settle()
    assert cluster.nothing_left() and sub.closed and pub.closed


def test_large_payloads_go_both_ways() -> None:
    cluster = RelayHarness(max_message_size=0)
    sub, pub = cluster[1].client("sub"), cluster[1].client("pub")
    sub.subscribe(("t", 1))
    payload = bytes(range(256)) * 4096 * 3
    assert [each.reason for each in pub.publish("t", payload, 1)] == [0]
    cluster.settle()
    assert messages(sub) == [("t", payload, 1)]
    cluster.pass_s(12)
    sub.close()
    pub.close()
    cluster.settle()
    assert cluster.nothing_left()


def test_the_session_is_found_again_through_any_node() -> None:
    """The session present flag, the queue and Clean Start are those of the primary."""
    cluster = RelayHarness()
    client, connack = cluster[1].connect("c", clean=False, expiry_s=600)
    assert not connack.session_present
    client.subscribe(("t", 1))
    client.close()
    pub = cluster[2].client("pub")
    pub.publish("t", b"while away", 1)
    client, connack = cluster[2].connect("c", clean=False, expiry_s=600)
    assert connack.session_present and [each[1] for each in messages(client)] == [b"while away"]
    client.ask(p.Puback(client.received[0].packet_id if client.received else 1))
    client, connack = cluster[1].connect("c", clean=True)
    assert not connack.session_present
    pub.publish("t", b"nobody", 1)
    assert messages(client) == []


@pytest.mark.parametrize("places", [(1, 3), (1, 1), (1, 2), (2, 1)])
def test_a_takeover_closes_the_old_connection_at_its_gateway(places: tuple[int, int]) -> None:
    """[MQTT-3.1.4-2] [MQTT5-3.1.4-3]"""
    cluster = RelayHarness(3)
    old = cluster[places[0]].client("c")
    new = cluster[places[1]].client("c")
    cluster.settle()
    (goodbye,) = old.take()
    assert isinstance(goodbye, p.Disconnect) and goodbye.reason == 0x8E and old.closed
    assert [type(each) for each in new.ask(p.Pingreq())] == [p.Pingresp]
    assert sum(cluster.counts(number)[0] for number in (1, 2, 3)) == (places[1] != 2)
    new.close()
    cluster.settle()
    assert cluster.nothing_left()


@VERSIONS
def test_the_will_of_a_relayed_client(version: int) -> None:
    """Published when the socket at the gateway ends without DISCONNECT, not after one."""
    cluster = RelayHarness()
    watcher = cluster[2].client("watcher")
    watcher.subscribe(("will", 1))
    will = p.Will("will", b"gone", 1)
    cluster[1].client("one", version, will=will).ask(p.Disconnect())
    assert messages(watcher) == []
    cluster[1].client("two", version, will=will).close()
    cluster.settle()
    assert messages(watcher) == [("will", b"gone", 1)]
    third = cluster[1].client("three", version, will=will)
    third.send(p.Disconnect())
    third.close()
    cluster.settle()
    assert messages(watcher) == [] and cluster.nothing_left()


def test_bytes_behind_connect_are_handled_by_the_primary() -> None:
    cluster = RelayHarness()
    client = PacketClient(cluster[1], 4)  # type: ignore[arg-type]
    subscribe = p.Subscribe(1, [option("t", 1)])
    client.send(connect("c"), subscribe, publish("t", b"1", 1, 2), p.Pingreq(), b"\x30\x05\0\x01t")
    cluster.settle()
    first, *others = [type(each) for each in client.take()]
    assert first is p.Connack and {*others} == {p.Suback, p.Publish, p.Puback, p.Pingresp}
    assert client.ask(b"ab") == [p.Publish("t", b"ab")]
    other = PacketClient(cluster[1], 4)  # type: ignore[arg-type]
    other.send(connect("d"), b"\0")
    cluster.settle()
    assert [type(each) for each in other.take()] == [p.Connack] and other.closed


class Judge(AllowAll):
    """Refuses the client `bad`, gives others a client id and limits, and counts its calls."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.published: list[str] = []

    def auth_on_register_m5(self, peer: Any, subscriber: Any, *_: Any) -> Any:
        self.asked.append(subscriber.client_id)
        if subscriber.client_id == "bad":
            return Refuse("no", reason_code=0x8A)
        return Allow({"subscriber_id": ("", "renamed"), "max_message_size": 100, "username": "named"})

    def auth_on_publish_m5(self, username: Any, subscriber: Any, *_: Any) -> Any:
        self.published.append(f"{username} {subscriber.client_id}")
        return True


def test_hooks_of_connect_run_at_the_gateway_and_the_others_at_the_primary() -> None:
    cluster = RelayHarness(allow_anonymous=False)
    judges = []
    for harness in cluster.nodes:
        judge = Judge()
        harness.node.env.hooks.add("judge", judge, -1)
        judges.append(judge)
    refused, connack = cluster[1].connect("bad")
    assert connack.reason == 0x8A and refused.closed and cluster.counts(2) == (0, 0, 0)
    client, connack = cluster[1].connect("asks", will=p.Will("w", b""))
    assert connack.reason == 0 and props(connack)["maximum_packet_size"] == 102
    client.publish("t", b"", 1)
    assert judges[0].asked == ["bad", "asks"] and judges[1].asked == []
    assert judges[0].published == ["named renamed"] and judges[1].published == ["named renamed"]
    assert [session.client_id for session in cluster[2].node.sessions.in_memory()] == ["renamed"]
    assert client.publish("t", bytes(200), 1)[0].reason == 0x95 and client.closed


def test_an_empty_client_id_gets_one() -> None:
    cluster = RelayHarness()
    _, connack = cluster[1].connect("")
    assert props(connack)["assigned_client_identifier"].startswith("anon-")


def test_limits_of_packet_sizes_are_those_of_the_client() -> None:
    """[MQTT5-3.1.2-24]"""
    cluster = RelayHarness(3)
    sub = cluster[1].client("sub", maximum_packet_size=100)
    sub.subscribe(("t", 1))
    pub = cluster[3].client("pub")
    pub.publish("t", bytes(200), 1)
    pub.publish("t", b"small", 1)
    assert [each[1] for each in messages(sub)] == [b"small"]


def test_facts_about_the_connection_are_those_of_the_gateway() -> None:
    cluster = RelayHarness()
    settings = ListenerSettings(
        type="wss", name="web", host="0.0.0.0", port=8443, forward_connection_opts=True, keypasswd="secret",
        max_connection_lifetime_s=100, mountpoint="m", keyfile="k",
    )  # fmt: skip
    tls = {"version": "TLSv1.3", "cipher": "X", "subject": "client-7", "certificate": b"\0\1"}
    origin = ConnectionOrigin("192.0.2.7", 5678, settings, "client-7", tls, "wss")
    pipe = cluster[1].host.connect(Random(0))
    assert pipe is not None
    connection = cluster[1].node.accept(pipe, origin)
    pipe.port = connection
    pipe.to_node.send(encode(connect("c", 5, True, 600), 5))
    cluster.settle()
    (served,) = cluster[2].node.connections.values()
    assert served.origin.connection_options() == origin.connection_options()
    assert served.origin.username == served.username == "client-7" and served.origin.transport == "wss"
    assert served.peer == ("192.0.2.7", 5678) and served.mountpoint == "m"
    assert served.origin.listener.max_connection_lifetime_s == 100
    assert (served.origin.listener.keypasswd, served.origin.listener.keyfile) == ("", "")


class Challenge(AllowAll):
    def on_auth_m5(self, username: Any, subscriber: Any, properties: Any) -> Any:
        data = properties.get("authentication_data")
        code = 0 if data == b"right" else 0x18
        return Allow({"reason_code": code, "properties": {"authentication_data": b"proof"}})


def test_enhanced_authentication_of_connect_stays_at_the_gateway() -> None:
    """A later exchange is the primary's."""
    cluster = RelayHarness()
    for harness in cluster.nodes:
        harness.node.env.hooks.add("challenge", Challenge(), -1)
    client = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
    client.send(connect("c", 5, True, 600, authentication_method="M"))
    cluster.settle()
    (question,) = client.take()
    assert question.reason == 0x18 and cluster.counts(1) == (0, 0, 0)
    right = p.Auth(0x18, {"authentication_method": "M", "authentication_data": b"right"})
    (connack,) = client.ask(right)
    assert connack.reason == 0 and props(connack)["authentication_method"] == "M"
    assert props(connack)["authentication_data"] == b"proof" and cluster.counts(1) == (1, 0, 0)
    again = p.Auth(0x19, {"authentication_method": "M", "authentication_data": b"right"})
    assert [(type(each), each.reason) for each in client.ask(again)] == [(p.Auth, 0)]


def test_a_packet_behind_auth_is_a_protocol_error() -> None:
    """[MQTT5-3.1.2-30]: until CONNACK such a client sends AUTH and DISCONNECT alone."""
    cluster = RelayHarness()
    cluster[1].node.env.hooks.add("challenge", Challenge(), -1)
    client = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
    client.send(connect("c", 5, authentication_method="M", authentication_data=b"no"))
    cluster.settle()
    client.take()
    right = p.Auth(0x18, {"authentication_method": "M", "authentication_data": b"right"})
    answers = client.ask(right, publish("t", b"", 1))
    assert [each.reason for each in answers] == [0x82] and client.closed
    assert cluster.nothing_left() and cluster.counts(1) == (0, 0, 0)


def test_outside_a_cluster_nothing_is_relayed() -> None:
    broker = BrokerHarness()
    broker.client("c").subscribe(("t", 1))
    node = broker.node
    assert node.services.relay is None and len(node.sessions) == 1 and len(node.connections) == 1
    assert not next(iter(node.connections.values())).decoder.stops


def test_a_client_of_an_own_slot_is_served_directly() -> None:
    cluster = RelayHarness()
    cluster.apply("n1", 2)
    client = PacketClient(cluster[1], 5)  # type: ignore[arg-type]
    client.send(connect("c", 5, True, 600), p.Subscribe(1, [option("t")]))
    cluster.settle()
    assert [type(each) for each in client.take()] == [p.Connack, p.Suback]
    assert cluster.counts(1) == (0, 0, 0) and len(cluster[1].node.sessions) == 1


def test_decisions_of_plugins_that_cannot_be_sent_refuse_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> bytes:
        raise ValueError("the decisions cannot be sent")

    monkeypatch.setattr(gateway_connection, "encode_opening", refuse)
    cluster = RelayHarness()
    client, connack = cluster[1].connect("c")
    assert connack.reason == 0x83 and props(connack)["reason_string"] == "the decisions cannot be sent"
    assert client.closed and cluster.nothing_left()
    assert ("error", "client 'c' is refused: the decisions cannot be sent") in cluster[1].host.lines


def test_a_client_whose_slot_is_being_handed_over_waits_and_is_served_where_the_slot_stays() -> None:
    cluster = RelayHarness()
    table = cluster.tables["n2"]
    table.apply(None, 1)
    table.deputies = dict.fromkeys(range(SLOTS), "n2")
    client = cluster[1].connect_soon("c")
    cluster.pass_s(0.5)
    assert client.take() == [] and len(cluster[2].node.sessions) == 0
    table.apply("n2", 1)
    cluster.settle()
    (connack,) = client.take()
    assert isinstance(connack, p.Connack) and connack.reason == 0 and len(cluster[2].node.sessions) == 1


def test_the_gateways_of_relayed_connections() -> None:
    cluster = RelayHarness()
    cluster[1].client("far", clean=False)
    cluster[2].client("near", clean=False)
    found = cluster.gateways(2).of_connections()
    sessions = {session.client_id: session for session in cluster[2].node.sessions.in_memory()}
    assert [found.get(id(sessions[name].connection)) for name in ("far", "near")] == ["n1", None]
    assert cluster.gateways(1).of_connections() == {}


def test_a_node_that_joins_begins_no_durable_session() -> None:
    """It would be at a node that is not its primary after the join."""
    cluster = RelayHarness()
    cluster.gateways(2).joining = True
    _, refused = cluster[2].connect("durable", clean=False)
    assert refused.reason == 0x88 and props(refused)["reason_string"] == "this node is joining a cluster: connect again"
    assert cluster[2].connect("clean", expiry_s=0)[1].reason == 0
    assert [session.client_id for session in cluster[2].node.sessions.in_memory()] == ["clean"]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda cluster, client: client.leave(), "closed_by_primary"),
        (lambda cluster, client: client.close(), "peer_closed"),
        (lambda cluster, client: cluster.network.cut("n1", "n2"), "tunnel_broken"),
        (lambda cluster, client: cluster.apply("n1", 2), "moved"),
    ],
)
def test_the_log_of_the_gateway_says_which_connections_it_relays(end: Any, reason: str) -> None:
    cluster = RelayHarness()
    client = cluster[1].client("c", clean=False, expiry_s=600)

    def told() -> list[dict[str, Any]]:
        return [row for row in cluster[1].host.events if row["type"].startswith("gateway.")]

    slot = slot_of("", "c")
    assert [(row["type"], row["client"], row["target"], row["slot"]) for row in told()] == [
        ("gateway.open", "c", "n2", slot)
    ]
    end(cluster, client)
    cluster.until(lambda: len(told()) == 2)
    row = told()[1]
    assert (row["type"], row["client"], row["target"]) == ("gateway.close", "c", "n2")
    assert row["reason"] == reason
    cluster.settle()
    assert len(told()) == 2


def test_a_connection_that_has_ended_leaves_nothing_in_memory() -> None:
    """Each relayed connection stayed in memory for ever: it was in a cycle with an object that the collector skips."""
    cluster = RelayHarness()
    for number in range(20):
        client = cluster[1].client(f"c{number}", clean=False)
        client.subscribe(("t", 1))
        client.leave() if number % 2 else client.close()
        del client
    cluster.pass_s(60)
    gc.collect()
    kinds = [type(each) for each in gc.get_objects()]
    assert kinds.count(gateway_connection.GatewayConnection) == 0
