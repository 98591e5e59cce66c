"""Changes of PUBLISH by plugins, and the notifications that plugins get."""

from __future__ import annotations

from zlib import crc32

import pytest

from strogoff.broker.plugins.hooks import Allow
from strogoff.broker.queues.records import InboundRecord
from strogoff.mqtt.packets import Puback, Publish, Pubrec

from ...harness.broker import BrokerHarness, publish

VERSIONS = (3, 4, 5)


class Changing:
    """A plugin that changes messages by the name of their topic, and is notified of all publishes."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.heard: list[tuple[str, bytes]] = []
        self.changes: dict[str, dict[str, object]] = {}
        self.fails = False

    def auth_on_publish(self, *args: object) -> object:
        topic = str(args[3])
        self.asked.append(topic)
        if self.fails:
            raise RuntimeError("its database is away")
        return self.changes.get(topic) or Allow(cacheable=True)

    def auth_on_subscribe(self, *_: object) -> bool:
        return True

    def on_publish(self, *args: object) -> None:
        self.heard.append((str(args[3]), bytes(args[4])))  # type: ignore[call-overload]


class PropertiesHeard:
    """Hears the properties of each PUBLISH."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def auth_on_publish_m5(self, *_: object) -> bool:
        return True

    def on_publish_m5(self, *args: object) -> None:
        self.heard.append(args[-1])


