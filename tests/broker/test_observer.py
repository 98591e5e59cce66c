"""The observer turns the events of the core into log events at two levels, counters, and hooks."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.analytics import schema
from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.packets import Disconnect, Puback, Pubcomp, Pubrec, Pubrel

from ..harness.broker import BrokerHarness, option, publish


def story(broker: BrokerHarness, *types: str) -> list[tuple[str, ...]]:
    """Returns type, client and reason of the events of these types, in order."""
    return [
        tuple(str(event[name]) for name in ("type", "client", "reason") if name in event)
        for event in broker.events(*types)
    ]


SESSION_TYPES = ("conn.open", "conn.close", "sess.create", "sess.resume", "sess.end", "sess.expire", "will.arm")


class Nobody:
    """Lets one user in, who may do nothing."""

    def auth_on_register(self, peer: Any, subscriber: Any, user: str, *_: Any) -> bool:
        return user.startswith("known")

    def auth_on_publish(self, *_: Any) -> bool:
        return False

    def auth_on_subscribe(self, *_: Any) -> bool:
        return False


def test_rows_of_refused_operations_have_the_beginning_of_long_names() -> None:
    """A stranger cannot fill the event log with names of 64 KB."""
    long = "x" * 60_000
    broker = BrokerHarness(Nobody(), allow_anonymous=False)
    broker.connect("c", 5, username=long, password=b"p")
    (refused,) = broker.events("conn.refuse")
    assert refused["username"] == "x" * 256
    client = broker.client("c", 5, username="known" + long)
    client.publish(long, b"", 1, 1)
    client.subscribe((long, 0))
    rows = broker.events("policy.deny")
    assert [row["operation"] for row in rows] == ["publish", "subscribe"]
    assert {(row["topic"], row["username"]) for row in rows} == {("x" * 256, ("known" + long)[:256])}


@pytest.mark.parametrize("version", [4, 5])
def test_the_life_of_a_session(version: int) -> None:
    """Created, resumed, taken over, ended."""
    broker = BrokerHarness()
    broker.persistent("c", version).vanish()
    broker.persistent("c", version)
    broker.persistent("c", version).leave()
    broker.client("c", version).leave()
    assert story(broker, *SESSION_TYPES) == [
        ("conn.open", "c"),
        ("sess.create", "c"),
        ("conn.close", "c", "connection_reset"),
        ("conn.open", "c"),
        ("sess.resume", "c"),
        ("conn.close", "c", "session_taken_over"),
        ("conn.open", "c"),
        ("sess.resume", "c"),
        ("conn.close", "c", "disconnect"),
        ("sess.end", "c", "clean_start"),
        ("conn.open", "c"),
        ("sess.create", "c"),
        ("conn.close", "c", "disconnect"),
        ("sess.end", "c", "disconnected"),
    ]


def test_expiry_and_wills_are_events() -> None:
    """A will with a delay longer than the session fires at the end of the session (MQTT 5.0 section 3.1.3.2.2)."""
    broker = BrokerHarness()
    broker.client("c", 5, expiry_s=5, will=packets.Will("w", b"", properties={"will_delay_interval": 9})).vanish()
    broker.pass_s(6)
    types = ("will.arm", "will.fire", "will.cancel", "sess.expire", "sess.end")
    assert story(broker, *types) == [
        ("will.arm", "c"),
        ("will.fire", "c"),
        ("sess.expire", "c"),
        ("sess.end", "c", "expired"),
    ]


def test_events_of_messages_from_publisher_to_subscriber() -> None:
    """At level `message`: the whole way of a QoS 1 and a QoS 2 message, in order, under one mid each."""
    broker = BrokerHarness(level=2)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p")
    publisher.publish("t", b"one", 1, 1)
    publisher.publish("t", b"two", 2, 2)
    publisher.ask(Pubrel(2))
    for message in subscriber.messages():
        if message.qos == 1:
            subscriber.ask(Puback(message.packet_id))
        else:
            subscriber.ask(Pubrec(message.packet_id))
            subscriber.ask(Pubcomp(message.packet_id))
    types = ("pub.recv", "pub.route", "pub.ack", "q.enq", "q.durable", "dlv.send", "dlv.ack")
    ways: dict[Any, list[str]] = {}
    for event in broker.events(*types):
        ways.setdefault(event["mid"], []).append(event["type"])
    assert len(ways) == 2
    for way in ways.values():
        assert sorted(way) == sorted(types)
        assert way.index("pub.recv") < way.index("pub.route") < way.index("q.durable") < way.index("pub.ack")
        assert way.index("dlv.send") < way.index("dlv.ack")


def test_every_row_is_one_of_the_schema() -> None:
    """Types, fields and levels are those of analytics/schema.py."""
    broker = BrokerHarness(level=2, max_online_messages=1, max_inflight_messages=1, retained_max_messages=1)
    subscriber = broker.persistent("s", 5, will=packets.Will("w", b"", 1))
    subscriber.subscribe(option("t", 2, no_local=True), ("$share/g/u", 1))
    publisher = broker.client("p", 5)
    for number in range(1, 5):
        publisher.publish("t", b"", 1, number, retain=True, message_expiry_interval=1)
        publisher.publish("u", b"x", 0, retain=True)
        publisher.publish("v", b"x", 1, number, retain=True)
    broker.client("late").subscribe(("#", 0))
    subscriber.unsubscribe("t")
    subscriber.vanish()
    broker.pass_s(5)
    broker.persistent("s", 5).drain()
    broker.host.stop(lambda: None)
    broker.settle()
    assert len({event["type"] for event in broker.host.events}) > 20
    for event in broker.host.events:
        assert schema.validate(event) == [], event


def test_rows_name_the_connection_and_what_was_agreed() -> None:
    """`conn` leads from the row of a message to the row of its connection, which has the rest."""
    broker = BrokerHarness(level=2)
    will = packets.Will("w", b"", properties={"will_delay_interval": 3})
    subscriber = broker.client("s", 5, clean=False, expiry_s=60, will=will, receive_maximum=7, keepalive_s=30)
    subscriber.subscribe(("t", 1))
    broker.client("p", 5).publish("t", b"one", 1, 1)
    opened, other = broker.events("conn.open")
    agreed = ("conn", "clean", "present", "expiry_s", "receive_max", "keepalive_s", "will_delay_s", "version")
    assert [opened[name] for name in agreed] == [1, False, False, 60, 7, 30, 3, 5]
    assert [other[name] for name in agreed] == [2, True, False, 0, 65535, 0, None, 5]
    assert opened["epoch"] > 0 and other["epoch"] == 0
    by_type = {each["type"]: each for each in broker.events("pub.recv", "pub.ack", "dlv.send", "sub.ack", "q.enq")}
    assert {name: each.get("conn") for name, each in by_type.items()} == {
        "sub.ack": 1, "pub.recv": 2, "q.enq": None, "pub.ack": 2, "dlv.send": 1
    }  # fmt: skip
    assert by_type["q.enq"]["epoch"] == opened["epoch"]
    subscriber.vanish()
    broker.client("s", 5, clean=False, expiry_s=60)
    again = broker.events("conn.open")[-1]
    assert (again["present"], again["conn"], again["epoch"]) == (True, 3, opened["epoch"])
    assert [each["type"] for each in broker.events("sess.create", "sess.resume")][-1] == "sess.resume"
    assert [(each["client"], each["count"]) for each in broker.events("q.depth")] == [("s", 1)]


def test_acknowledgements_have_code_and_right() -> None:
    """0x10: there are no subscribers; 0x80: the subscriber refuses the message (MQTT 5.0 sections 3.4.2.1, 3.5.2.1)."""
    broker = BrokerHarness(level=2)
    publisher = broker.client("p", 5)
    publisher.publish("t", b"", 1, 5)
    subscriber = broker.client("s", 5)
    subscriber.subscribe(("t", 2))
    publisher.publish("t", b"", 2, 6)
    (message,) = subscriber.messages()
    subscriber.ask(Pubrec(message.packet_id, 0x80))
    acks = [[each[name] for name in ("packet_id", "qos", "code", "right")] for each in broker.events("pub.ack")]
    assert acks == [[5, 1, 0x10, "own"], [6, 2, 0, "own"]]
    assert [each["code"] for each in broker.events("dlv.ack")] == [0x80]


def test_the_steps_of_qos_2_are_events() -> None:
    """Each with the connection and the packet id; those of the publisher with the mid."""
    broker = BrokerHarness(level=2)
    subscriber = broker.client("s")
    subscriber.subscribe(("t", 2))
    publisher = broker.client("p")
    publisher.publish("t", b"", 2, 6)
    publisher.ask(Pubrel(6))
    (message,) = subscriber.messages()
    subscriber.ask(Pubrec(message.packet_id))
    subscriber.ask(Pubcomp(message.packet_id))
    (received,) = broker.events("pub.recv")
    steps = [
        (each["type"], each["client"], each["conn"], each["packet_id"], each.get("mid"))
        for each in broker.events("pub.rel", "pub.comp", "dlv.rel", "dlv.comp")
    ]
    assert steps == [
        ("pub.rel", "p", 2, 6, received["mid"]),
        ("pub.comp", "p", 2, 6, received["mid"]),
        ("dlv.rel", "s", 1, message.packet_id, None),
        ("dlv.comp", "s", 1, message.packet_id, None),
    ]
    publisher.ask(Pubrel(6))
    subscriber.ask(Pubcomp(message.packet_id))
    assert len(broker.events("pub.rel", "dlv.comp")) == 2, "a repeated step belongs to no message"
    assert [schema.validate(each) for each in broker.host.events] == [[]] * len(broker.host.events)


def test_a_session_with_no_local_is_observed_like_any_other() -> None:
    """Its messages enter a queue as well."""
    broker = BrokerHarness(level=2)
    broker.persistent("s", 5).subscribe(option("t", 1, no_local=True))
    broker.client("p").publish("t", b"", 1, 1)
    assert [event["client"] for event in broker.events("q.enq", "q.durable")] == ["s", "s"]


def test_a_queue_reports_what_it_took_before_it_is_sent() -> None:
    """A row has the QoS of the delivery and the group. QoS 0 that is sent at once enters no queue."""
    broker = BrokerHarness(level=2)
    broker.persistent("s").subscribe(("a", 1), ("$share/g/b", 2))
    broker.client("clean").subscribe(("a", 2))
    publisher = broker.client("p")
    for topic, qos in (("a", 0), ("a", 2), ("b", 2)):
        publisher.publish(topic, b"", qos, 7)
        publisher.ask(Pubrel(7))
    rows = broker.events("q.enq")
    assert [(row["client"], row["topic"], row["qos"], row.get("group")) for row in rows] == [
        ("s", "a", 1, None),
        ("clean", "a", 2, None),
        ("s", "b", 2, "$share/g/b"),
    ]
    assert [row["type"] for row in broker.events("q.enq", "dlv.send") if row.get("qos")] == ["q.enq", "dlv.send"] * 3


def test_a_queue_reports_nothing_that_it_did_not_take() -> None:
    """What it drops has q.drop instead; QoS 0 for a session without a client only at the level of messages."""
    broker, silent = BrokerHarness(level=2, max_offline_messages=1), BrokerHarness(level=1, max_offline_messages=1)
    for each in (broker, silent):
        each.persistent("s").subscribe(("t", 1))
        each.persistent("s").vanish()
        publisher = each.client("p")
        for qos in (1, 1, 0):
            publisher.publish("t", b"", qos, 7)
    assert [row["qos"] for row in broker.events("q.enq")] == [1]
    assert [(row["reason"], row["qos"]) for row in broker.events("q.drop")] == [("queue_full", 1), ("unhandled", 0)]
    assert story(silent, "q.drop") == [("q.drop", "s", "queue_full")]
    assert silent.node.env.counters.queue_message_unhandled == 1


def test_qos_0_that_waits_enters_a_queue() -> None:
    """Behind an unanswered message the client does not read, it waits in memory."""
    broker = BrokerHarness(level=2, max_inflight_messages=1)
    broker.client("s").subscribe(("t", 1))
    broker.persistent("d").subscribe(("t", 1))
    publisher = broker.client("p")
    for qos in (1, 1, 0):
        publisher.publish("t", b"", qos, 7)
    rows = [(row["client"], row["qos"]) for row in broker.events("q.enq")]
    assert rows.count(("s", 1)) == rows.count(("d", 1)) == 2 and rows.count(("s", 0)) == rows.count(("d", 0)) == 1


def test_the_route_names_the_chosen_member_of_each_group() -> None:
    broker = BrokerHarness(level=2)
    broker.client("s").subscribe(("t", 1))
    broker.client("m").subscribe(("$share/g/t", 1))
    broker.client("p").publish("t", b"", 1, 7)
    rows = [(row["targets"], row.get("group")) for row in broker.events("pub.route")]
    assert rows == [(["s"], None), (["m"], "$share/g/t")]


@pytest.mark.parametrize("durability", ["sync", "os"])
def test_only_a_synced_commit_is_reported_as_such(durability: str) -> None:
    """The bytes are those since the last such row. q.durable says what a commit waits for."""
    broker = BrokerHarness(level=2)
    broker.disk.durability = durability  # type: ignore[assignment]
    broker.persistent("s").subscribe(("t", 1))
    publisher = broker.client("p")
    before = broker.node.env.store.bytes_landed
    publisher.publish("t", bytes(1000), 1, 7)
    publisher.publish("t", bytes(2000), 1, 8)
    assert [(row["durability"], row["copied"]) for row in broker.events("q.durable")] == [(durability, False)] * 2
    rows = broker.events("store.sync")
    if durability == "os":
        assert rows == []
        return
    assert [row["lsn"] for row in rows] == [row["lsn"] for row in broker.events("q.durable")]
    assert 2000 <= rows[1]["bytes"] < 3000
    assert sum(row["bytes"] for row in rows) == broker.node.env.store.bytes_landed
    assert rows[0]["bytes"] >= before


def test_the_entry_of_a_session_that_has_ended_is_still_reported_as_safe() -> None:
    broker = BrokerHarness(level=2)
    broker.persistent("s").subscribe(("t", 1))
    broker.hold_disk()
    broker.client("p").send(publish("t", b"", 1, 7))
    broker.settle()
    session = broker.node.sessions.get("", "s")
    assert session is not None
    session.end("clean_start")
    broker.free_disk()
    assert [row["type"] for row in broker.events("q.enq", "sess.end", "q.durable")] == [
        "q.enq",
        "sess.end",
        "q.durable",
    ]


def test_level_session_has_no_message_events() -> None:
    """Drops and expiries are events at every level (P8)."""
    broker = BrokerHarness(max_inflight_messages=1, max_online_messages=0)
    broker.client("s").subscribe(("t", 1))
    publisher = broker.client("p")
    for number in (1, 2, 3):
        publisher.publish("t", b"", 1, number)
    levels = {event["type"].split(".")[0] for event in broker.host.events}
    assert "pub" not in levels and "dlv" not in levels
    assert story(broker, "q.drop") == [("q.drop", "s", "queue_full")] * 2


def test_counters() -> None:
    """Under VerneMQ's names, by version."""
    broker = BrokerHarness()
    subscriber, publisher = broker.client("s", 5), broker.client("p", 4)
    subscriber.subscribe(("t", 2))
    publisher.publish("t", b"", 0)
    publisher.publish("t", b"", 1, 1)
    publisher.publish("t", b"", 2, 2)
    publisher.ask(Pubrel(2))
    subscriber.drain()
    publisher.leave()
    counters = broker.node.env.counters
    assert counters.publish_received == [3, 0] and counters.publish_sent == [0, 3]
    assert (counters.puback_sent, counters.pubrec_sent, counters.pubcomp_sent) == (1, 1, 1)
    assert (counters.puback_received, counters.pubrec_received, counters.pubcomp_received) == (1, 1, 1)
    assert (counters.pubrel_received, counters.pubrel_sent) == (1, 1)
    assert (counters.socket_open, counters.socket_close) == (2, 1)
    assert (counters.queue_setup, counters.queue_teardown) == (2, 1)
    assert counters.router_matches_local == 3


