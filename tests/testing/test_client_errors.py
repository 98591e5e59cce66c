"""Errors of the client: each says what was refused and by which name the standard has for the code."""

from __future__ import annotations

import pytest

from strogoff.testing.client_errors import ConnectionLost, MqttClosed, MqttError, MqttRefused, refusal


@pytest.mark.parametrize(
    ("reason", "version", "text"),
    [
        (0x87, 5, "CONNECT was refused: not authorized (0x87)"),
        (0x05, 4, "CONNECT was refused: not authorized (0x05)"),
        (0xEE, 5, "CONNECT was refused: a code that the standard does not have (0xee)"),
    ],
)
def test_the_words(reason: int, version: int, text: str) -> None:
    """CONNACK before 5.0 has codes of its own."""
    error = refusal("CONNECT", reason, version)
    assert (str(error), error.reason) == (text, reason)


def test_one_base() -> None:
    """For those who do not care which."""
    assert all(issubclass(kind, MqttError) for kind in (ConnectionLost, MqttClosed, MqttRefused))
    assert issubclass(ConnectionLost, ConnectionError)
