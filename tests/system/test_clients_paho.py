"""paho-mqtt against a broker process: every transport, both versions, every QoS; sessions, wills, retained messages."""

from __future__ import annotations

from typing import Any

import pytest

from .brokers import WITHIN_S, EveryListener
from .paho_client import MQTT_5, Paho

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]

versions = pytest.mark.parametrize("version", [3, 4, 5])
modern = pytest.mark.parametrize("version", [4, 5])
transports = pytest.mark.parametrize("transport", ["tcp", "ws", "ssl", "wss", "unix"])
FOREVER = {"SessionExpiryInterval": 0xFFFFFFFF}


def stays(version: int) -> dict[str, Any]:
    """Options of a client whose session outlives its connection."""
    return {"clean": False, "connect": FOREVER} if version == MQTT_5 else {"clean": False}


@transports
@modern
def test_every_qos_over_every_transport(shared: EveryListener, name: str, version: int, transport: str) -> None:
    """Each message once, in order, with its QoS and its bytes, over each kind of listener.

    [MQTT-6.0.0-1] [MQTT-6.0.0-3] [MQTT5-6.0.0-1] [MQTT5-6.0.0-3] frames are binary and the subprotocol is mqtt;
    [MQTT-4.6.0-6] [MQTT5-4.6.0-5] in order; [MQTT-3.8.4-5] [MQTT5-3.8.4-6] each SUBSCRIBE has its answer.
    """
    with (
        Paho(shared, f"{name}-r", version, transport) as reader,
        Paho(shared, f"{name}-w", version, transport) as writer,
    ):
        assert reader.subscribe(f"{name}/#", 2) == [2]
        for number in range(30):
            writer.publish(f"{name}/{number}", bytes([number]) * number, number % 3)
        got = [reader.next() for _ in range(30)]
        for qos in (0, 1, 2):
            numbers = [int(each.topic.rpartition("/")[2]) for each in got if each.qos == qos]
            assert numbers == list(range(qos, 30, 3))
        assert all(each.payload == bytes([n := int(each.topic.rpartition("/")[2])]) * n for each in got)
        assert reader.messages.empty()


@transports
@modern
def test_large_messages_over_every_transport(shared: EveryListener, name: str, version: int, transport: str) -> None:
    """A megabyte each way, in many segments and WebSocket frames. [MQTT-6.0.0-2] [MQTT5-6.0.0-2]"""
    payload = bytes(range(256)) * 4096
    with Paho(shared, name, version, transport) as client:
        client.subscribe(name, 1)
        client.publish(name, payload, 1)
        assert client.next().payload == payload


@versions
def test_a_retained_message_is_kept_for_subscribers_and_can_be_deleted(
    shared: EveryListener, name: str, version: int
) -> None:
    """[MQTT-3.3.1-6] [MQTT-3.3.1-8] [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT5-3.3.1-6] [MQTT5-3.3.1-9]"""
    with Paho(shared, f"{name}-w", version) as writer, Paho(shared, f"{name}-r", version) as reader:
        writer.publish(f"{name}/state", b"on", 1, retain=True)
        reader.subscribe(f"{name}/+", 1)
        first = reader.next()
        assert (first.payload, first.qos, first.retain) == (b"on", 1, True)
        writer.publish(f"{name}/state", b"off", 1, retain=True)
        live = reader.next()
        assert (live.payload, live.retain) == (b"off", False)
        writer.publish(f"{name}/state", b"", 1, retain=True)
        assert reader.next().payload == b""
        reader.unsubscribe(f"{name}/+")
        reader.subscribe(f"{name}/#", 1)
        writer.publish(f"{name}/end", b"end", 1)
        assert reader.next().payload == b"end"


@versions
def test_a_will_is_published_when_the_connection_is_cut_and_not_after_disconnect(
    shared: EveryListener, name: str, version: int
) -> None:
    """[MQTT-3.1.2-8] [MQTT-3.1.2-10] [MQTT5-3.1.2-8] [MQTT5-3.1.2-10]"""
    with Paho(shared, f"{name}-r", version) as reader:
        reader.subscribe(f"{name}/#", 2)
        will = {"topic": f"{name}/polite", "payload": b"wrong", "qos": 1}
        with Paho(shared, f"{name}-polite", version, will=will):
            pass
        for qos in (0, 1, 2):
            will = {"topic": f"{name}/will", "payload": b"%d" % qos, "qos": qos}
            client = Paho(shared, f"{name}-{qos}", version, will=will)
            client.__enter__()
            client.vanish()
            got = reader.next()
            assert (got.topic, got.payload, got.qos) == (f"{name}/will", b"%d" % qos, qos)


