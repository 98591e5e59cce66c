"""P8: a node drops a message only for a configured limit, or with QoS 0 (anomaly A25)."""

from __future__ import annotations

from collections.abc import Iterator

from ..history import Attempt
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Check that every drop has a reason: a small queue in the options, or an expiry interval in the message."""
    options = case.swarm.options
    small = min(size for size in (options.max_online_messages, options.max_offline_messages, 1 << 30) if size >= 0)
    for each in case.history.drops:
        attempt = case.history.attempts.get(each.key)
        if attempt is not None and _qos(case, each.client, attempt) == 0:
            continue
        if each.reason == "queue_full" and small > len(case.history.attempts):
            yield f"dropped: {each.key} for {each.client}, queue full with room for {small}"
        elif each.reason == "expired" and (attempt is None or not attempt.expiry_s):
            yield f"dropped: {each.key} for {each.client} as expired, and it never expires"
        elif each.reason not in ("queue_full", "expired"):
            yield f"dropped: {each.key} for {each.client}, {each.reason}"


def _qos(case: Case, client: str, attempt: Attempt) -> int:
    """Returns the highest QoS at which a client may get a message."""
    wanted = [
        each.qos
        for each in case.history.subscriptions
        if each.client == client and case.matches(each.filter, attempt.topic)
    ]
    return min(attempt.qos, max(wanted, default=0))
