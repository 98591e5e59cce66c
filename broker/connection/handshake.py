"""What only the handshake of a connection needs, from CONNECT to CONNACK (MQTT 5.0 sections 3.1 and 3.2)."""

from __future__ import annotations

from collections.abc import Callable

from ...mqtt import packets


class Handshake:
    """`packet` is the CONNECT as plugins changed it. `message_limit` are the bytes of the largest packet that the
    client may send, `window` the QoS 1 and 2 messages in flight that it takes, `expiry_s` the session's expiry."""

    __slots__ = ("expiry_s", "message_limit", "packet", "window")

    def __init__(self, packet: packets.Connect, message_limit: int) -> None:
        self.packet = packet
        self.message_limit = message_limit
        self.window = 0
        self.expiry_s = 0


class Authentication:
    """Enhanced authentication (MQTT 5.0 section 4.12), which a client may repeat while it is connected.

    `method` is None where CONNECT named none; `begun` is True while an exchange of AUTH packets goes on; `then` goes on
    with CONNECT after the first.
    """

    __slots__ = ("begun", "method", "then")

    def __init__(self) -> None:
        self.method: str | None = None
        self.begun = False
        self.then: Callable[[], None] | None = None
