"""QoS 2 exactly once: what is sent and subscribed with QoS 2 reaches the application at most once (anomaly A5).

Counted is what a client hands on, by the writer's own counter; that it comes at least once is checked as P1. A
SUBSCRIBE that brings a retained message again is no second delivery. Nor is it one that an old copy of a disk has what
its session got long ago: no lease is given to it, but a node whose policy is `on` asks for none before it serves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .case import Case


def check(case: Case) -> Iterator[str]:
    """Counts per session, and over all members of a shared group."""
    if not case.kept:
        return
    counts: Counter[tuple[str, str]] = Counter()
    attempts = case.history.attempts
    for each in case.history.deliveries:
        attempt = attempts.get(each.key)
        if attempt is None or attempt.ap or attempt.qos != 2 or each.qos != 2 or not each.first or each.retained:
            continue
        if case.by_old_copy(each.client, each.connection):
            continue
        shared = attempt.topic.startswith("s/")
        counts["the shared group" if shared else f"{each.client}, session {each.epoch}", each.key] += 1
    for (who, key), count in counts.items():
        if count > 1:
            yield f"duplicate: {who} got {key} {count} times with QoS 2"
