"""QoS 2 exactly once: a message that is sent and subscribed with QoS 2 reaches the application at most once (anomaly
A5).

The checker counts messages that a client passes on, by the writer's own counter; `lost` checks that each comes at least
once. These are not counted twice:

* a retained message that a SUBSCRIBE brings again;
* messages from an old copy of a disk. It gets no lease, but with the policy `on` a node needs none to serve;
* a shared message that another member gets because nothing records the first delivery: it went to a clean session whose
  node died or was cut off, or to a session whose node lost its disk or was removed;
* a message whose handshake went with the disk of its writer's node. If the CONNACK that says so is lost, the client
  goes on with the handshake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..history import Attempt, Delivery
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Count per session, and over all members of a shared group."""
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
    """Whether the message was sent again after its node had lost its disk, and with it the packet id."""
    emptied = case.history.life(attempt.node).emptied
    return attempt.resent > 0 and any(attempt.sent_at < at_s <= delivery.sent_at for at_s in emptied)


def _group(case: Case, delivery: Delivery) -> str:
    """The shared subscription by which a client got a message; "" for an ordinary one."""
    filters = [each.filter for each in case.history.subscriptions if each.client == delivery.client]
    shared = [each for each in filters if each.startswith("$share/") and case.matches(each, delivery.topic)]
    return shared[0] if shared else ""


def _without_a_record(case: Case, delivery: Delivery) -> bool:
    """Whether nothing records this delivery any more.

    The node lost its disk since then, or was removed (3 nodes, `--variant leaves`, seed 205526). Or the session was
    clean, and since then the node's process ended or entered a view again.
    """
    connections = case.history.connections[delivery.client]
    connection = next(each for each in connections if each.number == delivery.connection)
    life = case.history.life(connection.node)
    ended = (*life.ends, *life.entered) if connection.expiry_s == 0 else ()
    return any(at_s >= delivery.sent_at for at_s in (*life.emptied, *ended))
