"""Policies hold: a node accepts nothing that its policy forbids (anomaly A19), and delivers nothing that it refused
(H-20).

A QoS 2 PUBLISH whose packet id the node has not released is a repetition and not a new acceptance. After a loss of
power with durability `os` the node may still have ids that the client has released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...netsplit.policy import Decision, ViewState, decide
from ..history import NEVER, Attempt
from .case import Case

States = Callable[[str, float, float], set[ViewState]]
"""Returns the view states of a node between two times, in s."""


def check(case: Case, states: States) -> Iterator[str]:
    """Yield each request accepted although no view state between request and answer allowed it, and each message that
    was refused and delivered."""
    options = case.swarm.options
    for attempt in case.history.attempts.values():
        if not attempt.qos or attempt.acked == NEVER or attempt.resent or _has_old_ids(case, attempt):
            continue
        seen = states(attempt.node, attempt.sent_at, attempt.acked_at)
        flag = options.allow_publish_during_netsplit
        if seen and all(decide(flag, state) is Decision.REFUSE for state in seen):
            yield f"policy: {attempt.key} was accepted at {attempt.node} in state {_names(seen)}; publish = {flag}"
    for each in case.history.subscriptions:
        if each.granted == NEVER:
            continue
        flag = options.allow_subscribe_during_netsplit
        seen = states(each.node, each.asked_at, each.granted_at)
        if seen and all(decide(flag, state) is Decision.REFUSE for state in seen):
            who = f"{each.client} got {each.filter} at {each.node}"
            yield f"policy: {who} in state {_names(seen)}; subscribe = {flag}"
    yield from _late(case)


def _has_old_ids(case: Case, attempt: Attempt) -> bool:
    history = case.history
    losses = [each.at_s for each in history.faults if each.kind == "power loss" and each.node == attempt.node]
    return attempt.qos == 2 and history.power_lost and any(at_s < attempt.sent_at for at_s in losses)


def _late(case: Case) -> Iterator[str]:
    refused = {
        each.key
        for each in case.history.attempts.values()
        if each.refused != NEVER and each.acked == NEVER and not each.resent
    }
    for delivery in case.history.deliveries:
        if delivery.key in refused:
            yield f"late refusal: {delivery.client} got {delivery.key} although it was refused"


def _names(seen: set[ViewState]) -> str:
    return " and ".join(sorted(state.value for state in seen))
