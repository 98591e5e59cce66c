"""Errors of the client: each names the refused operation and the standard's name of the code."""

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
def test_the_text_of_an_error(reason: int, version: int, text: str) -> None:
    """CONNACK before 5.0 has codes of its own."""
    error = refusal("CONNECT", reason, version)
    assert (str(error), error.reason) == (text, reason)


def test_all_errors_have_one_base_class() -> None:
    """For callers that handle all errors alike."""
    assert all(issubclass(kind, MqttError) for kind in (ConnectionLost, MqttClosed, MqttRefused))
    assert issubclass(ConnectionLost, ConnectionError)
