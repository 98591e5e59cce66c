"""Unacked is droppable, and dropped: what a cut-off node had not acknowledged is not drained at heal (hole 14).

Its writer may have gone elsewhere and said something newer. A message that was never acknowledged nor sent again must
not come, from a node that has entered the cluster anew since, after a newer one of the same writer that was.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..history import NEVER, Attempt
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Looks at all first deliveries of every session."""
    attempts = case.history.attempts
    for (client, _), deliveries in case.first_deliveries().items():
        newest: dict[tuple[str, str], Attempt] = {}
        for each in deliveries:
            attempt = attempts.get(each.key)
            if attempt is None or attempt.ap or not each.qos or not each.topic.startswith("t/"):
                continue
            before = newest.get((attempt.writer, attempt.topic))
            if before is not None and _void(case, attempt, before):
                yield f"stale: {client} got {attempt.key} of {attempt.node} after {before.key}, which was acknowledged"
            if attempt.acked != NEVER and (before is None or before.counter < attempt.counter):
                newest[attempt.writer, attempt.topic] = attempt


def _void(case: Case, attempt: Attempt, newer: Attempt) -> bool:
    if attempt.acked != NEVER or attempt.resent or newer.counter < attempt.counter or newer.stint == attempt.stint:
        return False
    entered = case.history.life(attempt.node).entered
    return any(attempt.sent_at < at_s < newer.sent_at for at_s in entered)
