"""Connects the suspicion tracker, the incident log and the broker's counters, once in each heartbeat.

In the Window of Uncertainty no node suspects anything yet, so operations cannot be counted as they happen. Instead the
monitor keeps the broker's running totals of the last seconds. When the node detects an incident that began earlier,
the incident log gets the growth of the totals since then, accurate to one heartbeat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from .incidents import IncidentLog
from .suspicion import SuspicionTracker

Totals = Mapping[tuple[str, str], int]
"""(operation, outcome) of `incidents` -> count since the start of the node. It lacks voided and merged operations;
`IncidentLog.count` counts them when they happen."""

SAMPLES = 40
"""Number of totals that the monitor keeps: ten seconds of heartbeats, or the last ones before a pause."""


class PartitionMonitor:
    """The node calls `tick` in each heartbeat, `view` and `healed` at the event. `now` is cluster time in ms."""

    def __init__(self, suspicions: SuspicionTracker, incident_log: IncidentLog, totals: Callable[[], Totals]) -> None:
        self.suspicions = suspicions
        self.incident_log = incident_log
        self._totals = totals
        self._samples: deque[tuple[int, Totals]] = deque(maxlen=SAMPLES)
        self._counted: Totals | None = None

    def tick(self, now: int) -> None:
        """Update suspicions, returns and totals. The node calls this in each heartbeat."""
        for back in self.suspicions.returned(now):
            self.incident_log.returned(back.peer, now)
        if not self.incident_log.active:
            self._counted = None
        for quiet in self.suspicions.suspect(now):
            self.incident_log.suspected(quiet.peer, quiet.since_ms, now)
        self._tally(now)

    def view(self, missing: tuple[str, ...], view_id: int, leased: bool, now: int) -> None:
        """Count all operations up to `now`, then call `IncidentLog.view`."""
        self.tick(now)
        self.incident_log.view(missing, view_id, leased, now, self.suspicions.absent_since(now))
        self._tally(now)

    def healed(self, now: int) -> None:
        """Count all operations up to `now`, then call `IncidentLog.healed`."""
        self.tick(now)
        incident = self.incident_log.open
        self.incident_log.healed(now)
        if incident is not None and self.incident_log.open is None:
            for peer in incident.peers:
                self.suspicions.heard(peer, now)  # its silence belonged to this incident: do not suspect it again
        self._tally(now)

    def _tally(self, now: int) -> None:
        totals = dict(self._totals())
        begin = self.incident_log.begin_ms
        if begin is None:
            self._counted = None
        else:
            before = self._counted if self._counted is not None else self._at(begin, totals)
            for (operation, outcome), number in totals.items():
                grown = number - before.get((operation, outcome), 0)
                if grown:
                    self.incident_log.count(operation, outcome, grown)
            self._counted = totals
        self._samples.append((now, totals))

    def _at(self, begin: int, totals: Totals) -> Totals:
        """Returns the totals at `begin`: the last sample before it, else the oldest sample."""
        found = self._samples[0][1] if self._samples else totals
        for taken_at, sample in self._samples:
            if taken_at <= begin:
                found = sample
        return found
