"""`node.stats`: a snapshot of the node's counters in the event log, so that its totals are right at level `session`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..node import Node

EVERY_MS = 60_000


class StatsReporter:
    """Emits `node.stats` every minute; the node's stop emits the last one."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def start(self) -> None:
        """Report from now on."""
        self._node.env.timers.at(self._node.env.now + EVERY_MS, self._round)

    def _round(self) -> None:
        self._node.env.observer.emit_stats()
        self.start()
