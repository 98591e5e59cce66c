"""Reading the bodies of all packets but CONNECT (`connect.py`) and PUBLISH (on the hot path of `decoder.py`).

Each reader takes `(data, pos, end, version, role)` where `data[pos:end]` is everything after the fixed header, whose
flags and length were checked before; `role` is the receiver's. It must consume the body exactly.
"""

from __future__ import annotations

from collections.abc import Callable

from . import wire
from .errors import MalformedPacket, ProtocolError
from .packets import (
    Auth,
    Connack,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscribeOptions,
    Unsuback,
    Unsubscribe,
)
from .properties import decode_properties
from .reasons import ALLOWED, FROM_CLIENT, FROM_SERVER, V3_SUBACK, ReasonCode
from .topics import SHARE, valid_filter

Reader = Callable[[bytes, int, int, int, str], Packet]
FilterReader = Callable[[bytes, int, int, int, int], Subscribe | Unsubscribe]
Answer = type[Puback] | type[Pubrec] | type[Pubrel] | type[Pubcomp]


def _packet_id(data: bytes, pos: int, end: int) -> tuple[int, int]:
    packet_id, pos = wire.read_u16(data, pos, end, "the packet identifier")
    if not packet_id:  # [MQTT-2.3.1-1] [MQTT5-2.2.1-3] [MQTT5-2.2.1-4]
        raise MalformedPacket("packet identifier 0")
    return packet_id, pos


def _reason(name: str, reason: int, role: str) -> int:
    """Check that the sender of the packet may use this reason code, and return it (section 2.4)."""
    narrower = FROM_CLIENT if role == "server" else FROM_SERVER
    if reason not in narrower.get(name, ALLOWED[name]):
        # A code of this packet that only the other side may send, or no code of this packet.
        error = ProtocolError if reason in ALLOWED[name] else MalformedPacket
        raise error(f"reason code 0x{reason:02X} in {name.upper()}")
    return reason


def _done(pos: int, end: int, name: str) -> None:
    if pos != end:
        raise MalformedPacket(f"{end - pos} bytes too many in {name.upper()}")


def _connack(data: bytes, pos: int, end: int, version: int, role: str) -> Connack:
    flags, pos = wire.read_u8(data, pos, end, "the connect acknowledge flags")
    reason, pos = wire.read_u8(data, pos, end, "the connect return code")
    properties: Properties | None = None
    if version == 5:
        _reason("Connack", reason, role)  # [MQTT5-3.2.2-8]
        properties, pos = decode_properties(data, pos, end, "Connack")
    elif reason > 5:
        raise MalformedPacket(f"return code {reason} in CONNACK")
    _done(pos, end, "Connack")
    if version == 3:
        return Connack(False, reason)  # that byte is reserved and unused in 3.1
    if flags > 1:
        raise MalformedPacket("reserved connect acknowledge flags are set")  # [MQTT5-3.2.2-1]
    if flags and reason:
        raise ProtocolError("session present in a refusal")  # [MQTT-3.2.2-4] [MQTT5-3.2.2-6]
    return Connack(flags == 1, reason, properties)


def _answer(kind: Answer) -> Reader:
    name = kind.__name__

    def read(data: bytes, pos: int, end: int, version: int, role: str) -> Packet:
        packet_id, pos = _packet_id(data, pos, end)
        if pos == end:
            return kind(packet_id)  # no reason code: success (3.4.2.1)
        reason, pos = wire.read_u8(data, pos, end, "the reason code")
        _reason(name, reason, role)  # [MQTT5-3.4.2-1] [MQTT5-3.5.2-1] [MQTT5-3.6.2-1] [MQTT5-3.7.2-1]
        if pos == end:
            return kind(packet_id, reason)  # no property length: no properties (3.4.2.2.1)
        properties, pos = decode_properties(data, pos, end, name)
        _done(pos, end, name)
        return kind(packet_id, reason, properties)

    return read


def _subscribe(data: bytes, pos: int, end: int, version: int, max_filters: int) -> Subscribe:
    packet_id, pos = _packet_id(data, pos, end)
    properties: Properties | None = None
    if version == 5:
        properties, pos = decode_properties(data, pos, end, "Subscribe")
    if pos == end:
        raise ProtocolError("SUBSCRIBE without a topic filter")  # [MQTT-3.8.3-3] [MQTT5-3.8.3-2]
    subscriptions = []
    while pos < end:
        filter, pos = _filter(data, pos, end)
        options, pos = wire.read_u8(data, pos, end, "the subscription options")
        subscriptions.append(_options(filter, options, version))
        if len(subscriptions) > max_filters > 0:
            raise _too_many("SUBSCRIBE", max_filters)
    return Subscribe(packet_id, subscriptions, properties)


def _too_many(name: str, max_filters: int) -> ProtocolError:
    return ProtocolError(f"{name} with more than {max_filters} topic filters", ReasonCode.QUOTA_EXCEEDED)


def _filter(data: bytes, pos: int, end: int) -> tuple[str, int]:
    # [MQTT-3.8.3-1] [MQTT5-3.8.3-1] [MQTT-3.10.3-1] [MQTT5-3.10.3-1]
    filter, pos = wire.read_utf8(data, pos, end, "the topic filter")
    if not valid_filter(filter):  # [MQTT-4.7.1-2] [MQTT-4.7.1-3] [MQTT-4.7.3-1] [MQTT5-4.8.2-1] [MQTT5-4.8.2-2]
        raise MalformedPacket("the topic filter is not well formed")
    return filter, pos