class Listener:
    """A plugin that gets every hook and answers none."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def auth_on_publish(self, *_: Any) -> bool:
        return True

    def auth_on_subscribe(self, *_: Any) -> bool:
        return True

    def on_register(self, peer: Any, subscriber: Any, user: Any) -> None:
        self.heard.append(("register", subscriber.client_id, user))

    def on_client_wakeup(self, subscriber: Any) -> None:
        self.heard.append(("wakeup", subscriber.client_id))

    def on_client_offline(self, subscriber: Any) -> None:
        self.heard.append(("offline", subscriber.client_id))

    def on_client_gone(self, subscriber: Any) -> None:
        self.heard.append(("gone", subscriber.client_id))

    def on_session_expired(self, subscriber: Any) -> None:
        self.heard.append(("expired", subscriber.client_id))


@pytest.mark.parametrize("version", [3, 4, 5])
def test_hooks_of_a_session(version: int) -> None:
    """on_register, on_client_wakeup, on_client_offline, on_client_gone, on_session_expired."""
    plugin = Listener()
    broker = BrokerHarness(plugin, persistent_client_expiration_s=1000)
    broker.client("clean", version, username="u").leave()
    broker.persistent("kept", version).leave()
    broker.pass_s(1001)
    assert plugin.heard == [
        ("register", "clean", "u"),
        ("gone", "clean"),
        ("register", "kept", None),
        ("wakeup", "kept"),
        ("offline", "kept"),
        ("expired", "kept"),
    ]


class Subscribers:
    """A plugin that hears what sessions keep and lose, and the properties of CONNECT."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    auth_on_publish = auth_on_subscribe = Listener.auth_on_publish

    def on_register_m5(self, peer: Any, subscriber: Any, user: Any, properties: Any) -> None:
        self.heard.append(("register", properties))

    def on_offline_message(self, subscriber: Any, *message: Any) -> None:
        self.heard.append(("kept", subscriber.client_id, *message))

    def on_topic_unsubscribed(self, subscriber: Any, topics: Any) -> None:
        self.heard.append(("unsubscribed", subscriber.client_id, topics))


