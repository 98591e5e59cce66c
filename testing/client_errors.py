"""What can go wrong for a client under test, each with its own name."""

from __future__ import annotations

from ..mqtt.reasons import ConnectReturn, ReasonCode


class MqttError(Exception):
    """The base of all errors of a client under test."""


class MqttClosed(MqttError):
    """Something was asked of a client that is not in the state for it; the text says which."""


class ConnectionLost(MqttError, ConnectionError):
    """The connection ended before the answer came; whether the broker did what was asked is not known."""


class MqttRefused(MqttError):
    """The broker said no; `reason` is its code."""

    def __init__(self, text: str, reason: int) -> None:
        super().__init__(text)
        self.reason = reason


def refusal(what: str, reason: int, version: int) -> MqttRefused:
    """The error for a reason code; CONNECT before 5.0 has codes of its own."""
    codes = ReasonCode if version == 5 else ConnectReturn
    try:
        name = codes(reason).name.lower().replace("_", " ")
    except ValueError:
        name = "a code that the standard does not have"
    return MqttRefused(f"{what} was refused: {name} (0x{reason:02x})", reason)
