"""Unacked is droppable, and dropped: what a cut-off node had not acknowledged is not drained at heal (hole 14).

Its writer may have gone elsewhere and said something newer. A message that was never acknowledged nor sent again must
not come, from a node that has entered the cluster anew since, after a newer one of the same writer that was. The node
entered before the newer one was sent; or between the deliveries of both, to a subscriber that had nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..history import NEVER, Attempt, Delivery
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Looks at all first deliveries of every session."""
    attempts = case.history.attempts
    for (client, _), deliveries in case.first_deliveries().items():
        newest: dict[tuple[str, str], tuple[Attempt, Delivery]] = {}
        for each in deliveries:
            attempt = attempts.get(each.key)
            if attempt is None or attempt.ap or not each.qos or not each.topic.startswith("t/"):
                continue
            before = newest.get((attempt.writer, attempt.topic))
            if before is not None and _void(case, attempt, each, *before):
                key = before[0].key
                yield f"stale: {client} got {attempt.key} of {attempt.node} after {key}, which was acknowledged"
            if attempt.acked != NEVER and (before is None or before[0].counter < attempt.counter):
                newest[attempt.writer, attempt.topic] = attempt, each


def _void(case: Case, attempt: Attempt, delivery: Delivery, newer: Attempt, before: Delivery) -> bool:
    if attempt.acked != NEVER or attempt.resent or newer.counter < attempt.counter or newer.stint == attempt.stint:
        return False
    if "lifo" in case.swarm.features:
        return False  # a backlog comes newest first: what comes later may have been in the queue long before
    entered = case.history.life(attempt.node).entered
    if any(attempt.sent_at < at_s < newer.sent_at for at_s in entered):
        return True
    # it did not lie in the queue behind the newer one: the subscriber took at once what was there for it
    prompt = before.connection == delivery.connection and not case.swarm.features & {"slow", "small_window"}
    return prompt and any(before.sent_at < at_s < delivery.sent_at for at_s in entered)
