"""The bodies of all packets but CONNECT and PUBLISH: sections 3.2 and 3.4 to 3.15, as whole packets in hex."""

import pytest

from strogoff.mqtt import packets as p
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode

METHOD = {"authentication_method": "m"}

# receiver, version, bytes, packet: each row holds in both directions
BOTH = [
    ("client", 3, "20 02 00 05", p.Connack(False, 5)),
    ("client", 4, "20 02 00 00", p.Connack(False, 0)),
    ("client", 4, "20 02 01 00", p.Connack(True, 0)),
    ("client", 5, "20 03 00 00 00", p.Connack(False, 0)),
    ("client", 5, "20 06 00 87 03 21 0005", p.Connack(False, 0x87, {"receive_maximum": 5})),
    ("server", 4, "40 02 0001", p.Puback(1)),
    ("client", 5, "40 02 ffff", p.Puback(65_535)),  # 3.4.2.1 the reason is left out
    ("server", 5, "40 03 0001 10", p.Puback(1, 0x10)),  # 3.4.2.2.1 the property length is left out
    ("server", 5, "40 09 0001 00 05 1f 0002 6869", p.Puback(1, 0, {"reason_string": "hi"})),
    ("server", 4, "50 02 0102", p.Pubrec(0x102)),
    ("client", 5, "50 03 0001 97", p.Pubrec(1, 0x97)),
    ("server", 3, "62 02 0001", p.Pubrel(1)),
    ("server", 5, "62 03 0001 92", p.Pubrel(1, 0x92)),
    ("client", 4, "70 02 0001", p.Pubcomp(1)),
    ("server", 5, "70 03 0001 92", p.Pubcomp(1, 0x92)),
    ("server", 4, "82 06 0001 0001 61 02", p.Subscribe(1, [p.SubscribeOptions("a", 2)])),
    (
        "server", 4, "82 0c 0001 0003 612f62 01 0001 23 00",
        p.Subscribe(1, [p.SubscribeOptions("a/b", 1), p.SubscribeOptions("#", 0)]),
    ),
    (
        "server", 5, "82 09 0001 02 0b 05 0001 61 2e",
        p.Subscribe(1, [p.SubscribeOptions("a", 2, True, True, 2)], {"subscription_identifier": 5}),
    ),
    ("client", 3, "90 03 0001 02", p.Suback(1, [2])),
    ("client", 4, "90 06 0001 00 01 02 80", p.Suback(1, [0, 1, 2, 0x80])),  # [MQTT-3.9.3-1]
    ("client", 5, "90 05 0001 00 01 a2", p.Suback(1, [1, 0xA2])),  # [MQTT5-3.9.3-1]
    ("server", 4, "a2 08 0001 0001 61 0001 62", p.Unsubscribe(1, ["a", "b"])),
    ("server", 5, "a2 06 0001 00 0001 2b", p.Unsubscribe(1, ["+"])),
    ("client", 4, "b0 02 0001", p.Unsuback(1, [])),
    ("client", 5, "b0 05 0001 00 00 11", p.Unsuback(1, [0, 0x11])),  # [MQTT5-3.11.3-1]
    ("server", 4, "c0 00", p.Pingreq()),
    ("client", 5, "d0 00", p.Pingresp()),
    ("server", 3, "e0 00", p.Disconnect()),
    ("server", 5, "e0 00", p.Disconnect()),  # 3.14.2.1
    ("server", 5, "e0 01 04", p.Disconnect(4)),  # 3.14.2.2.1
    ("server", 5, "e0 07 00 05 11 00000001", p.Disconnect(0, {"session_expiry_interval": 1})),
    ("client", 5, "e0 07 9d 05 1c 0002 733a", p.Disconnect(0x9D, {"server_reference": "s:"})),
    ("client", 5, "f0 00", p.Auth()),  # 3.15.2.1
    ("client", 5, "f0 06 00 04 15 0001 6d", p.Auth(0, METHOD)),
    ("server", 5, "f0 06 18 04 15 0001 6d", p.Auth(0x18, METHOD)),
    ("server", 5, "f0 06 19 04 15 0001 6d", p.Auth(0x19, METHOD)),
]  # fmt: skip


@pytest.mark.parametrize(("role", "version", "raw", "packet"), BOTH)
def test_both_ways(role: str, version: int, raw: str, packet: p.Packet) -> None:
    """[MQTT-3.9.3-1] [MQTT5-3.9.3-1] [MQTT5-3.11.3-1] Bytes and packet stand for each other; orders are kept."""
    decoder = Decoder(role, version)
    assert decoder.feed(bytes.fromhex(raw)) == [packet]
    assert decoder.error is None
    assert encode(packet, version) == bytes.fromhex(raw)


