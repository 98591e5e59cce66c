"""The errors that a test's client raises."""

from __future__ import annotations

from ..mqtt.reasons import ConnectReturn, ReasonCode


class MqttError(Exception):
    """The base of all errors of a test's client."""


class MqttClosed(MqttError):
    """A method was called in the wrong state: the client is not connected, or is connected already."""


class ConnectionLost(MqttError, ConnectionError):
    """The connection ended before the answer came. The broker may or may not have done the request."""


class MqttRefused(MqttError):
    """The broker has refused a request; `reason` is its reason code."""

    def __init__(self, text: str, reason: int) -> None:
        super().__init__(text)
        self.reason = reason


def refusal(what: str, reason: int, version: int) -> MqttRefused:
    """Returns the error for a reason code. Any `version` before 5 means a return code of CONNACK."""
    return MqttRefused(f"{what} was refused: {reason_text(reason, version)}", reason)


def reason_text(reason: int, version: int = 5) -> str:
    """Returns the standard's name of a reason code, and its number; `version` as in `refusal`."""
    codes = ReasonCode if version == 5 else ConnectReturn
    try:
        name = codes(reason).name.lower().replace("_", " ")
    except ValueError:
        name = "a code that the standard does not have"
    return f"{name} (0x{reason:02x})"
