"""Messages that a cut-off node accepted and did not acknowledge are not delivered after newer ones (H-14).

Their writer may have gone to another node and published something newer. The checker judges messages that were never
acknowledged and never sent again, and whose node has entered the cluster again since. Such a message must not arrive
after a newer, acknowledged message of the same writer, if the node entered before the newer one was sent. The same
holds if the node entered between the two deliveries and the subscriber had no waiting messages; but not if slots have
two copies, because a message that was taken before may wait for its copy then. A message that a policy
deferred is accepted when the policy allows it, at the heal: only an entrance after that makes it void (H-13).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...netsplit.policy import ViewState
from ..history import NEVER, Attempt, Delivery
from .case import Case
from .policies import States
from .unanswered import accepted

LOOK_S = 0.1
"""The longest delay between a change of a node's view state and its record in the history, in s."""


def check(case: Case, states: States) -> Iterator[str]:
    """Check all first deliveries of every session."""
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
        return False  # a queue delivers its newest message first: a later delivery may be an older message
    entrances = case.history.life(attempt.node).entered
    entered = [at_s for at_s in entrances if attempt.sent_at < at_s and _accepted(case, states, attempt, at_s)]
    if any(at_s < newer.sent_at for at_s in entered):
        return True
    # the older message did not wait behind the newer one, because the subscriber took everything at once
    prompt = before.connection == delivery.connection and not case.swarm.features & {"slow", "small_window"}
    prompt = prompt and not case.history.copied
    return prompt and any(before.sent_at < at_s < delivery.sent_at for at_s in entered)


def _accepted(case: Case, states: States, attempt: Attempt, before_s: float) -> bool:
    """Whether the node certainly accepted the PUBLISH before this time, with a lease, without deferring it.

    A suspended node accepts it when it resumes, with its view state then. A message that was accepted without a lease
    remains valid after the heal.
    """
    come_at = attempt.sent_at + case.swarm.delay_s[1]
    stood = [end_s for name, at_s, end_s in case.stood if name == attempt.node and at_s <= come_at < end_s]
    come_at = max([come_at, *[end_s + LOOK_S for end_s in stood]])
    arrival, later = states(attempt.node, attempt.sent_at, come_at), states(attempt.node, come_at, before_s)
    flag = case.swarm.options.allow_publish_during_netsplit
    if flag == "on" and ViewState.MINORITY in arrival:
        return False
    return accepted(flag, arrival, later, False)
