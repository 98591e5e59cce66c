"""The times of an absence: expiry and will, each with the time that the cluster gives a client to come back."""

from __future__ import annotations

import pytest

from strogoff.broker.sessions.absence import NEVER, Absence, absence


@pytest.mark.parametrize(
    ("expiry_s", "delay_s", "grace_s", "expires_at", "will_at"),
    [
        (60, None, 0, 61_000, 0),
        (60, 0, 0, 61_000, 1_000),
        (60, 10, 0, 61_000, 11_000),
        (60, 100, 0, 61_000, 61_000),  # the session ends first [MQTT5-3.1.3-9]
        (60, 0, 5, 61_000, 6_000),
        (60, 10, 5, 61_000, 11_000),
        (2, 0, 5, 6_000, 6_000),
        (2, 9, 5, 6_000, 6_000),
        (NEVER, 100, 0, 0, 101_000),
        (NEVER, None, 5, 0, 0),
    ],
)
def test_when_will_and_session_are_due(
    expiry_s: int, delay_s: int | None, grace_s: int, expires_at: int, will_at: int
) -> None:
    found = absence(1_000, expiry_s, delay_s, grace_s, "n2")
    assert (found.expires_at, found.will_at, found.doubted) == (expires_at, will_at, "n2")
    assert found.excused_until == (1_000 + grace_s * 1000 if grace_s else 0)


def test_the_first_of_both_is_due() -> None:
    assert Absence().due_at is None
    assert Absence(expires_at=5).due_at == Absence(will_at=5).due_at == 5
    assert Absence(6, 5).due_at == Absence(5, 6).due_at == 5
