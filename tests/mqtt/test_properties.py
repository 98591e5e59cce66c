"""The properties of MQTT 5.0: section 2.2.2 and the sections of the packets that carry them."""

import pytest

from strogoff.mqtt.errors import MalformedPacket, ProtocolError
from strogoff.mqtt.properties import REPEATED_MOST, TABLE, decode_properties, encode_properties
from strogoff.mqtt.wire import encode_varint

ALL = "Connect Connack Publish Will Puback Pubrec Pubrel Pubcomp Subscribe Suback Unsubscribe Unsuback Disconnect Auth"
ACKS = "Connack Puback Pubrec Pubrel Pubcomp Suback Unsuback Disconnect Auth"

# identifier, name, packets, a value, its bytes
ROWS = [
    (0x01, "payload_format_indicator", "Publish Will", 1, "01"),
    (0x02, "message_expiry_interval", "Publish Will", 0x01020304, "01020304"),
    (0x03, "content_type", "Publish Will", "a/é", "0004 612fc3a9"),
    (0x08, "response_topic", "Publish Will", "r/1", "0003 722f31"),
    (0x09, "correlation_data", "Publish Will", b"\0\xff", "0002 00ff"),
    (0x0B, "subscription_identifier", "Publish Subscribe", 128, "8001"),
    (0x11, "session_expiry_interval", "Connect Connack Disconnect", 0xFFFFFFFF, "ffffffff"),
    (0x12, "assigned_client_identifier", "Connack", "c", "0001 63"),
    (0x13, "server_keep_alive", "Connack", 60, "003c"),
    (0x15, "authentication_method", "Connect Connack Auth", "m", "0001 6d"),
    (0x16, "authentication_data", "Connect Connack Auth", b"d", "0001 64"),
    (0x17, "request_problem_information", "Connect", 0, "00"),
    (0x18, "will_delay_interval", "Will", 5, "00000005"),
    (0x19, "request_response_information", "Connect", 1, "01"),
    (0x1A, "response_information", "Connack", "", "0000"),
    (0x1C, "server_reference", "Connack Disconnect", "s:1", "0003 733a31"),
    (0x1F, "reason_string", ACKS, "no", "0002 6e6f"),
    (0x21, "receive_maximum", "Connect Connack", 1, "0001"),
    (0x22, "topic_alias_maximum", "Connect Connack", 0, "0000"),
    (0x23, "topic_alias", "Publish", 65_535, "ffff"),
    (0x24, "maximum_qos", "Connack", 1, "01"),
    (0x25, "retain_available", "Connack", 0, "00"),
    (0x26, "user_property", ALL, ("k", "v"), "0001 6b 0001 76"),
    (0x27, "maximum_packet_size", "Connect Connack", 1, "00000001"),
    (0x28, "wildcard_subscription_available", "Connack", 0, "00"),
    (0x29, "subscription_identifier_available", "Connack", 1, "01"),
    (0x2A, "shared_subscription_available", "Connack", 0, "00"),
]
METHOD = bytes.fromhex("15 0001 6d")


def block(*parts: bytes | str) -> bytes:
    """A property block: the length (below 128) and the parts, bytes or hex."""
    content = b"".join(bytes.fromhex(part) if isinstance(part, str) else part for part in parts)
    return bytes((len(content),)) + content


def decode(data: bytes, packet: str) -> object:
    """The properties of a block that ends with the data."""
    properties, pos = decode_properties(data, 0, len(data), packet)
    assert pos == len(data)
    return properties


