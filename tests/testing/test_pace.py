"""A faster cluster keeps its proportions."""

from __future__ import annotations

import pytest

from strogoff.cluster.surroundings import Settings
from strogoff.testing.pace import TICK_S, paced


def test_all_times_are_divided() -> None:
    """And sizes are not."""
    before, after = Settings(), paced(Settings(), 10)
    assert after.views.lease_ms == before.views.lease_ms / 10
    assert after.views.detection_ms > after.views.expiry_ms and after.views.drift == before.views.drift
    assert after.raft.election_ms == (80, 120) and after.links.silence_s == before.links.silence_s / 10
    assert after.links.buffer_bytes == before.links.buffer_bytes
    assert after.tick_s == before.tick_s / 10 < TICK_S


def test_at_pace_one_only_the_look_at_the_clock_is_faster() -> None:
    """All deadlines are those of production."""
    after = paced(Settings(), 1)
    assert (after.raft, after.views, after.links, after.tick_s) == (*_parts(Settings()), TICK_S)


def _parts(settings: Settings) -> tuple[object, object, object]:
    return settings.raft, settings.views, settings.links


@pytest.mark.parametrize("pace", [0.0, 21.0])
def test_a_pace_has_limits(pace: float) -> None:
    """Beyond them a machine's hiccup is a netsplit."""
    with pytest.raises(ValueError, match=r"between 0.1 and 20"):
        paced(Settings(), pace)
