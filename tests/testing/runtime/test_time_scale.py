"""A faster cluster keeps its proportions."""

from __future__ import annotations

import pytest

from strogoff.cluster.ports import Settings
from strogoff.testing.runtime.time_scale import BEAT_MS, TICK_S, scaled


def test_all_deadlines_are_divided() -> None:
    """Sizes are not."""
    before, after = Settings(), scaled(Settings(), 10, 3)
    assert after.views.lease_ms == before.views.lease_ms / 10
    assert after.views.detection_ms > after.views.expiry_ms and after.views.drift == before.views.drift
    assert after.raft.election_ms == (50, 80) and after.links.silence_s == before.links.silence_s / 10
    assert after.links.buffer_bytes == before.links.buffer_bytes
    assert after.raft.heartbeat_ms == 15 and after.views.heartbeat_ms == after.links.heartbeat_s * 1000 == 24


def test_at_pace_one_only_heartbeats_are_faster() -> None:
    """All deadlines are those of production; with more nodes each sends fewer heartbeats."""
    before, after, many = Settings(), scaled(Settings(), 1, 3), scaled(Settings(), 1, 7)
    assert (after.views.lease_ms, after.views.detection_ms) == (before.views.lease_ms, before.views.detection_ms)
    assert after.raft.election_ms == before.raft.election_ms and after.links.silence_s == before.links.silence_s
    assert (after.raft.heartbeat_ms, many.raft.heartbeat_ms) == (3 * BEAT_MS, 7 * BEAT_MS)
    assert after.tick_s == after.links.redial_first_s == TICK_S


@pytest.mark.parametrize("pace", [0.0, 21.0])
def test_a_pace_has_limits(pace: float) -> None:
    """Beyond the limits a short pause of the machine would look like a netsplit."""
    with pytest.raises(ValueError, match=r"between 0.1 and 20"):
        scaled(Settings(), pace, 2)
