"""`encode`: refused packets, properties left out for a small Maximum Packet Size, and exports."""

from typing import Any

import pytest

from strogoff.mqtt import encoder, wire
from strogoff.mqtt import packets as p
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode

A = p.SubscribeOptions("a")

BAD: list[tuple[Any, int, str]] = [
    (p.Publish("a", b"", 3, packet_id=1), 4, "[MQTT-3.3.1-4] [MQTT5-3.3.1-4]"),
    (p.Publish("a", b"", dup=True), 4, "[MQTT-3.3.1-2] [MQTT5-3.3.1-2]"),
    (p.Publish("a", b"", 1), 4, "[MQTT-2.3.1-1] [MQTT5-2.2.1-4] packet identifier 0"),
    (p.Publish("a", b"", 0, packet_id=1), 4, "[MQTT-2.3.1-5] [MQTT5-2.2.1-2]"),
    (p.Publish("a/#", b""), 4, "[MQTT-3.3.2-2] [MQTT5-3.3.2-2]"),
    (p.Publish("", b""), 4, "[MQTT-4.7.3-1] [MQTT5-4.7.3-1]"),
    (p.Publish("", b""), 5, "no topic and no alias"),
    (p.Publish("", b"", properties={"content_type": "x"}), 5, "no topic and no alias"),
    (p.Publish("a+b", b"", properties={"topic_alias": 1}), 5, "[MQTT5-3.3.2-2]"),
    (p.Publish("a", b"", properties={"content_type": "x"}), 4, "properties before 5.0"),
    (p.Publish("x" * 65_536, b""), 4, "[MQTT-4.7.3-3]"),
    (p.Connack(True, 5), 4, "[MQTT-3.2.2-4]"),
    (p.Connack(True, 0x87), 5, "[MQTT5-3.2.2-6]"),
    (p.Connack(False, 0x87), 4, "a v5 reason before 5.0"),
    (p.Connack(False, 5), 5, "[MQTT5-3.2.2-8]"),
    (p.Puback(0), 4, "[MQTT-2.3.1-6]"),
    (p.Puback(65_536), 4, "two bytes"),
    (p.Puback(1, 0x80), 4, "a reason before 5.0"),
    (p.Puback(1, 0x92), 5, "[MQTT5-3.4.2-1]"),
    (p.Pubrec(1, 0x92), 5, "[MQTT5-3.5.2-1]"),
    (p.Pubrel(1, 0x80), 5, "[MQTT5-3.6.2-1]"),
    (p.Pubcomp(1, 0x80), 5, "[MQTT5-3.7.2-1]"),
    (p.Subscribe(1, []), 4, "[MQTT-3.8.3-3] [MQTT5-3.8.3-2]"),
    (p.Subscribe(0, [A]), 4, "[MQTT-2.3.1-1]"),
    (p.Subscribe(1, [p.SubscribeOptions("a", 3)]), 4, "[MQTT-3.8.3-4]"),
    (p.Subscribe(1, [p.SubscribeOptions("a", 0, True)]), 4, "no local before 5.0"),
    (p.Subscribe(1, [p.SubscribeOptions("a", 0, retain_handling=3)]), 5, "3.8.3.1"),
    (p.Subscribe(1, [p.SubscribeOptions("$share/g/a", 0, True)]), 5, "[MQTT5-3.8.3-4]"),
    (p.Subscribe(1, [p.SubscribeOptions("a#")]), 4, "[MQTT-4.7.1-2]"),
    (p.Suback(1, []), 4, "[MQTT-3.8.4-5]"),
    (p.Suback(1, [0x87]), 4, "[MQTT-3.9.3-2]"),
    (p.Suback(1, [0x11]), 5, "[MQTT5-3.9.3-2]"),
    (p.Unsubscribe(1, []), 4, "[MQTT-3.10.3-2] [MQTT5-3.10.3-2]"),
    (p.Unsubscribe(1, [""]), 4, "[MQTT-4.7.3-1]"),
    (p.Unsuback(1, []), 5, "one reason for each filter"),
    (p.Unsuback(1, [0x01]), 5, "[MQTT5-3.11.3-2]"),
    (p.Disconnect(0x8E), 4, "a reason before 5.0"),
    (p.Disconnect(0x85), 5, "[MQTT5-3.14.2-1]"),
    (p.Auth(0x18), 4, "no AUTH before 5.0"),
    (p.Auth(0x01, {"authentication_method": "m"}), 5, "[MQTT5-3.15.2-1]"),
    (p.Auth(0x18), 5, "3.15.2.2.2 no method"),
    (p.Connect("c", 5), 4, "another version"),
    (p.Pingreq(), 6, "no such version"),
    (A, 4, "no packet"),
]


@pytest.mark.parametrize(("packet", "version", "rule"), BAD, ids=[f"{type(r[0]).__name__} {r[2]}" for r in BAD])
def test_illegal_packets(packet: Any, version: int, rule: str) -> None:
    """[MQTT-3.3.1-2] [MQTT5-3.2.2-8] [MQTT5-3.14.2-1] A forbidden packet raises an error with the rule of the table."""
    with pytest.raises(ValueError, match=r"\w"):
        encode(packet, version)


