"""The properties of MQTT 5.0 (section 2.2.2): one table with names, packets and ranges of values.

`Properties` are dicts keyed by the names in the table. `user_property` is a list of pairs, in order;
`subscription_identifier` is a list of integers in PUBLISH and one integer in SUBSCRIBE; everything else is one value.
Packets are named by their class (`"Connect"`, `"Puback"`, ...), the properties of a will by `"Will"`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import wire
from .errors import MalformedPacket, ProtocolError, WireError
from .packets import Properties
from .reasons import ReasonCode
from .topics import valid_topic_name

Reader = Callable[[bytes, int, int, str], tuple[Any, int]]
Writer = Callable[[Any, str], bytes]


def _read_pair(data: bytes, pos: int, end: int, what: str) -> tuple[tuple[str, str], int]:
    """A UTF-8 string pair (section 1.5.7), both strings under the rules of 1.5.4 [MQTT5-1.5.7-1]."""
    name, pos = wire.read_utf8(data, pos, end, what)
    value, pos = wire.read_utf8(data, pos, end, what)
    return (name, value), pos


def _write_pair(pair: tuple[str, str], what: str) -> bytes:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"{what} must be a pair of texts, not {pair!r}")
    return wire.encode_utf8(pair[0], what) + wire.encode_utf8(pair[1], what)


def _write_varint(value: int, what: str) -> bytes:
    if not isinstance(value, int):
        raise ValueError(f"{what} must be a whole number, not {value!r}")
    return wire.encode_varint(value)


class _Kind(NamedTuple):
    read: Reader
    write: Writer
    numeric: bool
    highest: int = 0


_BOOL = _Kind(wire.read_u8, wire.encode_u8, True, 1)
_U16 = _Kind(wire.read_u16, wire.encode_u16, True, 0xFFFF)
_U32 = _Kind(wire.read_u32, wire.encode_u32, True, 0xFFFF_FFFF)
_VARINT = _Kind(wire.read_varint, _write_varint, True, wire.MAX_VARINT)
_UTF8 = _Kind(wire.read_utf8, wire.encode_utf8, False)
_BINARY = _Kind(wire.read_binary, wire.encode_binary, False)
_PAIR = _Kind(_read_pair, _write_pair, False)


class Property(NamedTuple):
    """One line of the table: identifier, name, data type, the packets that may carry it, the lowest legal number."""

    identifier: int
    name: str
    kind: _Kind
    packets: frozenset[str]
    lowest: int = 0


def _line(identifier: int, name: str, kind: _Kind, packets: str, lowest: int = 0) -> Property:
    return Property(identifier, name, kind, frozenset(packets.split()), lowest)


_ACKS = "Connack Puback Pubrec Pubrel Pubcomp Suback Unsuback Disconnect Auth"

TABLE = (
    _line(0x01, "payload_format_indicator", _BOOL, "Publish Will"),
    _line(0x02, "message_expiry_interval", _U32, "Publish Will"),
    _line(0x03, "content_type", _UTF8, "Publish Will"),
    _line(0x08, "response_topic", _UTF8, "Publish Will"),
    _line(0x09, "correlation_data", _BINARY, "Publish Will"),
    _line(0x0B, "subscription_identifier", _VARINT, "Publish Subscribe", 1),
    _line(0x11, "session_expiry_interval", _U32, "Connect Connack Disconnect"),
    _line(0x12, "assigned_client_identifier", _UTF8, "Connack"),
    _line(0x13, "server_keep_alive", _U16, "Connack"),
    _line(0x15, "authentication_method", _UTF8, "Connect Connack Auth"),
    _line(0x16, "authentication_data", _BINARY, "Connect Connack Auth"),
    _line(0x17, "request_problem_information", _BOOL, "Connect"),
    _line(0x18, "will_delay_interval", _U32, "Will"),
    _line(0x19, "request_response_information", _BOOL, "Connect"),
    _line(0x1A, "response_information", _UTF8, "Connack"),
    _line(0x1C, "server_reference", _UTF8, "Connack Disconnect"),
    _line(0x1F, "reason_string", _UTF8, _ACKS),
    _line(0x21, "receive_maximum", _U16, "Connect Connack", 1),
    _line(0x22, "topic_alias_maximum", _U16, "Connect Connack"),
    _line(0x23, "topic_alias", _U16, "Publish", 1),
    _line(0x24, "maximum_qos", _BOOL, "Connack"),
    _line(0x25, "retain_available", _BOOL, "Connack"),
    _line(0x26, "user_property", _PAIR, f"Connect Will Publish Subscribe Unsubscribe {_ACKS}"),
    _line(0x27, "maximum_packet_size", _U32, "Connect Connack", 1),
    _line(0x28, "wildcard_subscription_available", _BOOL, "Connack"),
    _line(0x29, "subscription_identifier_available", _BOOL, "Connack"),
    _line(0x2A, "shared_subscription_available", _BOOL, "Connack"),
)
"""Table 2-4 of section 2.2.2.2."""

_CHECKED = frozenset(line.name for line in TABLE if line.kind.numeric) | {"response_topic"}
BY_NAME = {line.name: line for line in TABLE}


def repeatable(name: str, packet: str) -> bool:
    """Whether the packet may carry the property more than once, so that its value is a list."""
    return name == "user_property" or (name == "subscription_identifier" and packet == "Publish")


REPEATED_MOST = 1000
"""Most user properties, or subscription identifiers, of one packet. Without a bound a packet of 10 MB holds two million
empty ones, and decoding them takes two seconds."""

_LEGAL = {
    packet: {
        line.identifier: (line.name, line.kind.read, line, repeatable(line.name, packet), line.name in _CHECKED)
        for line in TABLE
        if packet in line.packets
    }
    for packet in sorted({packet for line in TABLE for packet in line.packets})
}
"""Packet -> identifier -> what decoding needs: name, reader, line, whether repeatable, whether values are checked."""


def decode_properties(data: bytes, pos: int, end: int, packet: str) -> tuple[Properties | None, int]:
    """The property block at `pos`, its length included -> (properties or None, the position after the block).

    Raises `MalformedPacket` for a block that cannot be parsed and for properties of other packets, `ProtocolError` for
    repeated properties and forbidden values.
    """
    length, pos = wire.read_varint(data, pos, end, "the property length")
    stop = pos + length
    if stop > end:
        raise MalformedPacket("the property length exceeds the packet")
    properties: Properties = {}
    legal = _LEGAL[packet]
    while pos < stop:
        identifier = data[pos]  # every identifier fits into one byte
        if identifier not in legal:  # section 2.2.2.2
            raise MalformedPacket(f"property 0x{identifier:02X} does not belong into {packet.upper()}")
        name, read, line, many, checked = legal[identifier]
        value, pos = read(data, pos + 1, stop, name)
        if checked:
            _check(line, value)
        if many:
            values = properties.setdefault(name, [])
            values.append(value)
            if len(values) > REPEATED_MOST:
                what = f"more than {REPEATED_MOST} times {name} in {packet.upper()}"
                raise ProtocolError(what, ReasonCode.QUOTA_EXCEEDED)
        elif name in properties:
            raise ProtocolError(f"{name} stands more than once in {packet.upper()}")
        else:
            properties[name] = value
    _check_together(properties, packet)
    return properties or None, stop


def encode_properties(properties: Properties | None, packet: str) -> bytes:
    r"""The property block with its length, `b"\0"` for none [MQTT5-2.2.2-1]; `ValueError` for illegal content."""
    if not properties:
        return b"\0"
    out = bytearray()
    for name, value in properties.items():
        line = BY_NAME.get(name)
        if line is None or packet not in line.packets:
            raise ValueError(f"{packet.upper()} has no property {name!r}")
        if not repeatable(name, packet):
            values = (value,)
        elif isinstance(value, list | tuple):
            values = tuple(value)
        else:
            raise ValueError(f"{name} must be a list in {packet.upper()}, not {value!r}")
        for one in values:
            out.append(line.identifier)
            out += line.kind.write(one, name)
            _refuse_bad(line, one)
    try:
        _check_together(properties, packet)
    except WireError as error:
        raise ValueError(error.detail) from None
    return wire.encode_varint(len(out)) + out


def _refuse_bad(line: Property, value: Any) -> None:
    try:
        _check(line, value)
    except WireError as error:
        raise ValueError(error.detail) from None


def _check(line: Property, value: Any) -> None:
    """Check the rules for a single value: ranges of numbers, and the response topic."""
    if line.kind.numeric:
        if line.lowest <= value <= line.kind.highest:
            return
        # A topic alias of 0 has its own reason code [MQTT5-3.3.2-8].
        reason = ReasonCode.TOPIC_ALIAS_INVALID if line.name == "topic_alias" else ReasonCode.PROTOCOL_ERROR
        raise ProtocolError(f"{line.name} must not be {value}", reason)
    if line.name == "response_topic" and not valid_topic_name(value):
        raise ProtocolError("response_topic is no topic name")  # [MQTT5-3.3.2-14]


def _check_together(properties: Properties, packet: str) -> None:
    """Authentication data needs a method (3.1.2.11.10); the length of AUTH tells whether its method may be missing."""
    if "authentication_data" in properties and "authentication_method" not in properties:
        raise ProtocolError(f"authentication_data without authentication_method in {packet.upper()}")
