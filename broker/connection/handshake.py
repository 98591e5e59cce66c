"""The state that a connection has only from CONNECT to CONNACK, and its authentication (MQTT 5.0 section 4.12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...mqtt import packets


class Handshake:
    """The state from CONNECT to CONNACK (MQTT 5.0 sections 3.1 and 3.2).

    `packet` is the CONNECT with the changes of plugins. `message_limit` is the largest remaining length in bytes that
    the client may send; `window` is how many QoS 1 and 2 messages may be in flight to it; `expiry_s` is the session
    expiry interval in seconds. `waited_ms`: how long CONNECT had waited at the client's node when it came here;
    `came_at`: when that was, in cluster time in ms.
    """

    __slots__ = ("came_at", "expiry_s", "message_limit", "packet", "waited_ms", "window")

    def __init__(self, packet: packets.Connect, message_limit: int, came_at: int = 0, waited_ms: int = 0) -> None:
        self.packet = packet
        self.came_at = came_at
        self.waited_ms = waited_ms
        self.message_limit = message_limit
        self.window = 0
        self.expiry_s = 0


class Admission(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The decisions about a CONNECT before its registration: identity, modifiers of plugins, and limits in bytes.

    `auth_method` is set after enhanced authentication. `message_limit` and `packet_limit` are the largest remaining
    length that the client may send, and the largest packet that it takes (0: no limit).
    """

    mountpoint: str
    client_id: str
    username: str | None
    modifiers: dict[str, Any]
    auth_method: str | None
    message_limit: int
    packet_limit: int
    problem_information: bool


class Authentication:
    """Enhanced authentication (MQTT 5.0 section 4.12), which a client may repeat while it is connected.

    `method` is None if CONNECT named none; `begun` is True during an exchange of AUTH packets; `then` continues the
    handling of CONNECT after the first exchange.
    """

    __slots__ = ("begun", "method", "then")

    def __init__(self) -> None:
        self.method: str | None = None
        self.begun = False
        self.then: Callable[[], None] | None = None
