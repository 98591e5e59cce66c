"""Packets -> bytes, for both roles and all versions; the frames of the hot path (`frames.py`) are exported here too.

Illegal values raise `ValueError`. `Decoder` accepts every packet that this module has encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import msgspec

from . import wire
from .connect import encode_connect
from .frames import (
    PACKET_IDS,
    PINGREQ,
    PINGRESP,
    puback_frame,
    pubcomp_frame,
    publish_head,
    pubrec_frame,
    pubrel_frame,
)
from .packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscribeOptions,
    Unsuback,
    Unsubscribe,
)
from .properties import encode_properties
from .reasons import ALLOWED, V3_SUBACK
from .topics import SHARE, valid_filter, valid_topic_name

__all__ = [
    "PACKET_IDS",
    "PINGREQ",
    "PINGRESP",
    "encode",
    "puback_frame",
    "pubcomp_frame",
    "publish_head",
    "pubrec_frame",
    "pubrel_frame",
]


@overload
def encode(packet: Packet, version: int) -> bytes: ...


@overload
def encode(packet: Packet, version: int, max_packet_size: int | None) -> bytes | None: ...


def encode(packet: Packet, version: int, max_packet_size: int | None = None) -> bytes | None:
    """The bytes of a packet for a connection of version 3, 4 or 5; a CONNECT is encoded in its own version.

    `max_packet_size` is the receiver's Maximum Packet Size: bytes of the whole packet. A larger one loses its user
    properties, then its reason string, where they are diagnostic (not in PUBLISH, CONNECT and SUBSCRIBE). Returns None
    for a packet that is still too large; the caller must not send it [MQTT5-3.1.2-24] [MQTT5-3.2.2-15].
    """
    if version not in (3, 4, 5):
        raise ValueError(f"unknown MQTT version {version}")
    frame = _frame(packet, version)
    if max_packet_size is None or len(frame) <= max_packet_size:
        return frame
    if version == 5:
        for smaller in _without_diagnostics(packet):
            frame = _frame(smaller, version)
            if len(frame) <= max_packet_size:
                return frame
    return None


def _frame(packet: Packet, version: int) -> bytes:
    try:
        encoder = _ENCODERS[type(packet)]
    except KeyError:
        raise ValueError(f"not a packet: {type(packet).__name__}") from None
    first, body = encoder(packet, version)
    if len(body) > wire.MAX_VARINT:
        raise ValueError(f"a packet of {len(body)} bytes is larger than MQTT can carry")
    return bytes((first,)) + wire.encode_varint(len(body)) + body


_DIAGNOSED = (Connack, Puback, Pubrec, Pubrel, Pubcomp, Suback, Unsuback, Disconnect, Auth)


def _without_diagnostics(packet: Packet) -> Iterable[Packet]:
    """The packet without its user properties, then also without its reason string.

    A sender must omit them if they make the packet too large: [MQTT5-3.2.2-19] [MQTT5-3.2.2-20] [MQTT5-3.4.2-2]
    [MQTT5-3.4.2-3] [MQTT5-3.5.2-2] [MQTT5-3.5.2-3] [MQTT5-3.6.2-2] [MQTT5-3.6.2-3] [MQTT5-3.7.2-2] [MQTT5-3.7.2-3]
    [MQTT5-3.9.2-1] [MQTT5-3.9.2-2] [MQTT5-3.11.2-1] [MQTT5-3.11.2-2] [MQTT5-3.14.2-3] [MQTT5-3.14.2-4]
    [MQTT5-3.15.2-2] [MQTT5-3.15.2-3].
    """
    if not isinstance(packet, _DIAGNOSED) or not packet.properties:
        return
    kept = packet.properties
    for name in ("user_property", "reason_string"):
        if name in kept:
            kept = {key: value for key, value in kept.items() if key != name}
            yield msgspec.structs.replace(packet, properties=kept)


def _packet_id(packet_id: int) -> bytes:
    if not 0 < packet_id < 65_536:  # [MQTT-2.3.1-1] [MQTT5-2.2.1-3] [MQTT5-2.2.1-4]
        raise ValueError(f"packet identifier {packet_id}")
    return PACKET_IDS[packet_id]


def _block(properties: Properties | None, packet: str, version: int) -> bytes:
    """The property block of 5.0; empty before 5.0. Raises ValueError for properties before 5.0."""
    if version == 5:
        return encode_properties(properties, packet)
    if properties:
        raise ValueError(f"{packet.upper()} has properties only in MQTT 5.0")
    return b""


def _check_reason(packet: str, reason: int) -> None:
    if reason not in ALLOWED[packet]:
        raise ValueError(f"reason code 0x{reason:02X} in {packet.upper()}")


def _connect(packet: Connect, version: int) -> tuple[int, bytes]:
    if packet.version != version:
        raise ValueError(f"a CONNECT of version {packet.version} on a connection of version {version}")
    return 0x10, encode_connect(packet)


def _connack(packet: Connack, version: int) -> tuple[int, bytes]:
    if version == 5:
        _check_reason("Connack", packet.reason)  # [MQTT5-3.2.2-8]
    elif not 0 <= packet.reason <= 5:
        raise ValueError(f"return code {packet.reason} in CONNACK")
    if packet.session_present and packet.reason:
        raise ValueError("session present in a refusal")  # [MQTT-3.2.2-4] [MQTT5-3.2.2-6]
    flag = packet.session_present and version != 3  # 3.1 has no such flag
    return 0x20, bytes((flag, packet.reason)) + _block(packet.properties, "Connack", version)


def _publish(packet: Publish, version: int) -> tuple[int, bytes]:
    qos, properties = packet.qos, packet.properties
    if qos not in (0, 1, 2) or (packet.dup and not qos):  # [MQTT-3.3.1-2] [MQTT-3.3.1-4]
        raise ValueError(f"no PUBLISH with QoS {qos}{' and DUP' * packet.dup}")
    aliased = version == 5 and not packet.topic and "topic_alias" in (properties or ())
    if not aliased and not valid_topic_name(packet.topic):  # [MQTT-3.3.2-1] [MQTT-3.3.2-2] [MQTT-4.7.3-1]
        raise ValueError(f"not a topic name: {packet.topic[:100]!r}")
    if not qos and packet.packet_id:
        raise ValueError("a packet identifier in a PUBLISH of QoS 0")  # [MQTT-2.3.1-5] [MQTT5-2.2.1-2]
    identifier = _packet_id(packet.packet_id) if qos else b""
    first = 0x30 | qos << 1 | 8 * packet.dup | packet.retain
    block = _block(properties, "Publish", version)
    return first, wire.encode_utf8(packet.topic, "topic") + identifier + block + packet.payload


def _answer(packet: Puback | Pubrec | Pubrel | Pubcomp, version: int) -> tuple[int, bytes]:
    name = type(packet).__name__
    body = _packet_id(packet.packet_id)
    if version < 5:
        if packet.reason or packet.properties:
            raise ValueError(f"{name.upper()} has a reason code and properties only in MQTT 5.0")
        return _FIRST_BYTES[name], body
    _check_reason(name, packet.reason)  # [MQTT5-3.4.2-1] [MQTT5-3.5.2-1] [MQTT5-3.6.2-1] [MQTT5-3.7.2-1]
    return _FIRST_BYTES[name], body + _tail(name, packet.reason, packet.properties)


_FIRST_BYTES = {"Puback": 0x40, "Pubrec": 0x50, "Pubrel": 0x62, "Pubcomp": 0x70}


def _tail(name: str, reason: int, properties: Properties | None) -> bytes:
    """Reason code and properties in their shortest form: nothing for plain success (3.4.2.1, 3.14.2.1, 3.15.2.1)."""
    block = encode_properties(properties, name)
    if block != b"\0":
        return bytes((reason,)) + block
    return bytes((reason,)) if reason else b""


def _subscribe(packet: Subscribe, version: int) -> tuple[int, bytes]:
    if not packet.subscriptions:
        raise ValueError("SUBSCRIBE without a topic filter")  # [MQTT-3.8.3-3] [MQTT5-3.8.3-2]
    body = _packet_id(packet.packet_id) + _block(packet.properties, "Subscribe", version)
    return 0x82, body + b"".join(_filter(one.filter) + _options(one, version) for one in packet.subscriptions)


def _filter(filter: str) -> bytes:
    if not valid_filter(filter):
        raise ValueError(f"not a topic filter: {filter[:100]!r}")
    return wire.encode_utf8(filter, "topic filter")


def _options(one: SubscribeOptions, version: int) -> bytes:
    if one.qos not in (0, 1, 2) or one.retain_handling not in (0, 1, 2):
        raise ValueError(f"subscription with QoS {one.qos}, retain handling {one.retain_handling}")
    if version < 5 and (one.no_local or one.retain_as_published or one.retain_handling):
        raise ValueError("subscription options other than QoS exist only in MQTT 5.0")  # [MQTT-3.8.3-4]
    if one.no_local and one.filter.startswith(SHARE):
        raise ValueError("no local on a shared subscription")  # [MQTT5-3.8.3-4]
    return bytes((one.qos | 4 * one.no_local | 8 * one.retain_as_published | one.retain_handling << 4,))


def _suback(packet: Suback, version: int) -> tuple[int, bytes]:
    legal = ALLOWED["Suback"] if version == 5 else V3_SUBACK  # [MQTT-3.9.3-2] [MQTT5-3.9.3-2]
    if not packet.reasons or not legal.issuperset(packet.reasons):
        raise ValueError(f"reason codes of SUBACK missing or unknown: {packet.reasons}")
    return 0x90, _packet_id(packet.packet_id) + _block(packet.properties, "Suback", version) + bytes(packet.reasons)


def _unsubscribe(packet: Unsubscribe, version: int) -> tuple[int, bytes]:
    if not packet.filters:
        raise ValueError("UNSUBSCRIBE without a topic filter")  # [MQTT-3.10.3-2] [MQTT5-3.10.3-2]
    body = _packet_id(packet.packet_id) + _block(packet.properties, "Unsubscribe", version)
    return 0xA2, body + b"".join(map(_filter, packet.filters))


def _unsuback(packet: Unsuback, version: int) -> tuple[int, bytes]:
    body = _packet_id(packet.packet_id) + _block(packet.properties, "Unsuback", version)
    if version < 5:
        return 0xB0, body
    if not packet.reasons or not ALLOWED["Unsuback"].issuperset(packet.reasons):  # [MQTT5-3.11.3-2]
        raise ValueError(f"reason codes of UNSUBACK missing or unknown: {packet.reasons}")
    return 0xB0, body + bytes(packet.reasons)


def _disconnect(packet: Disconnect, version: int) -> tuple[int, bytes]:
    if version < 5:
        if packet.reason or packet.properties:
            raise ValueError("DISCONNECT has a reason code and properties only in MQTT 5.0")
        return 0xE0, b""
    _check_reason("Disconnect", packet.reason)  # [MQTT5-3.14.2-1]
    return 0xE0, _tail("Disconnect", packet.reason, packet.properties)


def _auth(packet: Auth, version: int) -> tuple[int, bytes]:
    if version < 5:
        raise ValueError("AUTH exists only in MQTT 5.0")
    _check_reason("Auth", packet.reason)  # [MQTT5-3.15.2-1]
    tail = _tail("Auth", packet.reason, packet.properties)
    if tail and (not packet.properties or "authentication_method" not in packet.properties):
        raise ValueError("AUTH without authentication_method")  # 3.15.2.2.2
    return 0xF0, tail


_ENCODERS: dict[type, Callable[[Any, int], tuple[int, bytes]]] = {
    Connect: _connect,
    Connack: _connack,
    Publish: _publish,
    Puback: _answer,
    Pubrec: _answer,
    Pubrel: _answer,
    Pubcomp: _answer,
    Subscribe: _subscribe,
    Suback: _suback,
    Unsubscribe: _unsubscribe,
    Unsuback: _unsuback,
    Pingreq: lambda packet, version: (0xC0, b""),
    Pingresp: lambda packet, version: (0xD0, b""),
    Disconnect: _disconnect,
    Auth: _auth,
}
