"""The times of a cluster under test: the interval of its timer ticks, and all deadlines divided by a pace.

The proportions stay: four heartbeats fit in a lease, and detection takes longer than a lease. So a cluster at pace 10
takes the same steps as a cluster in production, in a tenth of the time. A fast pace needs a machine without long
pauses: at pace 10 a lease is 170 ms.
"""

from __future__ import annotations

from msgspec.structs import replace

from ...cluster.ports import Settings

TICK_S = 0.005
BEAT_MS = 8.0
"""Nodes in one process have little load, and a test waits for them, so they tick every `TICK_S` seconds.

The interval of heartbeats is `BEAT_MS` milliseconds times the number of nodes. So the traffic does not grow with the
square of the number of nodes.
"""
MAX_PACE = 20.0


def scaled(settings: Settings, pace: float, nodes: int) -> Settings:
    """Returns the settings with all deadlines divided by `pace`, and with heartbeats so frequent that joins are fast.

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
        settings.zone,
    )


def check_pace(pace: float) -> None:
    """Check a pace. Raises ValueError outside of 0.1 to 20."""
    if not 0.1 <= pace <= MAX_PACE:
        raise ValueError(f"pace = {pace:g}: between 0.1 and {MAX_PACE:g}; 1 is as in production")
