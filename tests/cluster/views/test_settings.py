"""Times that contradict each other are refused."""

from __future__ import annotations

import pytest

from strogoff.cluster.views.settings import Settings


def test_the_numbers_of_the_design() -> None:
    settings = Settings()
    assert (settings.expiry_ms, settings.hearing_ms, settings.parting_ms) == (2200, 1000, 500)
    assert settings.detection_ms == 2500


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"detection_ms": 2100}, "detection_ms 2100: below the 2200"),
        ({"heartbeat_ms": 600}, "heartbeat_ms 600"),
        ({"heartbeat_ms": 0}, "heartbeat_ms 0"),
        ({"drift": 0.9}, "drift 0.9"),
    ],
)
def test_contradictions(settings: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Settings(**settings)
