"""A policy is kept: what it forbids is not accepted (INV 7.3, anomaly A19), and what is refused went to nobody (20)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...netsplit.policy import Decision, ViewState, decide
from ..history import NEVER
from .case import Case

States = Callable[[str, float, float], set[ViewState]]
"""How much of the cluster a node saw at any time between two."""


def check(case: Case, states: States) -> Iterator[str]:
    """Accepted although nowhere between question and answer it was allowed; refused, and delivered all the same."""
    options = case.swarm.options
    for attempt in case.history.attempts.values():
        if not attempt.qos or attempt.acked == NEVER or attempt.resent:
            continue
        seen = states(attempt.node, attempt.sent_at, attempt.acked_at)
        flag = options.allow_publish_during_netsplit
        if seen and all(decide(flag, state) is Decision.REFUSE for state in seen):
            yield f"policy: {attempt.key} was accepted at {attempt.node}, which was {_names(seen)}; publish = {flag}"
    for each in case.history.subscriptions:
        if each.granted == NEVER:
            continue
        flag = options.allow_subscribe_during_netsplit
        seen = states(each.node, each.asked_at, each.granted_at)
        if seen and all(decide(flag, state) is Decision.REFUSE for state in seen):
            who = f"{each.client} got {each.filter} at {each.node}"
            yield f"policy: {who}, which was {_names(seen)}; subscribe = {flag}"
    yield from _late(case)


def _late(case: Case) -> Iterator[str]:
    refused = {
        each.key
        for each in case.history.attempts.values()
        if each.refused != NEVER and each.acked == NEVER and not each.resent
    }
    for delivery in case.history.deliveries:
        if delivery.key in refused:
            yield f"late refusal: {delivery.client} got {delivery.key}, which was refused"


def _names(seen: set[ViewState]) -> str:
    return " and ".join(sorted(state.value for state in seen))
