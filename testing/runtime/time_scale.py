"""The times of a cluster under test: how often a node looks at the clock, and all deadlines divided by a pace.

The proportions stay (four heartbeats fit in a lease, detection comes after the last lease), so a cluster at pace 10
takes the same steps as one in production, in a tenth of the time. What a faster pace asks for is a machine that does
not stand still: at pace 10 a lease is 200 ms.
"""

from __future__ import annotations

from msgspec.structs import replace

from ...cluster.ports import Settings

TICK_S = 0.005
BEAT_MS = 8.0
"""Nodes in one process have little to do, and a test waits for them: they look at the clock this often, and speak to
each other every so many milliseconds times the number of nodes, so that the traffic does not grow with its square."""
MAX_PACE = 20.0


def scaled(settings: Settings, pace: float, nodes: int) -> Settings:
    """The same settings with all deadlines divided by `pace`, and heartbeats as often as the steps of a join need them.

    Raises ValueError for a pace outside of 0.1 to 20.
    """
    check_pace(pace)
    raft, views, links = settings.raft, settings.views, settings.links
    lowest, highest = raft.election_ms
    beat_ms = BEAT_MS * nodes
    return Settings(
        replace(
            raft,
            election_ms=(lowest / pace, highest / pace),
            heartbeat_ms=min(beat_ms, raft.heartbeat_ms / pace),
            snapshot_retry_ms=raft.snapshot_retry_ms / pace,
        ),
        replace(
            views,
            lease_ms=views.lease_ms / pace,
            detection_ms=views.detection_ms / pace,
            heartbeat_ms=min(beat_ms, views.heartbeat_ms / pace),
            proposal_ms=views.proposal_ms / pace,
        ),
        replace(
            links,
            heartbeat_s=min(beat_ms / 1000, links.heartbeat_s / pace),
            echo_s=min(2 * beat_ms / 1000, links.echo_s / pace),
            silence_s=links.silence_s / pace,
            redial_first_s=TICK_S,
            redial_last_s=links.redial_last_s / pace,
        ),
        TICK_S,
        TICK_S,
    )


def check_pace(pace: float) -> None:
    """Raises ValueError for a pace outside of 0.1 to 20."""
    if not 0.1 <= pace <= MAX_PACE:
        raise ValueError(f"pace = {pace:g}: between 0.1 and {MAX_PACE:g}; 1 is as in production")
