"""P7: a packet id stands for one message until its handshake is complete, across connections and restarts (H-11).

`History.ids` has the ids that arrived with another message while they were in use. The checker also demands that a
repetition with DUP has the same id as before. A session may get two copies of a message, each with its own id, in these
cases: its writer sent it again with QoS 1; a node sends it as a retained message for a SUBSCRIBE; another member of a
group had it before; with QoS 1, the node of the writer sent it again to a node that died before its commit, or to one
that took the slot over before the copies had it; the writer sent it again after a node without a lease had taken it,
and its session had expired meanwhile. A former primary may send a message after another node has taken the slot over,
until it learns of that. A message of QoS 2 leaves only when the copies have it, so it never gets another id this way.

A node with an old copy of its disk does not know the ids in use. It gets no lease, but with the policy `on` it serves
without one until the other nodes refuse it. Another checker demands that it stops then.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...cluster.identity import slot_of
from ..history import Attempt, Delivery, History
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Check every delivery with QoS 1 and 2."""
    if not case.kept:
        return
    for mixed in case.history.ids:
        if not case.by_old_copy(mixed.client, mixed.connection):
            yield f"packet id: {mixed.text}"
    known: dict[tuple[str, int, str], set[int]] = {}
    first: dict[tuple[str, int, str], Delivery] = {}
    for each in case.history.deliveries:
        if not each.qos or not each.topic.startswith("t/"):
            continue
        copy = each.client, each.epoch, each.key
        ids, before = known.setdefault(copy, set()), first.setdefault(copy, each)
        again = each.dup and ids and each.packet_id not in ids
        if again and _only_copy(case, each, before) and not case.by_old_copy(each.client, each.connection):
            yield f"packet id: {each.client} got {each.key} again under {each.packet_id}, before it was {sorted(ids)}"
        ids.add(each.packet_id)


def _only_copy(case: Case, delivery: Delivery, before: Delivery) -> bool:
    """Whether the session may have one copy of this message only, which it got `before`."""
    attempt = case.history.attempts.get(delivery.key)
    if attempt is None or (attempt.without_lease and attempt.resent):
        return False
    return delivery.qos == 2 or not (attempt.resent or _lost_with_its_node(case, delivery, attempt, before))


def _lost_with_its_node(case: Case, delivery: Delivery, attempt: Attempt, before: Delivery) -> bool:
    """Whether a node that had sent the message to the client ended before its disk and the copies had it, or lost the
    slot to another node: the node of the writer sends it again."""
    history = case.history
    if history.copied and _taken_over(history, before, delivery):
        return True
    node = history.connections[delivery.client][delivery.connection - 1].node
    return node != attempt.node and any(before.sent_at <= end_s for end_s in history.life(node).ends)


def _taken_over(history: History, before: Delivery, delivery: Delivery) -> bool:
    """Whether a node took over the slot of the client between these deliveries, or before a former primary, which did
    not know it yet, sent the first of them."""
    by_another = _server(history, before) != _server(history, delivery)
    arrivals = history.slot_arrivals.get(slot_of("", delivery.client), [])
    return any((by_another or before.sent_at <= at_s) and at_s <= delivery.sent_at for at_s in arrivals)


def _server(history: History, delivery: Delivery) -> str | None:
    """The node whose session sent this. A former primary is not in the newest slot table, so the events tell."""
    nodes = [
        row["node"]
        for at_s, row in history.events
        if row["type"] == "conn.open" and row["client"] == delivery.client and at_s <= delivery.sent_at
    ]
    return nodes[-1] if nodes else None