@versions
def test_a_resumed_session_gets_the_messages_of_its_absence(shared: EveryListener, name: str, version: int) -> None:
    """[MQTT-3.1.2-4] [MQTT-3.1.2-5] [MQTT-3.2.2-2] [MQTT-4.5.0-1] [MQTT5-3.1.2-5] [MQTT5-3.2.2-3] [MQTT5-4.5.0-1]"""
    with Paho(shared, f"{name}-r", version, **stays(version)) as reader:
        assert not reader.session_present
        reader.subscribe(f"{name}/#", 2)
    with Paho(shared, f"{name}-w", version) as writer:
        for number in range(50):
            writer.publish(f"{name}/{number % 3}", b"%d" % number, 1 + number % 2)
    with Paho(shared, f"{name}-r", version, **stays(version)) as reader:
        assert reader.session_present is (version > 3)  # MQTT 3.1 has no such flag
        assert sorted(map(int, reader.payloads(50))) == list(range(50))
        assert reader.messages.empty()


@modern
def test_a_clean_session_forgets(shared: EveryListener, name: str, version: int) -> None:
    """[MQTT-3.1.2-6] [MQTT-3.2.2-1] [MQTT5-3.1.2-4] [MQTT5-3.2.2-2]"""
    with Paho(shared, f"{name}-r", version, **stays(version)) as reader:
        reader.subscribe(f"{name}/#", 1)
    with Paho(shared, f"{name}-r", version, clean=True) as reader:
        assert not reader.session_present
        with Paho(shared, f"{name}-w", version) as writer:
            writer.publish(f"{name}/lost", b"lost", 1)
            reader.subscribe(f"{name}/found", 1)
            writer.publish(f"{name}/found", b"found", 1)
        assert reader.next().payload == b"found"


@modern
def test_a_second_connection_of_the_same_client_takes_over(shared: EveryListener, name: str, version: int) -> None:
    """[MQTT-3.1.4-2] [MQTT5-3.1.4-3]: the first is closed, in version 5 with 0x8E."""
    with Paho(shared, name, version) as first, Paho(shared, name, version) as second:
        assert first.gone.wait(WITHIN_S)
        if version == MQTT_5:
            assert first.gone_reason.value == 0x8E
        second.subscribe(f"{name}/x", 1)
        second.publish(f"{name}/x", b"here", 1)
        assert second.next().payload == b"here"


@modern
def test_a_shared_subscription_gives_each_message_to_one_member(shared: EveryListener, name: str, version: int) -> None:
    """Two members and one ordinary subscriber. [MQTT5-4.8.2-4] [MQTT5-4.8.2-5] and as VerneMQ for 3.1.1."""
    with (
        Paho(shared, f"{name}-1", version) as one,
        Paho(shared, f"{name}-2", version) as two,
        Paho(shared, f"{name}-all", version) as everything,
        Paho(shared, f"{name}-w", version) as writer,
    ):
        for member in (one, two):
            assert member.subscribe(f"$share/group/{name}/#", 1) == [1]
        everything.subscribe(f"{name}/#", 1)
        sent = [b"%d" % number for number in range(60)]
        for payload in sent:
            writer.publish(f"{name}/work", payload, 1)
        assert everything.payloads(60) == sent
        for index, member in enumerate((one, two)):
            member.subscribe(f"{name}-end-{index}", 1)
            writer.publish(f"{name}-end-{index}", b"end", 1)
        parts = [member.payloads_until(b"end") for member in (one, two)]
        assert sorted(parts[0] + parts[1], key=int) == sent
        assert parts[0] and parts[1]
        assert all(part == sorted(part, key=int) for part in parts)


@modern
@pytest.mark.slow
def test_keepalive_is_answered(shared: EveryListener, name: str, version: int) -> None:
    """[MQTT-3.12.4-1] [MQTT5-3.12.4-1]: pings keep a silent client connected beyond 1.5 times its keepalive."""
    with Paho(shared, name, version, keepalive=1) as client:
        assert not client.gone.wait(2.5)
        client.subscribe(name, 1)
        client.publish(name, b"still here", 1)
        assert client.next().payload == b"still here"
