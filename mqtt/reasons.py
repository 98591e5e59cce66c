"""Reason codes of MQTT 5.0 (section 2.4) with the packets that carry them, and the return codes of 3.1 and 3.1.1."""

from __future__ import annotations

from enum import IntEnum


class ReasonCode(IntEnum):
    """Every reason code of MQTT 5.0 under its standard name; 0x80 and above are failures (section 2.4).

    Zero has three names: `SUCCESS`, and the aliases `NORMAL_DISCONNECTION` and `GRANTED_QOS_0`.
    """

    SUCCESS = 0x00
    NORMAL_DISCONNECTION = 0x00
    GRANTED_QOS_0 = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL_MESSAGE = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


class ConnectReturn(IntEnum):
    """The return codes of a CONNACK in MQTT 3.1 and 3.1.1 (3.1.1 section 3.2.2.3)."""

    ACCEPTED = 0
    UNACCEPTABLE_PROTOCOL_VERSION = 1
    IDENTIFIER_REJECTED = 2
    SERVER_UNAVAILABLE = 3
    BAD_USER_NAME_OR_PASSWORD = 4
    NOT_AUTHORIZED = 5


_PUBLISH_ANSWERS = frozenset((0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99))
_RELEASE_ANSWERS = frozenset((0x00, 0x92))
_BOTH_DISCONNECT = (0x00, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99)
# 0x8C stands for DISCONNECT in section 2.4 only: it ends a re-authentication that failed (4.12.1).
_SERVER_DISCONNECT = (0x87, 0x89, 0x8B, 0x8C, 0x8D, 0x8E, 0x8F, *range(0x9A, 0xA3))

ALLOWED: dict[str, frozenset[int]] = {
    "Connack": frozenset((0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F)),
    "Puback": _PUBLISH_ANSWERS,
    "Pubrec": _PUBLISH_ANSWERS,
    "Pubrel": _RELEASE_ANSWERS,
    "Pubcomp": _RELEASE_ANSWERS,
    "Suback": frozenset((0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2)),
    "Unsuback": frozenset((0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)),
    "Disconnect": frozenset((0x04, *_BOTH_DISCONNECT, *_SERVER_DISCONNECT)),
    "Auth": frozenset((0x00, 0x18, 0x19)),
}
"""Packet (the name of its class) -> the v5 reason codes that it may carry, from a client or a server."""

FROM_CLIENT: dict[str, frozenset[int]] = {
    "Disconnect": frozenset((0x04, *_BOTH_DISCONNECT)),
    "Auth": frozenset((0x18, 0x19)),
}
"""The codes that a client may send, for the two packets whose codes depend on the sender (3.14.2.1, 3.15.2.1)."""

FROM_SERVER: dict[str, frozenset[int]] = {
    "Disconnect": frozenset((*_BOTH_DISCONNECT, *_SERVER_DISCONNECT)),
    "Auth": frozenset((0x00, 0x18)),
}
"""The codes that a server may send, for the same two packets."""

V3_SUBACK = frozenset((0x00, 0x01, 0x02, 0x80))
"""The return codes of a SUBACK in MQTT 3.1 and 3.1.1 [MQTT-3.9.3-2]."""

_RETURNS: dict[int, ConnectReturn] = {
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: ConnectReturn.UNACCEPTABLE_PROTOCOL_VERSION,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: ConnectReturn.IDENTIFIER_REJECTED,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: ConnectReturn.BAD_USER_NAME_OR_PASSWORD,
    ReasonCode.NOT_AUTHORIZED: ConnectReturn.NOT_AUTHORIZED,
    ReasonCode.BANNED: ConnectReturn.NOT_AUTHORIZED,
    ReasonCode.BAD_AUTHENTICATION_METHOD: ConnectReturn.NOT_AUTHORIZED,
    ReasonCode.TOPIC_NAME_INVALID: ConnectReturn.NOT_AUTHORIZED,
    ReasonCode.PAYLOAD_FORMAT_INVALID: ConnectReturn.NOT_AUTHORIZED,
    ReasonCode.RETAIN_NOT_SUPPORTED: ConnectReturn.NOT_AUTHORIZED,
    ReasonCode.QOS_NOT_SUPPORTED: ConnectReturn.NOT_AUTHORIZED,
}


def connect_return_for(reason: int) -> ConnectReturn:
    """Returns the v3 return code that is nearest to a v5 CONNACK reason.

    Success codes are 0; refusals of what the client asked for are 5 (trying again is pointless); the rest is 3.
    """
    if reason < 0x80:
        return ConnectReturn.ACCEPTED
    return _RETURNS.get(reason, ConnectReturn.SERVER_UNAVAILABLE)
