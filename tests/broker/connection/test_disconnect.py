"""DISCONNECT from both sides: codes, reserved bits, properties, sizes."""

from __future__ import annotations

import pytest

from strogoff.mqtt.encoder import encode
from strogoff.mqtt.packets import Disconnect, Pingreq, Pingresp
from strogoff.mqtt.reasons import FROM_CLIENT, FROM_SERVER, ReasonCode

from ...harness.broker import BrokerHarness, PacketClient, connect, publish
from ...harness.transcript import CLOSED, RawClient, accepted, reason_of, will

VERSIONS = (3, 4, 5)


def stage_with_watcher() -> tuple[BrokerHarness, PacketClient]:
    """A broker, and a subscriber to the wills."""
    broker = BrokerHarness()
    watcher = broker.client("w")
    watcher.subscribe(("#", 0))
    return broker, watcher


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("frame", [b"\xe1\x00", b"\xe8\x00", b"\xef\x00"])
def test_reserved_bits(version: int, frame: bytes) -> None:
    """It is a malformed packet: the connection is closed as for any violation, and the will is sent.

    [MQTT-3.14.1-1] [MQTT5-2.1.3-1] [MQTT-4.8.0-1] [MQTT5-4.13.1-1]
    """
    broker, watcher = stage_with_watcher()
    caller = RawClient(broker, version)
    assert caller.says(connect("c", version, will=will())) == [accepted()]
    heard = caller.says(frame)
    assert heard[-1] == CLOSED and reason_of(heard) == (0x81 if version == 5 else None)
    assert watcher.payloads() == [b"gone"]


@pytest.mark.parametrize("frame", [b"\xe1\x00", b"\xe8\x00", b"\xef\x00"])
def test_flags_mean_nothing_in_31(frame: bytes) -> None:
    """MQTT 3.1 section 3.14: DUP, QoS and RETAIN are not used in DISCONNECT; the will is not sent."""
    broker, watcher = stage_with_watcher()
    caller = RawClient(broker, 3)
    assert caller.says(connect("c", 3, will=will())) == [accepted()]
    assert caller.says(frame) == [CLOSED]
    assert watcher.payloads() == []


@pytest.mark.parametrize("reason", sorted(FROM_CLIENT["Disconnect"]))
def test_every_code_of_a_client(reason: int) -> None:
    """The connection is closed without an answer; only 0x00 takes the will away [MQTT5-3.14.4-3] [MQTT5-3.1.2-8]"""
    broker, watcher = stage_with_watcher()
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, will=will())) == [accepted()]
    assert caller.says(Disconnect(reason), Pingreq(), publish("late")) == [CLOSED]
    assert watcher.payloads() == ([b"gone"] if reason else [])


@pytest.mark.parametrize("reason", sorted({int(code) for code in ReasonCode} - FROM_CLIENT["Disconnect"]))
def test_codes_that_a_client_may_not_send(reason: int) -> None:
    """It is a protocol error, and the client gets the code [MQTT5-3.14.2-1] [MQTT5-4.13.1-1]"""
    broker, watcher = stage_with_watcher()
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, will=will())) == [accepted()]
    assert reason_of(caller.says(bytes((0xE0, 2, reason, 0)))) in (0x81, 0x82)
    assert watcher.payloads() == [b"gone"]


@pytest.mark.parametrize("detail", ["", "x" * 30])
def test_codes_of_the_broker(detail: str) -> None:
    """Only those of the list, never a session expiry, and then the close.

    [MQTT5-3.14.2-1] [MQTT5-3.14.2-2] [MQTT5-3.14.4-2] [MQTT5-4.13.2-1]
    """
    for reason in sorted(FROM_SERVER["Disconnect"]):
        broker = BrokerHarness()
        caller = RawClient(broker, 5)
        assert caller.says(connect("c", 5, False, 100)) == [accepted()]
        (connection,) = broker.node.connections.values()
        connection.disconnect(ReasonCode(reason), detail)
        properties = {"reason_string": detail} if detail else None
        assert caller.hears() == [Disconnect(reason, properties), CLOSED]


@pytest.mark.parametrize("room", [1, 0])
def test_the_reason_string_in_a_small_packet(room: int) -> None:
    """It is left out if the packet would be too large for the client; the broker never sends user properties.

    [MQTT5-3.14.2-3] [MQTT5-3.14.2-4]
    """
    broker = BrokerHarness()
    caller = RawClient(broker, 5)
    full = Disconnect(0x94, {"reason_string": "topic alias 9 is above the maximum"})
    limit = len(encode(full, 5)) - 1 + room
    assert caller.says(connect("c", 5, maximum_packet_size=limit)) == [accepted()]
    assert caller.says(publish("t", topic_alias=9)) == [full if room else Disconnect(0x94), CLOSED]


def test_no_disconnect_before_connack() -> None:
    """A connection that still waits for its CONNACK is just closed [MQTT5-3.14.0-1]"""
    broker = BrokerHarness()
    broker.hold_disk()
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, False, 100)) == []
    broker.node.close()
    assert caller.hears() == [CLOSED]


@pytest.mark.parametrize("version", [3, 4])
def test_older_versions_are_just_closed(version: int) -> None:
    """They have no DISCONNECT from a server (MQTT 3.1.1 section 3.14)."""
    broker = BrokerHarness()
    caller = RawClient(broker, version)
    assert caller.says(connect("c", version), Pingreq()) == [accepted(), Pingresp()]
    (connection,) = broker.node.connections.values()
    connection.disconnect(ReasonCode.ADMINISTRATIVE_ACTION, "told by nobody")
    assert caller.hears() == [CLOSED]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_disconnect_right_behind_connect(version: int) -> None:
    """CONNECT was accepted, so it is answered first, however slow the disk is [MQTT-3.1.4-4] [MQTT5-3.1.4-5]"""
    broker, watcher = stage_with_watcher()
    broker.hold_disk()
    caller = RawClient(broker, version)
    expiry = 100 if version == 5 else None
    behind = [publish("t", b"x"), Disconnect()]
    assert caller.says(connect("c", version, False, expiry, will=will()), *behind) == []
    assert watcher.messages() == []
    broker.free_disk()
    assert caller.hears() == [accepted(), CLOSED]
    assert watcher.payloads() == [b"x"]