# receiver, version, bytes that another encoder may send
ALSO = [
    ("server", 5, "40 03 0001 00", p.Puback(1)),
    ("server", 5, "40 04 0001 00 00", p.Puback(1)),
    ("client", 5, "62 04 0001 92 00", p.Pubrel(1, 0x92)),
    ("server", 5, "e0 01 00", p.Disconnect()),
    ("server", 5, "e0 02 00 00", p.Disconnect()),
    ("client", 3, "20 02 ff 00", p.Connack(False, 0)),  # reserved and unused in 3.1
    ("server", 3, "6a 02 0001", p.Pubrel(1)),  # MQTT 3.1 sets DUP in PUBREL, SUBSCRIBE, UNSUBSCRIBE sent again
    ("server", 3, "8a 06 0001 0001 61 02", p.Subscribe(1, [p.SubscribeOptions("a", 2)])),
    ("server", 3, "aa 05 0001 0001 61", p.Unsubscribe(1, ["a"])),
]


@pytest.mark.parametrize(("role", "version", "raw", "packet"), ALSO)
def test_longer_forms(role: str, version: int, raw: str, packet: p.Packet) -> None:
    """Forms that are legal to receive, though `encode` writes shorter ones."""
    assert Decoder(role, version).feed(bytes.fromhex(raw)) == [packet]


