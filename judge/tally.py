"""What is counted over all messages, for the judges of queues and of the run.

Its size depends on sessions, nodes and splits, not on messages. So it may be counted in parts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .anomalies import a21_minority_ack, a23_sync_exposure
from .judging import Judged
from .sessions import SessionKey


@dataclass
class Tally:
    """Counts as in `judge.run.Report`. `queued` has the stamp of the last q.enq of each session. `without_lease` and
    `exposed`: how many messages by place."""

    published: int = 0
    acked: int = 0
    delivered: int = 0
    open: int = 0
    queued: dict[SessionKey, int] = field(default_factory=dict)
    without_lease: Counter[a21_minority_ack.Place] = field(default_factory=Counter)
    exposed: Counter[a23_sync_exposure.Place] = field(default_factory=Counter)

    def take(self, judged: Judged) -> None:
        """Count one message."""
        self.published += judged.published
        self.acked += judged.acked
        self.delivered += judged.delivered
        self.open += judged.open
        for session, stamp in judged.queued.items():
            if stamp > self.queued.get(session, -1):
                self.queued[session] = stamp
        self.without_lease.update(judged.without_lease)
        self.exposed.update(judged.exposed)
