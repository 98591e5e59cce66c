"""How long the stop of a node takes at most: for a service manager, and for `strogoff stop`."""

from __future__ import annotations

from ...configs import Settings

PARTS_S = 40.0
"""The longest stop behind `queue_stop_wait`, in seconds: 20 for a disk that hangs (twice `STOP_S` of `server`), the
rest for clients, other nodes, plugins and the event log."""


def stop_bound_s(settings: Settings) -> float:
    """The bound for a node with these settings, in seconds."""
    return int(settings["queue_stop_wait"]) + PARTS_S
