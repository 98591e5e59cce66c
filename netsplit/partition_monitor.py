"""The lookout: evidence, ledger and the broker's own counters brought together, once in each heartbeat.

What was accepted in the Window of Uncertainty was accepted before anybody suspected anything. Nothing is counted for it
on the way of a message: the lookout keeps the broker's running totals of the last seconds, and when an incident turns
out to have begun a while ago, the ledger gets what the totals have grown by since then, right to one heartbeat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from .incidents import Ledger
from .suspicion import SuspicionTracker

Totals = Mapping[tuple[str, str], int]
"""(operation, outcome) of `incidents` -> how many since the start of the node. Those that are missing are counted by
`Ledger.count` where they happen: what is voided and merged."""

SAMPLES = 40
"""Totals that are kept: ten seconds of heartbeats, and the last ones before a pause of our own."""


class PartitionMonitor:
    """The node calls `tick` in each heartbeat, `view` and `healed` when they happen. `now` is in cluster ms."""

    def __init__(self, evidence: SuspicionTracker, ledger: Ledger, totals: Callable[[], Totals]) -> None:
        self.evidence = evidence
        self.ledger = ledger
        self._totals = totals
        self._samples: deque[tuple[int, Totals]] = deque(maxlen=SAMPLES)
        self._counted: Totals | None = None

    def tick(self, now: int) -> None:
        """A heartbeat is due: who went quiet, who is back, and what was done meanwhile."""
        for back in self.evidence.returned(now):
            self.ledger.returned(back.peer, now)
        if not self.ledger.active:
            self._counted = None
        for quiet in self.evidence.suspect(now):
            self.ledger.suspected(quiet.peer, quiet.since_ms, now)
        self._tally(now)

    def view(self, missing: tuple[str, ...], view_id: int, leased: bool, now: int) -> None:
        """`Ledger.view`, with everything counted up to this moment."""
        self.tick(now)
        self.ledger.view(missing, view_id, leased, now, self.evidence.absent_since(now))
        self._tally(now)

    def healed(self, now: int) -> None:
        """`Ledger.healed`, with everything counted up to this moment."""
        self.tick(now)
        incident = self.ledger.open
        self.ledger.healed(now)
        if incident is not None and self.ledger.open is None:
            for peer in incident.peers:
                self.evidence.heard(peer, now)  # its silence was this incident, and no suspicion comes after it
        self._tally(now)

    def _tally(self, now: int) -> None:
        totals = dict(self._totals())
        begin = self.ledger.begin_ms
        if begin is None:
            self._counted = None
        else:
            before = self._counted if self._counted is not None else self._at(begin, totals)
            for (operation, outcome), number in totals.items():
                grown = number - before.get((operation, outcome), 0)
                if grown:
                    self.ledger.count(operation, outcome, grown)
            self._counted = totals
        self._samples.append((now, totals))

    def _at(self, begin: int, totals: Totals) -> Totals:
        """The totals when it began: the last sample before, or the first that there is."""
        found = self._samples[0][1] if self._samples else totals
        for taken_at, sample in self._samples:
            if taken_at <= begin:
                found = sample
        return found
