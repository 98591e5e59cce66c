"""The times of a cluster under test: how often a node looks at the clock, and all deadlines divided by a pace.

The proportions stay (four heartbeats fit in a lease, detection comes after the last lease), so a cluster at pace 10
takes the same steps as one in production, in a tenth of the time. What a faster pace asks for is a machine that does
not stand still: at pace 10 a lease is 200 ms.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..cluster.surroundings import Settings

TICK_S = 0.01
"""Nodes in one process have little to do, and a test waits for them: they look more often than in production."""
MOST_PACE = 20.0


def paced(settings: Settings, pace: float) -> Settings:
    """The same settings with all times divided by `pace`. Raises ValueError for a pace outside of 0.1 to 20."""
    check_pace(pace)
    raft, views, links = settings.raft, settings.views, settings.links
    lowest, highest = raft.election_ms
    return Settings(
        replace(
            raft,
            election_ms=(lowest / pace, highest / pace),
            heartbeat_ms=raft.heartbeat_ms / pace,
            snapshot_retry_ms=raft.snapshot_retry_ms / pace,
        ),
        replace(
            views,
            lease_ms=views.lease_ms / pace,
            detection_ms=views.detection_ms / pace,
            heartbeat_ms=views.heartbeat_ms / pace,
            proposal_ms=views.proposal_ms / pace,
        ),
        replace(
            links,
            heartbeat_s=links.heartbeat_s / pace,
            silence_s=links.silence_s / pace,
            redial_first_s=links.redial_first_s / pace,
            redial_last_s=links.redial_last_s / pace,
        ),
        min(TICK_S, settings.tick_s / pace),
    )


def check_pace(pace: float) -> None:
    """Raises ValueError for a pace outside of 0.1 to 20."""
    if not 0.1 <= pace <= MOST_PACE:
        raise ValueError(f"pace = {pace:g}: between 0.1 and {MOST_PACE:g}; 1 is as in production")
