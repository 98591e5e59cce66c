"""The CONNECT packet (section 3.1 of both standards): reading and writing its body.

The parser is more lenient for MQTT 3.1, as its text demands: without a will the other will flags have no meaning, and a
user name or password may be missing although its flag is set.
"""

from __future__ import annotations

from . import wire
from .errors import MalformedPacket, ProtocolError
from .packets import Connect, Properties, Will
from .properties import decode_properties, encode_properties
from .reasons import ReasonCode
from .topics import valid_topic_name

BRIDGE = 0x80
"""Bit 7 of the protocol level: the client is another broker's bridge (levels 131 and 132)."""

_LEVELS = {b"MQIsdp": (3, 3 | BRIDGE), b"MQTT": (4, 5, 4 | BRIDGE)}
_NAMES = {3: b"\0\6MQIsdp", 4: b"\0\4MQTT", 5: b"\0\4MQTT"}


def parse_protocol(data: bytes, pos: int, end: int) -> tuple[int, bool, int]:
    """Protocol name and level -> (version 3, 4 or 5; whether a bridge; position after).

    The decoder calls it first, so that it can answer every later error in the client's own version.
    """
    name, pos = wire.read_binary(data, pos, end, "the protocol name")
    level, pos = wire.read_u8(data, pos, end, "the protocol level")
    if level not in _LEVELS.get(name, ()):  # [MQTT-3.1.2-1] [MQTT-3.1.2-2] [MQTT5-3.1.2-1] [MQTT5-3.1.2-2]
        shown = name[:16].decode("ascii", "backslashreplace")
        raise ProtocolError(f"unsupported protocol {shown!r} level {level}", ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)
    return level & ~BRIDGE, level > BRIDGE, pos


def parse_connect(data: bytes, pos: int, end: int, version: int, bridge: bool) -> Connect:
    """Parse the rest of the body, from the connect flags on; it must end exactly at `end`."""
    flags, pos = wire.read_u8(data, pos, end, "the connect flags")
    _check_flags(flags, version)
    keepalive_s, pos = wire.read_u16(data, pos, end, "the keep alive")
    properties: Properties | None = None
    if version == 5:
        properties, pos = decode_properties(data, pos, end, "Connect")
    # The fields stand in this order [MQTT-3.1.3-1] [MQTT5-3.1.3-1], the client identifier always [MQTT-3.1.3-3].
    client_id, pos = wire.read_utf8(data, pos, end, "the client identifier")
    will: Will | None = None
    if flags & 0x04:
        will, pos = _parse_will(data, pos, end, version, flags)
    username: str | None = None
    password: bytes | None = None
    missing_allowed = version == 3  # 3.1, section 3.1: the remaining length takes precedence over the flags
    if flags & 0x80 and not (missing_allowed and pos == end):  # [MQTT-3.1.2-19] [MQTT5-3.1.2-17]
        username, pos = wire.read_utf8(data, pos, end, "the user name")
    if flags & 0x40 and not (missing_allowed and pos == end):  # [MQTT-3.1.2-21] [MQTT5-3.1.2-19]
        password, pos = wire.read_binary(data, pos, end, "the password")
    if pos != end:  # [MQTT-3.1.2-11] [MQTT-3.1.2-18] [MQTT-3.1.2-20]: each field has a flag
        raise MalformedPacket(f"{end - pos} bytes too many in CONNECT")
    return Connect(client_id, version, flags & 0x02 != 0, keepalive_s, username, password, will, properties, bridge)


def _check_flags(flags: int, version: int) -> None:
    if version < 5 and flags & 0xC0 == 0x40:
        raise MalformedPacket("a password without a user name")  # [MQTT-3.1.2-22]
    if version == 3 and not flags & 0x04:
        return  # in 3.1 the other will bits have no meaning without a will
    if flags & 0x18 == 0x18:
        raise MalformedPacket("will QoS 3")  # [MQTT-3.1.2-14] [MQTT5-3.1.2-12]
    if version == 3:
        return  # in 3.1 the reserved bit is unused, and may be set
    if flags & 0x01:
        raise MalformedPacket("the reserved connect flag is set")  # [MQTT-3.1.2-3] [MQTT5-3.1.2-3]
    if not flags & 0x04 and flags & 0x38:  # [MQTT-3.1.2-11] [MQTT-3.1.2-13] [MQTT-3.1.2-15]
        raise MalformedPacket("will QoS or will retain without a will")  # [MQTT5-3.1.2-11] [MQTT5-3.1.2-13]


def _parse_will(data: bytes, pos: int, end: int, version: int, flags: int) -> tuple[Will, int]:
    properties: Properties | None = None
    if version == 5:
        properties, pos = decode_properties(data, pos, end, "Will")
    topic, pos = wire.read_utf8(data, pos, end, "the will topic")  # [MQTT-3.1.3-10] [MQTT5-3.1.3-11]
    if not valid_topic_name(topic):
        raise MalformedPacket("the will topic is no topic name")  # [MQTT-4.7.1-1] [MQTT-4.7.3-1]
    payload, pos = wire.read_binary(data, pos, end, "the will payload")
    return Will(topic, payload, flags >> 3 & 3, flags & 0x20 != 0, properties), pos


def encode_connect(packet: Connect) -> bytes:
    """The body of a CONNECT; raises `ValueError` for values that the packet's own version cannot encode."""
    version, will = packet.version, packet.will
    if version not in _NAMES or (packet.bridge and version == 5):
        raise ValueError(f"there is no protocol level for version {version}{' as bridge' * packet.bridge}")
    if version < 5 and (packet.properties or (will and will.properties)):
        raise ValueError("properties exist only in MQTT 5.0")
    if version < 5 and packet.password is not None and packet.username is None:
        raise ValueError("a password without a user name exists only in MQTT 5.0")  # [MQTT-3.1.2-22]
    flags = 0x02 * packet.clean_start | 0x80 * (packet.username is not None) | 0x40 * (packet.password is not None)
    body = wire.encode_utf8(packet.client_id, "client_id")
    if will is not None:
        flags |= 0x04 | _will_flags(will)
        body += encode_properties(will.properties, "Will") if version == 5 else b""
        body += wire.encode_utf8(will.topic, "will topic") + wire.encode_binary(will.payload, "will payload")
    if packet.username is not None:
        body += wire.encode_utf8(packet.username, "username")
    if packet.password is not None:
        body += wire.encode_binary(packet.password, "password")
    properties = encode_properties(packet.properties, "Connect") if version == 5 else b""
    level = version | BRIDGE * packet.bridge
    return (
        _NAMES[version] + bytes((level, flags)) + wire.encode_u16(packet.keepalive_s, "keepalive_s") + properties + body
    )


def _will_flags(will: Will) -> int:
    if will.qos not in (0, 1, 2):
        raise ValueError(f"will QoS {will.qos}")
    if not valid_topic_name(will.topic):
        raise ValueError(f"the will topic is no topic name: {will.topic!r}")
    return will.qos << 3 | 0x20 * will.retain