@pytest.mark.parametrize("version", VERSIONS)
def test_modifiers_of_auth_on_publish(version: int) -> None:
    """The plugin sets topic, payload, retain and mountpoint; the publisher gets the usual answer."""
    plugin = Changing()
    plugin.changes = {"a": {"topic": "b", "payload": b"new", "retain": True}, "away": {"mountpoint": "elsewhere"}}
    broker = BrokerHarness(plugin)
    subscriber = broker.client("s", version)
    subscriber.subscribe(("#", 1))
    client = broker.client("p", version)
    assert client.publish("a", b"old", 1, 1) == [Puback(1)]
    assert subscriber.messages() == [Publish("b", b"new", 1, False, False, 1)]
    client.publish("away", b"x", 1, 2)
    assert subscriber.messages() == []
    late = broker.client("late", version)
    _, retained = late.subscribe(("#", 1))
    assert (retained.topic, retained.payload, retained.retain) == ("b", b"new", True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("came", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_a_changed_qos_affects_only_the_delivery(version: int, came: int, granted: int) -> None:
    """The publisher is answered as the QoS of its packet demands [MQTT-3.3.4-1] [MQTT5-3.3.4-1]."""
    plugin = Changing()
    plugin.changes = {"t": {"qos": granted}}
    broker = BrokerHarness(plugin)
    subscriber = broker.client("s", version)
    subscriber.subscribe(("t", 2))
    client = broker.client("p", version)
    answers = {0: [], 1: [Puback(7)], 2: [Pubrec(7)]}
    assert client.publish("t", b"x", came, 7) == answers[came]
    assert [m.qos for m in subscriber.messages()] == [granted]


def test_a_changed_qos_survives_parking() -> None:
    """A parked message keeps the changes of the plugin, which is not asked again."""
    plugin = Changing()
    plugin.changes = {"t": {"qos": 1, "payload": b"new"}}
    broker = BrokerHarness(plugin)
    subscriber = broker.persistent("s")
    subscriber.subscribe(("t", 2), ("early", 1))
    broker.disk.full = True
    broker.client("other").publish("early", b"", 1, 1)
    client = broker.client("p")
    assert client.publish("t", b"old", 2, 7) == []
    broker.disk.full = False
    broker.pass_s(10)
    assert client.take() == [Pubrec(7)]
    assert [(m.payload, m.qos) for m in subscriber.messages()] == [(b"", 1), (b"new", 1)]
    assert plugin.asked.count("t") == 1


def test_on_publish_hears_every_message() -> None:
    """This includes messages whose permission was cached."""
    plugin = Changing()
    client = BrokerHarness(plugin).client("p")
    for number in range(3):
        client.publish("t", b"%d" % number, number, number)
    assert plugin.asked == ["t"]
    assert plugin.heard == [("t", b"0"), ("t", b"1"), ("t", b"2")]


@pytest.mark.parametrize("version", VERSIONS)
def test_on_publish_hears_only_what_is_accepted(version: int) -> None:
    """While the disk is full, a v5 client is refused; the message of a v3 client waits until it is accepted."""
    plugin = Changing()
    plugin.changes = {"t": {"topic": "changed", "payload": b"new"}}
    broker = BrokerHarness(plugin)
    broker.persistent("s", version).subscribe(("early", 1))
    broker.disk.full = True
    broker.client("other").publish("early", b"", 1, 1)
    plugin.heard.clear()
    client = broker.client("p", version)
    client.publish("t", b"old", 1, 7)
    assert plugin.heard == []
    broker.disk.full = False
    broker.pass_s(10)
    assert plugin.heard == ([] if version == 5 else [("changed", b"new")])


@pytest.mark.parametrize("version", VERSIONS)
def test_on_publish_hears_a_repeated_packet_once(version: int) -> None:
    plugin = Changing()
    broker = BrokerHarness(plugin)
    client = broker.persistent("p", version)
    client.publish("t", b"once", 2, 7)
    client.vanish()
    broker.persistent("p", version).publish("t", b"once", 2, 7, dup=True)
    assert plugin.heard == [("t", b"once")]


def test_on_publish_hears_the_properties() -> None:
    plugin = PropertiesHeard()
    client = BrokerHarness(plugin).client("p", 5)
    client.ask(publish("t", b"", 1, 1, content_type="x", message_expiry_interval=60))
    client.ask(publish("t", b"", 1, 2))
    assert plugin.heard == [{"content_type": "x", "message_expiry_interval": 60}, {}]


def test_throttle_of_a_plugin() -> None:
    """The publisher is not read for this number of milliseconds."""
    plugin = Changing()
    plugin.changes = {"slow": {"throttle": 300}}
    broker = BrokerHarness(plugin)
    client = broker.client("p")
    assert client.publish("slow", b"", 1, 1) == [Puback(1)]
    assert client.publish("t", b"", 1, 2) == []
    broker.pass_s(0.29)
    assert client.take() == []
    broker.pass_s(0.02)
    assert client.take() == [Puback(2)]


def test_the_rate_does_not_shorten_the_throttle_of_a_plugin() -> None:
    """The packet that the plugin throttles is also one too many for this second."""
    plugin = Changing()
    plugin.changes = {"slow": {"throttle": 5000}}
    broker = BrokerHarness(plugin, max_message_rate=1)
    client = broker.client("p")
    sent = [publish("t", b"", 1, 1), publish("slow", b"", 1, 2), publish("t", b"", 1, 3)]
    assert client.ask(*sent) == [Puback(1), Puback(2)]
    broker.pass_s(4.9)
    assert client.take() == []
    broker.pass_s(2)
    assert client.take() == [Puback(3)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_repeated_packet_keeps_the_changes_of_the_plugin(version: int, restarted: bool) -> None:
    """The client repeats its QoS 2 PUBLISH after its connection or the process ended. The broker delivers the message
    once, as the plugin changed it, and does not ask the plugin again.
    """
    plugin = Changing()
    plugin.changes = {"a": {"topic": "b", "payload": b"new"}}
    broker = BrokerHarness(plugin)
    broker.persistent("s", version).subscribe(("#", 2))
    client = broker.persistent("p", version)
    broker.hold_disk()
    client.publish("a", b"old", 2, 7)
    client.vanish()
    broker.free_disk()
    if restarted:
        broker.restart()
    assert broker.persistent("p", version).publish("a", b"old", 2, 7, dup=True) == [Pubrec(7)]
    assert [(m.topic, m.payload) for m in broker.persistent("s", version).messages()] == [("b", b"new")]
    asked = len(plugin.asked)
    assert broker.persistent("p", version).publish("a", b"old", 2, 7, dup=True) == [Pubrec(7)]
    assert len(plugin.asked) == asked  # it is only answered


@pytest.mark.parametrize("version", VERSIONS)
def test_a_repeated_packet_is_not_routed_unchanged_while_the_plugin_fails(version: int) -> None:
    """The plugin keeps topics of different customers apart. The client sends the message until the plugin answers."""
    plugin = Changing()
    plugin.changes = {"a": {"topic": "b", "payload": b"new"}}
    broker = BrokerHarness(plugin)
    reader = broker.client("s", version)
    reader.subscribe(("#", 2))
    client = broker.persistent("p", version)
    broker.hold_disk()
    client.publish("a", b"old", 2, 7)
    client.vanish()
    broker.free_disk()
    errors: list[str] = []
    broker.node.env.hooks._on_error = lambda plugin, hook, error: errors.append(hook)
    plugin.fails = True
    client = broker.persistent("p", version)
    assert not [each for each in client.publish("a", b"old", 2, 7, dup=True) if isinstance(each, Pubrec)]
    assert client.closed and len(errors) == 1
    plugin.fails = False
    assert broker.persistent("p", version).publish("a", b"old", 2, 7, dup=True) == [Pubrec(7)]
    assert [(m.topic, m.payload) for m in reader.messages()] == [("b", b"new")]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("topic", "payload", "retain"), [
    ("no", b"n)\x1bf\x97", False), ("$SYS/no", b"", False), ("ok", b"other", False), ("ok", b"m", True),
])  # fmt: skip
def test_a_repeated_packet_brings_no_message_that_the_plugin_forbids(
    topic: str, payload: bytes, retain: bool, restarted: bool
) -> None:
    """The plugin allowed a message, and the client closed its connection before the node routed it. Then the client
    sends another message with the same packet id. It has chosen both messages so that their CRC-32 is equal (H-12).
    """
    assert crc32(b"m", crc32(b"ok")) == crc32(b"n)\x1bf\x97", crc32(b"no"))

    class Guard:
        def auth_on_publish(self, *args: object) -> bool:
            return args[3:6] == ("ok", b"m", False)

        def auth_on_subscribe(self, *_: object) -> bool:
            return True

    broker = BrokerHarness(Guard())
    broker.persistent("s").subscribe(("#", 2), ("$SYS/#", 2))
    client = broker.persistent("p")
    broker.hold_disk()
    client.publish("ok", b"m", 2, 7)
    client.vanish()
    broker.free_disk()
    if restarted:
        broker.restart()
    broker.persistent("p").publish(topic, payload, 2, 7, dup=True, retain=retain)
    assert broker.persistent("s").messages() == []


def test_a_message_of_a_former_primary_gets_the_changes_of_the_plugin() -> None:
    """It was routed there, and members of groups here may lack it."""
    plugin = Changing()
    plugin.changes = {"a": {"topic": "b", "payload": b"new"}}
    broker = BrokerHarness(plugin)
    member = broker.client("member")
    member.subscribe(("$share/g/#", 2))
    client = broker.persistent("p")
    session = broker.node.sessions.get("", "p")
    assert session is not None
    session.inbound.restore(7, InboundRecord(1, 8, True, origin="#3"))
    assert client.publish("a", b"old", 2, 7, dup=True) == [Pubrec(7)]
    assert [(m.topic, m.payload) for m in member.messages()] == [("b", b"new")]
