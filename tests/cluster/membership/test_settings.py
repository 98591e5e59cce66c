"""Times that contradict each other are refused."""

from __future__ import annotations

import pytest

from strogoff.cluster.membership.settings import Settings


def test_the_numbers_of_the_design() -> None:
    settings = Settings()
    assert settings.expiry_ms == pytest.approx(1870)
    assert (settings.hearing_ms, settings.parting_ms) == (1000, 425)
    assert settings.detection_ms == 2000


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"detection_ms": 1600}, "detection_ms 1600: below the 1870"),
        ({"heartbeat_ms": 600}, "heartbeat_ms 600"),
        ({"heartbeat_ms": 0}, "heartbeat_ms 0"),
        ({"drift": 0.9}, "drift 0.9"),
    ],
)
def test_contradictions(settings: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Settings(**settings)
