"""Errors of the decoder: the peer violated the standard. Each error has the reason code of the answer."""

from __future__ import annotations

from .reasons import ReasonCode


class WireError(Exception):
    """The peer violated the standard; the receiver must close the connection (MQTT 5.0 section 4.13).

    `reason` is the reason code of CONNACK or DISCONNECT for a v5 peer. A v3 peer is closed; for its CONNECT see
    `connect_return_for`. `detail` describes the error for the log.
    """

    default = ReasonCode.UNSPECIFIED_ERROR

    def __init__(self, detail: str, reason: ReasonCode | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.reason = self.default if reason is None else reason

    def __str__(self) -> str:
        return f"{self.detail} (0x{self.reason:02X} {self.reason.name})"


class MalformedPacket(WireError):
    """The bytes cannot be parsed as the standard says (MQTT 5.0 section 1.2, Malformed Packet)."""

    default = ReasonCode.MALFORMED_PACKET


class ProtocolError(WireError):
    """The packet can be parsed, but must not be sent, or not now (MQTT 5.0 section 1.2, Protocol Error)."""

    default = ReasonCode.PROTOCOL_ERROR