def _options(filter: str, options: int, version: int) -> SubscribeOptions:
    if options & (0xC0 if version == 5 else 0xFC):  # [MQTT-3.8.3-4] [MQTT5-3.8.3-5]
        raise MalformedPacket("reserved subscription options are set")
    qos, no_local, retain_handling = options & 3, options & 4 != 0, options >> 4 & 3
    if qos == 3:  # [MQTT-3.8.3-4]; a Protocol Error in 5.0 (3.8.3.1)
        raise (ProtocolError if version == 5 else MalformedPacket)("maximum QoS 3 in SUBSCRIBE")
    if retain_handling == 3:
        raise ProtocolError("retain handling 3 in SUBSCRIBE")
    if no_local and filter.startswith(SHARE):
        raise ProtocolError("no local on a shared subscription")  # [MQTT5-3.8.3-4]
    return SubscribeOptions(filter, qos, no_local, options & 8 != 0, retain_handling)


def _suback(data: bytes, pos: int, end: int, version: int, role: str) -> Suback:
    packet_id, pos = _packet_id(data, pos, end)
    properties: Properties | None = None
    if version == 5:
        properties, pos = decode_properties(data, pos, end, "Suback")
    reasons = list(data[pos:end])
    legal = ALLOWED["Suback"] if version == 5 else V3_SUBACK  # [MQTT5-3.9.3-2] [MQTT-3.9.3-2]
    if not reasons or not legal.issuperset(reasons):
        raise MalformedPacket("reason codes of SUBACK missing or unknown")
    return Suback(packet_id, reasons, properties)


def _unsubscribe(data: bytes, pos: int, end: int, version: int, max_filters: int) -> Unsubscribe:
    packet_id, pos = _packet_id(data, pos, end)
    properties: Properties | None = None
    if version == 5:
        properties, pos = decode_properties(data, pos, end, "Unsubscribe")
    if pos == end:
        raise ProtocolError("UNSUBSCRIBE without a topic filter")  # [MQTT-3.10.3-2] [MQTT5-3.10.3-2]
    filters = []
    while pos < end:
        filter, pos = _filter(data, pos, end)
        filters.append(filter)
        if len(filters) > max_filters > 0:
            raise _too_many("UNSUBSCRIBE", max_filters)
    return Unsubscribe(packet_id, filters, properties)


def _unsuback(data: bytes, pos: int, end: int, version: int, role: str) -> Unsuback:
    packet_id, pos = _packet_id(data, pos, end)
    if version < 5:
        return Unsuback(packet_id, [])
    properties, pos = decode_properties(data, pos, end, "Unsuback")
    reasons = list(data[pos:end])
    if not reasons or not ALLOWED["Unsuback"].issuperset(reasons):  # [MQTT5-3.11.3-2]
        raise MalformedPacket("reason codes of UNSUBACK missing or unknown")
    return Unsuback(packet_id, reasons, properties)


def _pingreq(data: bytes, pos: int, end: int, version: int, role: str) -> Pingreq:
    return Pingreq()


def _pingresp(data: bytes, pos: int, end: int, version: int, role: str) -> Pingresp:
    return Pingresp()


def _disconnect(data: bytes, pos: int, end: int, version: int, role: str) -> Disconnect:
    if pos == end:
        return Disconnect()
    reason, pos = wire.read_u8(data, pos, end, "the reason code")
    _reason("Disconnect", reason, role)  # [MQTT5-3.14.2-1]
    if pos == end:
        return Disconnect(reason)  # no property length: no properties (3.14.2.2.1)
    properties, pos = decode_properties(data, pos, end, "Disconnect")
    _done(pos, end, "Disconnect")
    if role == "client" and properties and "session_expiry_interval" in properties:
        raise ProtocolError("session_expiry_interval in a DISCONNECT of the server")  # [MQTT5-3.14.2-2]
    return Disconnect(reason, properties)


def _auth(data: bytes, pos: int, end: int, version: int, role: str) -> Auth:
    if pos == end:
        _reason("Auth", 0, role)
        return Auth()  # success without properties may be sent empty (3.15.2.1)
    reason, pos = wire.read_u8(data, pos, end, "the reason code")
    _reason("Auth", reason, role)  # [MQTT5-3.15.2-1]
    properties, pos = decode_properties(data, pos, end, "Auth")
    _done(pos, end, "Auth")
    if properties is None or "authentication_method" not in properties:
        raise ProtocolError("AUTH without authentication_method")  # 3.15.2.2.2
    return Auth(reason, properties)


READERS: dict[int, Reader] = {
    2: _connack,
    4: _answer(Puback),
    5: _answer(Pubrec),
    6: _answer(Pubrel),
    7: _answer(Pubcomp),
    9: _suback,
    11: _unsuback,
    12: _pingreq,
    13: _pingresp,
    14: _disconnect,
    15: _auth,
}
"""Packet type (bits 7 to 4 of the first byte, section 2.1.2) -> the reader of its body."""

FILTER_READERS: dict[int, FilterReader] = {8: _subscribe, 10: _unsubscribe}
"""The readers of the packets that hold topic filters; their last argument is the most filters, 0 for no limit."""