# receiver, version, bytes, reason, rule
BAD = [
    ("client", 4, "20 02 02 00", 0x81, "reserved flags, 3.2.2.1"),
    ("client", 5, "20 03 80 00 00", 0x81, "[MQTT5-3.2.2-1]"),
    ("client", 4, "20 02 01 05", 0x82, "[MQTT-3.2.2-4]"),
    ("client", 5, "20 03 01 87 00", 0x82, "[MQTT5-3.2.2-6]"),
    ("client", 4, "20 02 00 06", 0x81, "unknown return code, 3.2.2.3"),
    ("client", 5, "20 03 00 01 00", 0x81, "[MQTT5-3.2.2-8]"),
    ("client", 5, "20 02 00 00", 0x81, "[MQTT5-2.2.2-1] property length missing"),
    ("client", 4, "20 03 00 00 00", 0x81, "too long"),
    ("client", 5, "20 04 00 00 00 00", 0x81, "too long"),
    ("server", 4, "40 02 0000", 0x81, "[MQTT-2.3.1-1]"),
    ("server", 5, "40 02 0000", 0x81, "[MQTT5-2.2.1-4]"),
    ("server", 5, "40 03 0000 00", 0x81, "[MQTT5-2.2.1-4]"),
    ("server", 4, "40 03 0001 00", 0x81, "no reason code before 5.0"),
    ("server", 5, "40 01 00", 0x81, "half a packet identifier"),
    ("server", 5, "40 00", 0x81, "no packet identifier"),
    ("server", 5, "40 03 0001 92", 0x81, "[MQTT5-3.4.2-1]"),
    ("server", 5, "50 03 0001 01", 0x81, "[MQTT5-3.5.2-1]"),
    ("server", 5, "62 03 0001 10", 0x81, "[MQTT5-3.6.2-1]"),
    ("server", 5, "70 03 0001 80", 0x81, "[MQTT5-3.7.2-1]"),
    ("server", 5, "40 05 0001 00 00 00", 0x81, "too long"),
    ("server", 5, "40 04 0001 00 01", 0x81, "property length too large"),
    ("server", 5, "40 06 0001 00 02 2500", 0x81, "property of another packet"),
    ("server", 4, "82 06 0000 0001 61 00", 0x81, "[MQTT-2.3.1-1]"),
    ("server", 5, "82 07 0000 00 0001 61 00", 0x81, "[MQTT5-2.2.1-3]"),
    ("server", 4, "82 02 0001", 0x82, "[MQTT-3.8.3-3]"),
    ("server", 5, "82 03 0001 00", 0x82, "[MQTT5-3.8.3-2]"),
    ("server", 4, "82 05 0001 0001 61", 0x81, "options missing"),
    ("server", 4, "82 06 0001 0001 ff 00", 0x81, "[MQTT-3.8.3-1]"),
    ("server", 5, "82 07 0001 00 0001 ff 00", 0x81, "[MQTT5-3.8.3-1]"),
    ("server", 4, "82 05 0001 0000 00", 0x81, "[MQTT-4.7.3-1] empty filter"),
    ("server", 4, "82 07 0001 0002 6123 00", 0x81, "[MQTT-4.7.1-2] a#"),
    ("server", 5, "82 08 0001 00 0002 612b 00", 0x81, "[MQTT5-4.7.1-2] a+"),
    ("server", 5, "82 0e 0001 00 0008 2473686172652f67 00", 0x81, "[MQTT5-4.8.2-2] $share/g"),
    ("server", 4, "82 06 0001 0001 61 03", 0x81, "[MQTT-3.8.3-4] QoS 3"),
    ("server", 4, "82 06 0001 0001 61 04", 0x81, "[MQTT-3.8.3-4] reserved bits"),
    ("server", 5, "82 07 0001 00 0001 61 03", 0x82, "3.8.3.1 QoS 3"),
    ("server", 5, "82 07 0001 00 0001 61 40", 0x81, "[MQTT5-3.8.3-5]"),
    ("server", 5, "82 07 0001 00 0001 61 80", 0x81, "[MQTT5-3.8.3-5]"),
    ("server", 5, "82 07 0001 00 0001 61 30", 0x82, "3.8.3.1 retain handling 3"),
    ("server", 5, "82 10 0001 00 000a 2473686172652f672f61 04", 0x82, "[MQTT5-3.8.3-4] no local, shared"),
    ("client", 4, "90 03 0001 03", 0x81, "[MQTT-3.9.3-2]"),
    ("client", 4, "90 03 0001 87", 0x81, "[MQTT-3.9.3-2]"),
    ("client", 5, "90 04 0001 00 03", 0x81, "[MQTT5-3.9.3-2]"),
    ("client", 4, "90 02 0001", 0x81, "[MQTT-3.8.4-5] no return code"),
    ("client", 5, "90 03 0001 00", 0x81, "[MQTT5-3.8.4-6] no reason code"),
    ("server", 4, "a2 05 0000 0001 61", 0x81, "[MQTT-2.3.1-1]"),
    ("server", 4, "a2 02 0001", 0x82, "[MQTT-3.10.3-2]"),
    ("server", 5, "a2 03 0001 00", 0x82, "[MQTT5-3.10.3-2]"),
    ("server", 4, "a2 05 0001 0001 ff", 0x81, "[MQTT-3.10.3-1]"),
    ("server", 5, "a2 06 0001 00 0001 ff", 0x81, "[MQTT5-3.10.3-1]"),
    ("server", 4, "a2 04 0001 0000", 0x81, "[MQTT-4.7.3-1]"),
    ("client", 4, "b0 03 0001 00", 0x81, "no reason code before 5.0"),
    ("client", 5, "b0 04 0001 00 01", 0x81, "[MQTT5-3.11.3-2]"),
    ("client", 5, "b0 03 0001 00", 0x81, "no reason code"),
    ("server", 4, "c0 01 00", 0x81, "3.12.2 no variable header"),
    ("client", 5, "d0 01 00", 0x81, "3.13.2 no variable header"),
    ("server", 4, "e0 01 00", 0x81, "nothing in DISCONNECT before 5.0"),
    ("server", 5, "e0 01 05", 0x81, "[MQTT5-3.14.2-1]"),
    ("server", 5, "e0 01 8e", 0x82, "[MQTT5-3.14.2-1] only of servers"),
    ("client", 5, "e0 01 04", 0x82, "[MQTT5-3.14.2-1] only of clients"),
    ("client", 5, "e0 07 00 05 11 00000001", 0x82, "[MQTT5-3.14.2-2]"),
    ("server", 5, "e0 03 00 00 00", 0x81, "too long"),
    ("server", 5, "f0 06 01 04 15 0001 6d", 0x81, "[MQTT5-3.15.2-1]"),
    ("server", 5, "f0 06 00 04 15 0001 6d", 0x82, "[MQTT5-3.15.2-1] only of servers"),
    ("server", 5, "f0 00", 0x82, "[MQTT5-3.15.2-1] success is only of servers"),
    ("client", 5, "f0 06 19 04 15 0001 6d", 0x82, "[MQTT5-3.15.2-1] only of clients"),
    ("server", 5, "f0 02 18 00", 0x82, "3.15.2.2.2 no method"),
    ("server", 5, "f0 01 18", 0x81, "3.15.2.2.1 no property length"),
]


@pytest.mark.parametrize(("role", "version", "raw", "reason", "rule"), BAD, ids=[f"{r[0]}{r[1]} {r[4]}" for r in BAD])
def test_refused(role: str, version: int, raw: str, reason: int, rule: str) -> None:
    """[MQTT-4.8.0-1] [MQTT5-4.13.1-1] Each broken rule of the table is an error with its reason, and no packet."""
    decoder = Decoder(role, version)
    assert decoder.feed(bytes.fromhex(raw)) == []
    assert decoder.error is not None
    assert decoder.error.reason == reason


@pytest.mark.parametrize(("role", "version", "raw", "packet"), BOTH)
def test_cut_bodies(role: str, version: int, raw: str, packet: p.Packet) -> None:
    """A packet whose remaining length is shorter than its content is refused or another legal packet, never a crash."""
    data = bytes.fromhex(raw)
    for length in range(data[1]):
        decoder = Decoder(role, version)
        found = decoder.feed(bytes((data[0], length)) + data[2 : 2 + length])
        assert len(found) == (decoder.error is None)
        assert packet not in found