def test_reserved_flags() -> None:
    """[MQTT-2.2.2-1] [MQTT5-2.1.3-1] [MQTT-3.8.1-1] [MQTT5-3.8.1-1] [MQTT-3.10.1-1] [MQTT5-3.10.1-1] First bytes."""
    packets: list[p.Packet] = [
        p.Pubrel(1),
        p.Subscribe(1, [A]),
        p.Unsubscribe(1, ["a"]),
        p.Puback(1),
        p.Disconnect(),
        p.Pingreq(),
    ]
    assert [encode(packet, 4)[0] for packet in packets] == [0x62, 0x82, 0xA2, 0x40, 0xE0, 0xC0]


def test_session_present_does_not_exist_in_3_1() -> None:
    """MQTT 3.1: the first byte of a CONNACK is reserved."""
    assert encode(p.Connack(True, 0), 3) == bytes.fromhex("20 02 00 00")


def test_alias_instead_of_topic() -> None:
    """Section 3.3.2.3.4: a zero-length topic with an alias."""
    packet = p.Publish("", b"x", properties={"topic_alias": 7})
    assert Decoder("client", 5).feed(encode(packet, 5)) == [packet]


LONG = {"reason_string": "r" * 40, "user_property": [("k", "v" * 40)]}
DIAGNOSED = [
    (p.Connack(False, 0, LONG), "[MQTT5-3.2.2-19] [MQTT5-3.2.2-20]"),
    (p.Puback(1, 0x87, LONG), "[MQTT5-3.4.2-2] [MQTT5-3.4.2-3]"),
    (p.Pubrec(1, 0x87, LONG), "[MQTT5-3.5.2-2] [MQTT5-3.5.2-3]"),
    (p.Pubrel(1, 0x92, LONG), "[MQTT5-3.6.2-2] [MQTT5-3.6.2-3]"),
    (p.Pubcomp(1, 0x92, LONG), "[MQTT5-3.7.2-2] [MQTT5-3.7.2-3]"),
    (p.Suback(1, [0x87], LONG), "[MQTT5-3.9.2-1] [MQTT5-3.9.2-2]"),
    (p.Unsuback(1, [0x87], LONG), "[MQTT5-3.11.2-1] [MQTT5-3.11.2-2]"),
    (p.Disconnect(0x87, LONG), "[MQTT5-3.14.2-3] [MQTT5-3.14.2-4]"),
    (p.Auth(0x18, {"authentication_method": "m", **LONG}), "[MQTT5-3.15.2-2] [MQTT5-3.15.2-3]"),
]


@pytest.mark.parametrize(("packet", "rule"), DIAGNOSED, ids=[type(row[0]).__name__ for row in DIAGNOSED])
def test_diagnostics_are_left_out(packet: Any, rule: str) -> None:
    """User properties go first, then the reason string, then the packet is not sent [MQTT5-3.1.2-24]."""

    def sent(size: int | None) -> p.Packet | None:
        data = encode(packet, 5, size)
        assert size is None or data is None or len(data) <= size
        return Decoder("client", 5).feed(data)[0] if data else None

    def without(*names: str) -> p.Properties | None:
        return {name: value for name, value in packet.properties.items() if name not in names} or None

    full = encode(packet, 5)
    assert sent(None) == sent(len(full)) == packet
    smaller: Any = sent(len(full) - 1)
    assert smaller.properties == without("user_property")
    bare: Any = sent(len(encode(smaller, 5)) - 1)
    assert bare.properties == without("user_property", "reason_string")
    assert sent(len(encode(bare, 5))) == bare
    assert sent(len(encode(bare, 5)) - 1) is None
    assert packet.properties.items() >= LONG.items()  # the caller's packet is as it was


def test_publish_is_never_thinned_out() -> None:
    """[MQTT5-3.3.2-17] [MQTT5-3.1.2-24] A PUBLISH keeps its user properties, or is not sent at all."""
    packet = p.Publish("a", b"x", properties={"user_property": [("k", "v" * 40)]})
    size = len(encode(packet, 5))
    assert encode(packet, 5, size) == encode(packet, 5)
    assert encode(packet, 5, size - 1) is None
    assert encode(p.Publish("a", b"x"), 4, 5) is None


def test_remaining_length_boundaries() -> None:
    """[MQTT5-1.5.5-1] Table 2-4 of 3.1.1: one byte up to 127, two up to 16,383."""
    for size, header in ((124, 2), (125, 3), (16_380, 3), (16_381, 4)):
        assert len(encode(p.Publish("a", b"x" * size), 4)) == header + 3 + size


def test_larger_than_mqtt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 2.1.4: a remaining length has an upper bound, lowered here to 100 bytes."""
    monkeypatch.setattr(wire, "MAX_VARINT", 100)
    assert len(encode(p.Publish("a", b"x" * 97), 4)) == 102
    with pytest.raises(ValueError, match="larger than MQTT"):
        encode(p.Publish("a", b"x" * 98), 4)


def test_exports() -> None:
    """The frames of the hot path are reached through this module too."""
    assert encoder.puback_frame(1) + encoder.PINGRESP == bytes.fromhex("4002 0001 d000")
    assert set(encoder.__all__) <= set(vars(encoder))
