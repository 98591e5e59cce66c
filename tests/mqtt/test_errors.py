"""Errors carry the answer that the peer must get."""

from strogoff.mqtt.errors import MalformedPacket, ProtocolError, WireError
from strogoff.mqtt.reasons import ReasonCode


def test_default_reasons() -> None:
    """Section 4.13.1: 0x81 for what cannot be parsed, 0x82 for what must not be sent."""
    assert MalformedPacket("x").reason is ReasonCode.MALFORMED_PACKET
    assert ProtocolError("x").reason is ReasonCode.PROTOCOL_ERROR
    assert issubclass(MalformedPacket, WireError)
    assert issubclass(ProtocolError, WireError)


def test_own_reason_and_text() -> None:
    """A specific reason replaces the default, and the text names it."""
    error = ProtocolError("PUBLISH of 9 bytes", ReasonCode.PACKET_TOO_LARGE)
    assert error.reason == 0x95
    assert error.detail == "PUBLISH of 9 bytes"
    assert str(error) == "PUBLISH of 9 bytes (0x95 PACKET_TOO_LARGE)"
