"""QoS 2 exactly once: a message published and subscribed with QoS 2 reaches the application at most once (anomaly A5).

The checker counts the messages that a client passes to the application, by the writer's own counter. The checker `lost`
demands at least one. These are not counted:

* a retained message that a node sends again for a SUBSCRIBE;
* messages from a node with an old copy of its disk. It gets no lease, but with the policy `on` it serves without one;
* a shared message that another member gets because no node knows of the first delivery: it went to a clean session
  whose node died or was cut off, or to a session whose node lost its disk or was removed;
* with copies of slots, a shared message that its writer sent again, or during which a node took slots over: a node does
  not know which member's copy has the message (docs/promises.md#what-comes-later);
* a message whose writer's node lost its disk, and with it the state of the handshake. If the CONNACK without a session
  is lost, the client continues the handshake;
* with copies of slots, a message that a client got before the cluster said that the primary of its slot may lack
  changes.
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
        if case.history.copied and any(at_s >= each.sent_at for at_s in case.history.losses(attempt.node, each.client)):
            continue
        group = _group(case, each)
        if not group or not (_chosen_again(case, attempt, each) or _without_a_record(case, each)):
            counts[group or f"{each.client}, session {each.epoch}", each.key] += 1
    for (who, key), count in counts.items():
        if count > 1:
            yield f"duplicate: {who} got {key} {count} times with QoS 2"


def _handshake_lost(case: Case, attempt: Attempt, delivery: Delivery) -> bool:
    """Whether the message was sent again after its node had lost its disk, and with it the packet id."""
    emptied = case.history.losses(attempt.node, attempt.writer)
    return attempt.resent > 0 and any(attempt.sent_at < at_s <= delivery.sent_at for at_s in emptied)


def _chosen_again(case: Case, attempt: Attempt, delivery: Delivery) -> bool:
    """Whether another member may have been chosen for a shared message because a node took slots over."""
    times = [at_s for arrivals in case.history.slot_arrivals.values() for at_s in arrivals]
    taken = any(attempt.sent_at <= at_s <= delivery.sent_at for at_s in times)
    return case.history.copied and (attempt.resent > 0 or taken)


def _group(case: Case, delivery: Delivery) -> str:
    """Returns the shared subscription through which a client got a message; "" if it was not a shared one."""
    filters = [each.filter for each in case.history.subscriptions if each.client == delivery.client]
    shared = [each for each in filters if each.startswith("$share/") and case.matches(each, delivery.topic)]
    return shared[0] if shared else ""


def _without_a_record(case: Case, delivery: Delivery) -> bool:
    """Whether no node can know of this delivery any more.

    The node lost its disk since then, or was removed (3 nodes, `--variant leaves`, seed 205526). Or the session was
    clean, and since then the node's process ended or entered a view again. Nodes with copies of a slot do not know
    which messages of shared subscriptions its former primary took, so then this holds for every session.
    """
    connections = case.history.connections[delivery.client]
    connection = next(each for each in connections if each.number == delivery.connection)
    life = case.history.life(connection.node)
    ended = (*life.ends, *life.entered) if connection.expiry_s == 0 or case.history.copied else ()
    return any(at_s >= delivery.sent_at for at_s in (*case.history.losses(connection.node, delivery.client), *ended))
