"""QoS 2 exactly once: what is sent and subscribed with QoS 2 reaches the application at most once (anomaly A5).

Counted is what a client hands on, by the writer's own counter; that it comes at least once is checked as P1. A
SUBSCRIBE that brings a retained message again is no second delivery. Nor is it one that an old copy of a disk has what
its session got long ago: no lease is given to it, but a node whose policy is `on` asks for none before it serves. A
clean session leaves no record of what it got where its node dies or is cut off, nor one that lasts where its node loses
its disk or is taken out: another member of its group may get it.
With a disk goes the handshake of what its clients sent: whose CONNACK that says so got lost goes on with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..history import Attempt, Delivery
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Counts per session, and over all members of a shared group."""
    if not case.kept:
        return
    counts: Counter[tuple[str, str]] = Counter()
    attempts = case.history.attempts
    for each in case.history.deliveries:
        attempt = attempts.get(each.key)
        if (
            attempt is None
            or attempt.without_lease
            or attempt.qos != 2
            or each.qos != 2
            or not each.first
            or each.retained
        ):
            continue
        if case.by_old_copy(each.client, each.connection) or _handshake_lost(case, attempt, each):
            continue
        group = _group(case, each)
        if not group or not _without_a_record(case, each):
            counts[group or f"{each.client}, session {each.epoch}", each.key] += 1
    for (who, key), count in counts.items():
        if count > 1:
            yield f"duplicate: {who} got {key} {count} times with QoS 2"


def _handshake_lost(case: Case, attempt: Attempt, delivery: Delivery) -> bool:
    """It was sent again, and its node had lost its disk since it was sent first: nobody knew its packet id any more."""
    emptied = case.history.life(attempt.node).emptied
    return attempt.resent > 0 and any(attempt.sent_at < at_s <= delivery.sent_at for at_s in emptied)


def _group(case: Case, delivery: Delivery) -> str:
    """The shared subscription by which a client got a message, "" if by an ordinary one."""
    filters = [each.filter for each in case.history.subscriptions if each.client == delivery.client]
    shared = [each for each in filters if each.startswith("$share/") and case.matches(each, delivery.topic)]
    return shared[0] if shared else ""


def _without_a_record(case: Case, delivery: Delivery) -> bool:
    """Its node has lost its disk since then, or was taken out (3 nodes, `--world leaves`, seed 205526); or it came to a
    clean session, and since then its node has ended or entered a view anew."""
    connections = case.history.connections[delivery.client]
    connection = next(each for each in connections if each.number == delivery.connection)
    life = case.history.life(connection.node)
    ended = (*life.ends, *life.entered) if connection.expiry_s == 0 else ()
    return any(at_s >= delivery.sent_at for at_s in (*life.emptied, *ended))
