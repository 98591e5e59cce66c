"""The frames of the hot path are the same bytes as those of `encode`."""

import itertools

import pytest

from strogoff.mqtt import packets as p
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.frames import (
    PACKET_IDS,
    PINGREQ,
    PINGRESP,
    puback_frame,
    pubcomp_frame,
    publish_head,
    pubrec_frame,
    pubrel_frame,
)
from strogoff.mqtt.properties import encode_properties


def test_packet_ids() -> None:
    """Two bytes, big endian, for each number."""
    assert len(PACKET_IDS) == 65_536
    assert (PACKET_IDS[1], PACKET_IDS[258], PACKET_IDS[65_535]) == (b"\0\1", b"\1\2", b"\xff\xff")


CASES = list(itertools.product((3, 4, 5), (0, 1, 2), (False, True), (False, True), (0, 100, 130, 20_000)))


@pytest.mark.parametrize(
    ("version", "qos", "retain", "dup", "size"), [case for case in CASES if case[1] or not case[3]]
)
def test_publish_head(version: int, qos: int, retain: bool, dup: bool, size: int) -> None:
    """[MQTT-2.3.1-5] [MQTT5-2.2.1-2] Head, packet identifier where QoS > 0, properties and payload make the packet."""
    properties = {"content_type": "x"} if version == 5 else None
    block = encode_properties(properties, "Publish") if version == 5 else b""
    payload = b"x" * size
    head = publish_head(version, "é/b".encode(), size, qos, retain, dup, block)
    frame = head + (PACKET_IDS[513] if qos else b"") + block + payload
    assert frame == encode(p.Publish("é/b", payload, qos, retain, dup, 513 if qos else 0, properties), version)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, b"a", 0, 3, False, False, b""), "QoS 3"),  # [MQTT-3.3.1-4] [MQTT5-3.3.1-4]
        ((4, b"a", 0, 0, False, True, b""), "DUP"),  # [MQTT-3.3.1-2] [MQTT5-3.3.1-2]
        ((5, b"a", 0, 0, False, False, b""), "property block"),  # [MQTT5-2.2.2-1]
        ((4, b"a", 0, 0, False, False, b"\0"), "property block"),
        ((4, b"a" * 65_536, 0, 0, False, False, b""), "65536 bytes"),  # [MQTT-4.7.3-3] [MQTT5-4.7.3-3]
        ((4, b"a", 268_435_453, 0, False, False, b""), "larger than MQTT"),
    ],
)
def test_illegal_heads(arguments: tuple[int, bytes, int, int, bool, bool, bytes], message: str) -> None:
    """[MQTT-3.3.1-2] [MQTT-3.3.1-4] [MQTT5-3.3.1-2] [MQTT5-3.3.1-4] A forbidden frame cannot be made."""
    with pytest.raises(ValueError, match=message):
        publish_head(*arguments)


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("packet_id", [1, 255, 256, 65_535])
def test_answers(version: int, packet_id: int) -> None:
    """[MQTT-3.6.1-1] [MQTT5-3.6.1-1] The four-byte success forms serve all versions."""
    assert puback_frame(packet_id) == encode(p.Puback(packet_id), version)
    assert pubrec_frame(packet_id) == encode(p.Pubrec(packet_id), version)
    assert pubrel_frame(packet_id) == encode(p.Pubrel(packet_id), version)
    assert pubcomp_frame(packet_id) == encode(p.Pubcomp(packet_id), version)
    assert (encode(p.Pingreq(), version), encode(p.Pingresp(), version)) == (PINGREQ, PINGRESP)
