"""A client gets only sent messages that its session has subscribed to (anomalies A3, A13, A18)."""

from __future__ import annotations

from collections.abc import Iterator

from ..history import Delivery
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Check that each delivery has a sent message and a subscription of the same session."""
    if not case.kept:
        return
    history = case.history
    wills = {
        each.will.key: each.asked
        for connections in history.connections.values()
        for each in connections
        if each.will is not None
    }
    for each in history.deliveries:
        attempt = history.attempts.get(each.key)
        sent = wills.get(each.key) if attempt is None else attempt.sent
        if sent is None or (attempt is not None and attempt.topic != each.topic):
            yield f"unexpected: {each.client} got {each.key} on {each.topic}, but no client sent it there"
        elif not _subscribed(case, each, sent):
            who = f"{each.client}, session {each.epoch},"
            yield f"unexpected: {who} got {each.key} without a subscription to {each.topic}"


def _subscribed(case: Case, delivery: Delivery, sent: int) -> bool:
    strange = _strange(case, delivery)
    for each in case.history.subscriptions:
        if each.client != delivery.client or each.asked > delivery.number:
            continue
        if each.epoch != delivery.epoch and not strange:
            continue
        if each.gone > sent and case.matches(each.filter, delivery.topic):
            return True
    return False


def _strange(case: Case, delivery: Delivery) -> bool:
    """Whether the client had ended its session, and yet CONNACK reported one: perhaps the former one."""
    first = next(each for each in case.history.connections[delivery.client] if each.epoch == delivery.epoch)
    return first.present is not False