def test_the_table_is_complete() -> None:
    """Table 2-4 has 27 properties."""
    assert {line.identifier for line in TABLE} == {row[0] for row in ROWS}
    assert len(TABLE) == 27


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_each_property_in_each_packet(row: tuple[int, str, str, object, str]) -> None:
    """Section 2.2.2.2: bytes and value in the packets of the table, malformed in all others."""
    identifier, name, packets, value, raw = row
    for packet in ALL.split():
        alone = f"{identifier:02x} {raw}"
        data = block(alone, METHOD if name == "authentication_data" else b"")
        if packet not in packets.split():
            with pytest.raises(MalformedPacket, match="does not belong"):
                decode(data, packet)
            with pytest.raises(ValueError, match=name):
                encode_properties({name: value}, packet)
            continue
        many = name == "user_property" or (name == "subscription_identifier" and packet == "Publish")
        expected: dict[str, object] = {name: [value] if many else value}
        if name == "authentication_data":
            expected["authentication_method"] = "m"
        assert decode(data, packet) == expected
        assert encode_properties(expected, packet) == data


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_repeated(row: tuple[int, str, str, object, str]) -> None:
    """The sections of all properties: more than once is a Protocol Error, but for user properties and PUBLISH's ids."""
    identifier, name, packets, value, raw = row
    data = block(f"{identifier:02x} {raw}" * 2, METHOD if name == "authentication_data" else b"")
    for packet in packets.split():
        if name == "user_property" or (name == "subscription_identifier" and packet == "Publish"):
            assert decode(data, packet) == {name: [value, value]}
            assert encode_properties({name: [value, value]}, packet) == data
        else:
            with pytest.raises(ProtocolError, match="more than once") as caught:
                decode(data, packet)
            assert caught.value.reason == 0x82


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_cut_off(row: tuple[int, str, str, object, str]) -> None:
    """A value that the block or the packet cuts off is malformed, wherever the cut is."""
    identifier, _, packets, _, raw = row
    content = bytes.fromhex(f"{identifier:02x} {raw}")
    packet = packets.split()[0]
    for size in range(1, len(content)):
        with pytest.raises(MalformedPacket):
            decode(bytes((size,)) + content[:size], packet)
        with pytest.raises(MalformedPacket):
            decode_properties(bytes((len(content),)) + content, 0, size + 1, packet)


@pytest.mark.parametrize(
    ("packet", "raw", "reason"),
    [
        ("Connect", "21 0000", 0x82),  # 3.1.2.11.3 receive maximum 0
        ("Connack", "21 0000", 0x82),  # 3.2.2.3.3
        ("Connect", "27 00000000", 0x82),  # 3.1.2.11.4 maximum packet size 0
        ("Connack", "27 00000000", 0x82),  # 3.2.2.3.6
        ("Connect", "17 02", 0x82),  # 3.1.2.11.7 request problem information
        ("Connect", "19 02", 0x82),  # 3.1.2.11.6 request response information
        ("Connack", "24 02", 0x82),  # 3.2.2.3.4 maximum QoS
        ("Connack", "25 02", 0x82),  # 3.2.2.3.5 retain available
        ("Connack", "28 ff", 0x82),  # 3.2.2.3.11
        ("Connack", "29 02", 0x82),  # 3.2.2.3.12
        ("Connack", "2a 02", 0x82),  # 3.2.2.3.13
        ("Publish", "01 02", 0x82),  # 3.3.2.3.2 payload format indicator
        ("Publish", "23 0000", 0x94),  # [MQTT5-3.3.2-8] topic alias 0
        ("Publish", "0b 00", 0x82),  # 3.3.2.3.8 subscription identifier 0
        ("Subscribe", "0b 00", 0x82),  # 3.8.2.1.2
        ("Publish", "08 0003 612f23", 0x82),  # [MQTT5-3.3.2-14] wildcard in the response topic
        ("Publish", "08 0001 2b", 0x82),  # [MQTT5-3.3.2-14]
        ("Will", "08 0000", 0x82),  # [MQTT5-4.7.3-1] an empty response topic
        ("Connect", "16 0001 64", 0x82),  # 3.1.2.11.10 data without a method
        ("Publish", "08 0001 ff", 0x81),  # [MQTT5-3.3.2-13] response topic is UTF-8
        ("Publish", "03 0001 00", 0x81),  # [MQTT5-3.3.2-19] content type is UTF-8, [MQTT5-1.5.4-2]
        ("Publish", "26 0001 ff 0000", 0x81),  # [MQTT5-1.5.7-1] name of a pair
        ("Publish", "26 0000 0001 00", 0x81),  # [MQTT5-1.5.7-1] value of a pair
        ("Publish", "0b 8000", 0x81),  # [MQTT5-1.5.5-1] superfluous byte
        ("Publish", "0b ffffffff01", 0x81),  # 1.5.5 five bytes
        ("Publish", "00", 0x81),
        ("Publish", "8100 01", 0x81),
        ("Connack", "7f", 0x81),
    ],
)
def test_illegal_values(packet: str, raw: str, reason: int) -> None:
    """[MQTT5-3.3.2-8] [MQTT5-3.3.2-14] [MQTT5-1.5.7-1] Forbidden values and the reason that the peer gets."""
    with pytest.raises((MalformedPacket, ProtocolError)) as caught:
        decode(block(raw), packet)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("packet", "one"), [("Connect", "26 0000 0000"), ("Will", "26 0000 0000"), ("Publish", "0b 01")]
)
def test_repetitions_are_bounded(packet: str, one: str) -> None:
    """At most `REPEATED_MOST` of one property; one more is refused with 0x97 before the rest is read."""
    for count in (REPEATED_MOST, REPEATED_MOST + 1):
        block = bytes.fromhex(one) * count
        data = encode_varint(len(block)) + block
        if count == REPEATED_MOST:
            properties, _ = decode_properties(data, 0, len(data), packet)
            assert properties is not None and [len(values) for values in properties.values()] == [count]
            continue
        with pytest.raises(ProtocolError) as caught:
            decode_properties(data, 0, len(data), packet)
        assert caught.value.reason == 0x97