def test_a_plugin_hears_what_is_kept_for_an_absent_client() -> None:
    """on_offline_message: not for a client that is connected, and not for QoS 0, which no queue keeps."""
    plugin = Subscribers()
    broker = BrokerHarness(plugin, max_inflight_messages=1)
    client = broker.persistent("s")
    client.subscribe(("t", 1))
    sender = broker.client("p")
    for packet_id in (1, 2):
        sender.publish("t", b"online", 1, packet_id)
    client.vanish()
    sender.publish("t", b"zero", 0)
    sender.publish("t", b"offline", 2, 3)
    assert plugin.heard == [("kept", "s", 1, "t", b"offline", False)]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_plugin_hears_that_a_session_loses_all_subscriptions(version: int) -> None:
    plugin = Subscribers()
    broker = BrokerHarness(plugin)
    client = broker.client("s", version)
    client.subscribe(("a", 0), ("b", 0))
    client.unsubscribe("a")
    plugin.heard.clear()
    client.leave()
    broker.client("without", version).leave()
    told = [each for each in plugin.heard if each[0] == "unsubscribed"]
    assert told == [("unsubscribed", "s", "all_topics")]


def test_a_plugin_hears_the_properties_of_connect() -> None:
    plugin = Subscribers()
    BrokerHarness(plugin).client("s", 5, False, 100)
    assert plugin.heard == [("register", {"session_expiry_interval": 100})]


