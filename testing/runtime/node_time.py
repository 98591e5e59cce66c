"""The time of a node under test, which a test may advance: what is due in an hour happens at once.

Only cluster time advances: expiry, delays of wills and other times that a client sees. Leases, elections and links have
the clocks of the process, so all nodes stay in the view.
"""

from __future__ import annotations

from collections.abc import Callable

from ...cluster.clock import ClusterClock, SavedTime


class NodeTime:
    """What outlives a boot of a node. `stamp` is that of the last event of the last boot; `skipped_ms` says how many
    milliseconds tests have skipped."""

    def __init__(self) -> None:
        self.stamp = 0
        self.skipped_ms = 0


class AdvancingClock(ClusterClock):
    """Cluster time of one boot of a node. `time.skipped_ms` are a part of it; for the rest see `ClusterClock`."""

    def __init__(
        self,
        time: NodeTime,
        wall_ms: Callable[[], float],
        mono_ms: Callable[[], float],
        saved: SavedTime | None,
        uptime_ms: int,
        machine: str,
    ) -> None:
        super().__init__(lambda: wall_ms() + time.skipped_ms, mono_ms, saved, uptime_ms, machine)

    def advance(self, by_ms: int) -> None:
        """Set the time ahead. The silence of a connected client counts from here, as after each change of the clock."""
        self._time += by_ms
        if self._leader_ms is not None:
            self._leader_ms += by_ms
        self.set_at_ms = self.now_ms()