def test_length() -> None:
    """[MQTT5-2.2.2-1] No properties are a length of zero; the length must be minimal and fit into the packet."""
    assert encode_properties(None, "Publish") == encode_properties({}, "Publish") == b"\0"
    assert decode_properties(b"\0payload", 0, 8, "Publish") == (None, 1)
    for raw in ("", "8000", "01", "80", "ffffffffff"):
        with pytest.raises(MalformedPacket):
            decode(bytes.fromhex(raw), "Publish")


def test_long_block() -> None:
    """A block of more than 127 bytes has a length of two bytes; user properties keep their order."""
    pairs = [(f"name {number}", "ü" * number) for number in range(40)]
    data = encode_properties({"user_property": pairs, "topic_alias": 3}, "Publish")
    assert data[0] > 127
    assert decode(data, "Publish") == {"user_property": pairs, "topic_alias": 3}


@pytest.mark.parametrize(
    ("packet", "properties"),
    [
        ("Publish", {"subject": 1}),
        ("Publish", {"topic_alias": 0}),
        ("Publish", {"topic_alias": 65_536}),
        ("Publish", {"topic_alias": "1"}),
        ("Publish", {"subscription_identifier": 5}),
        ("Publish", {"subscription_identifier": [0]}),
        ("Publish", {"subscription_identifier": ["1"]}),
        ("Subscribe", {"subscription_identifier": [5]}),
        ("Publish", {"user_property": ("a", "b")}),
        ("Publish", {"user_property": {"a": "b"}}),
        ("Publish", {"user_property": [("a", "b", "c")]}),
        ("Publish", {"response_topic": "a/#"}),
        ("Publish", {"correlation_data": "text"}),
        ("Publish", {"content_type": b"bytes"}),
        ("Publish", {"content_type": "\0"}),
        ("Publish", {"message_expiry_interval": -1}),
        ("Publish", {"message_expiry_interval": 1.5}),
        ("Publish", {"payload_format_indicator": 2}),
        ("Connect", {"authentication_data": b"x"}),
        ("Connect", {"receive_maximum": 0}),
    ],
)
def test_unencodable(packet: str, properties: dict[str, object]) -> None:
    """The encoder refuses values that a decoder would refuse."""
    with pytest.raises(ValueError, match=r"\w"):
        encode_properties(properties, packet)