def test_totals() -> None:
    """node.stats has the values of the counters (schema)."""
    broker = BrokerHarness()
    broker.client("s").subscribe(("t", 0))
    broker.client("p").publish("t")
    broker.node.env.observer.emit_stats()
    (event,) = broker.events("node.stats")
    assert (event["connects"], event["publishes"], event["deliveries"], event["drops"]) == (2, 1, 1, {})


def test_publishes_before_disconnect_count_also_in_one_piece() -> None:
    """A client may send DISCONNECT together with its messages. Then its connection ends in the turn of the event loop
    in which the node handles them."""
    broker = BrokerHarness()
    client = broker.client("p", 5)
    client.send(encode(publish("t"), 5) * 20, encode(Disconnect(), 5))
    broker.settle()
    assert client.closed and broker.node.env.counters.publish_received == [0, 20]


class Forbidding:
    """A plugin that lets no client publish."""

    def auth_on_publish(self, *_: Any) -> bool:
        return False


def test_a_publish_that_ends_its_connection_counts_as_received_and_refused() -> None:
    """The broker closes the connection of a v3 client that may not publish. The total of accepted ones stays 0."""
    broker = BrokerHarness(Forbidding())
    client = broker.client("p", 4)
    client.send(encode(publish("t"), 4))
    broker.settle()
    counters = broker.node.env.counters
    assert client.closed and (counters.publish_received, counters.publish_auth_error) == ([1, 0], [1, 0])
    broker.node.env.observer.emit_stats()
    assert broker.events("node.stats")[-1]["publishes"] == 0
