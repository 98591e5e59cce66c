"""Unacked is droppable, and dropped: what a cut-off node had not acknowledged is not drained at heal (H-14).

Its writer may have gone elsewhere and said something newer. A message that was never acknowledged nor sent again must
not come, from a node that has entered the cluster anew since, after a newer one of the same writer that was. The node
entered before the newer one was sent; or between the deliveries of both, to a subscriber that had nothing to wait for.
What a policy parked is accepted when it is allowed to be, at heal: only an entrance after that makes it void (H-13).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...netsplit.policy import ViewState
from ..history import NEVER, Attempt, Delivery
from .case import Case
from .policies import States
from .unanswered import accepted

LOOK_S = 0.1
"""So much later it is known at the latest what a node saw of the cluster."""


def check(case: Case, states: States) -> Iterator[str]:
    """Looks at all first deliveries of every session."""
    attempts = case.history.attempts
    for (client, _), deliveries in case.first_deliveries().items():
        newest: dict[tuple[str, str], tuple[Attempt, Delivery]] = {}
        for each in deliveries:
            attempt = attempts.get(each.key)
            if attempt is None or attempt.without_lease or not each.qos or not each.topic.startswith("t/"):
                continue
            before = newest.get((attempt.writer, attempt.topic))
            if before is not None and _void(case, states, attempt, each, *before):
                key = before[0].key
                yield f"stale: {client} got {attempt.key} of {attempt.node} after {key}, which was acknowledged"
            if attempt.acked != NEVER and (before is None or before[0].counter < attempt.counter):
                newest[attempt.writer, attempt.topic] = attempt, each


def _void(case: Case, states: States, attempt: Attempt, delivery: Delivery, newer: Attempt, before: Delivery) -> bool:
    if (
        attempt.acked != NEVER
        or attempt.resent
        or newer.counter < attempt.counter
        or newer.node_changes == attempt.node_changes
    ):
        return False
    if "lifo" in case.swarm.features:
        return False  # a backlog comes newest first: what comes later may have been in the queue long before
    entrances = case.history.life(attempt.node).entered
    entered = [at_s for at_s in entrances if attempt.sent_at < at_s and _accepted(case, states, attempt, at_s)]
    if any(at_s < newer.sent_at for at_s in entered):
        return True
    # it did not lie in the queue behind the newer one: the subscriber took at once what was there for it
    prompt = before.connection == delivery.connection and not case.swarm.features & {"slow", "small_window"}
    return prompt and any(before.sent_at < at_s < delivery.sent_at for at_s in entered)


def _accepted(case: Case, states: States, attempt: Attempt, before_s: float) -> bool:
    """Whether the node had accepted the PUBLISH for sure before this time, with a lease, and not parked it.

    Whoever stands still accepts when it goes on, as what it is then. What is accepted without a lease is kept.
    """
    come_at = attempt.sent_at + case.swarm.delay_s[1]
    stood = [end_s for name, at_s, end_s in case.stood if name == attempt.node and at_s <= come_at < end_s]
    come_at = max([come_at, *[end_s + LOOK_S for end_s in stood]])
    arrival, later = states(attempt.node, attempt.sent_at, come_at), states(attempt.node, come_at, before_s)
    flag = case.swarm.options.allow_publish_during_netsplit
    if flag == "on" and ViewState.MINORITY in arrival:
        return False
    return accepted(flag, arrival, later, False)
