"""The packets of MQTT 3.1, 3.1.1 and 5.0 as plain values, the same classes for all versions.

`properties` is None when there are none (always so before 5.0), else a dict keyed by the standard's names in snake
case, see `properties.py`. `reason` fields hold plain integers: reason codes in 5.0, return codes in 3.1 and 3.1.1.
Packets are made in great numbers and hold no references to each other, so the garbage collector need not look at them.
"""

from __future__ import annotations

from typing import Any

import msgspec

Properties = dict[str, Any]


class Will(msgspec.Struct, gc=False):
    """The message that the server publishes when the connection ends without DISCONNECT (section 3.1.2.5)."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties | None = None


class Connect(msgspec.Struct, gc=False):
    """CONNECT, section 3.1. `version` is 3 (MQTT 3.1), 4 (3.1.1) or 5; `bridge` is bit 7 of the protocol level.

    `clean_start` is called Clean Session before 5.0; `keepalive_s` is in seconds, 0 for none.
    """

    client_id: str
    version: int = 4
    clean_start: bool = True
    keepalive_s: int = 0
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties | None = None
    bridge: bool = False


class Connack(msgspec.Struct, gc=False):
    """CONNACK, section 3.2; `reason` is the return code 0 to 5 before 5.0."""

    session_present: bool
    reason: int
    properties: Properties | None = None


class Publish(msgspec.Struct, gc=False):
    """PUBLISH, section 3.3; `packet_id` is 0 exactly when `qos` is 0."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties | None = None


class Puback(msgspec.Struct, gc=False):
    """PUBACK, section 3.4."""

    packet_id: int
    reason: int = 0
    properties: Properties | None = None


class Pubrec(msgspec.Struct, gc=False):
    """PUBREC, section 3.5."""

    packet_id: int
    reason: int = 0
    properties: Properties | None = None


class Pubrel(msgspec.Struct, gc=False):
    """PUBREL, section 3.6."""

    packet_id: int
    reason: int = 0
    properties: Properties | None = None


class Pubcomp(msgspec.Struct, gc=False):
    """PUBCOMP, section 3.7."""

    packet_id: int
    reason: int = 0
    properties: Properties | None = None


class SubscribeOptions(msgspec.Struct, gc=False):
    """One topic filter of a SUBSCRIBE with its options (section 3.8.3.1); before 5.0 only `qos` exists."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(msgspec.Struct, gc=False):
    """SUBSCRIBE, section 3.8."""

    packet_id: int
    subscriptions: list[SubscribeOptions]
    properties: Properties | None = None


class Suback(msgspec.Struct, gc=False):
    """SUBACK, section 3.9: one reason for each filter, in the order of the SUBSCRIBE."""

    packet_id: int
    reasons: list[int]
    properties: Properties | None = None


class Unsubscribe(msgspec.Struct, gc=False):
    """UNSUBSCRIBE, section 3.10."""

    packet_id: int
    filters: list[str]
    properties: Properties | None = None


class Unsuback(msgspec.Struct, gc=False):
    """UNSUBACK, section 3.11; before 5.0 it carries no reasons: they are not encoded, and decoded as an empty list."""

    packet_id: int
    reasons: list[int]
    properties: Properties | None = None


class Pingreq(msgspec.Struct, gc=False):
    """PINGREQ, section 3.12."""


class Pingresp(msgspec.Struct, gc=False):
    """PINGRESP, section 3.13."""


class Disconnect(msgspec.Struct, gc=False):
    """DISCONNECT, section 3.14; before 5.0 only clients send it, and it carries nothing."""

    reason: int = 0
    properties: Properties | None = None


class Auth(msgspec.Struct, gc=False):
    """AUTH, section 3.15, only in 5.0."""

    reason: int = 0
    properties: Properties | None = None


Packet = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
"""Any MQTT Control Packet."""
