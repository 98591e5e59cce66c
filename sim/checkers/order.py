"""P2, in order: first deliveries to a session have the order of acceptance, per writer, topic and QoS (anomaly A6).

The order per writer holds while the writer stays at one node: unacknowledged messages at a former node may arrive at
any time. Across writers: if m1 was acknowledged before m2 was sent, m1 arrives first.

The checker does not judge:

* `lifo` queues, and shared subscriptions, whose messages may change members;
* retained topics, because a SUBSCRIBE brings old messages;
* messages that were accepted without a lease;
* messages whose first copy the session may have missed, and whose repetition it got. The first copy was sent before the
  SUBACK; or while other nodes did not know a subscription that was granted without a lease; or a node dropped it for a
  limit, or refused it because its disk was full;
* messages from a node with an old copy of its disk. It serves without a lease until the other nodes refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..history import Attempt, Delivery
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Check every session, including those that have ended."""
    if case.swarm.options.queue_type == "lifo":
        return
    dropped = case.dropped()
    for (client, epoch), deliveries in case.first_deliveries().items():
        pairs = [
            (each, case.history.attempts[each.key])
            for each in deliveries
            if each.qos
            and not case.by_old_copy(each.client, each.connection)
            and each.key in case.history.attempts
            and not case.history.attempts[each.key].without_lease
            and each.topic.startswith("t/")
        ]
        pairs = [
            (each, attempt)
            for each, attempt in pairs
            if (client, each.key) not in dropped and _covered(case, each, attempt) and not _unsure(case, attempt)
        ]
        yield from _by_writer(f"{client}, session {epoch}", pairs)
        yield from _by_time(f"{client}, session {epoch}", pairs)


def _unsure(case: Case, attempt: Attempt) -> bool:
    """Whether the message was accepted without a lease, or sent again after the node may have refused it."""
    return attempt.without_lease or (
        attempt.resent > 0
        and any(
            row["type"] == "policy.deny" and row["client"] == attempt.writer and attempt.sent_at <= at_s
            for at_s, row in case.history.events
        )
    )


def _covered(case: Case, delivery: Delivery, attempt: Attempt) -> bool:
    """Whether the session was certainly subscribed from before the first sending of the message until its delivery.

    Other nodes get the route of a subscription that was granted without a lease later. The session may miss the first
    copy of a message, and get its repetition as a new message.
    """
    return any(
        each.granted < attempt.sent
        and not each.filter.startswith("$share/")
        and delivery.number < each.given_up
        and not (each.without_lease and attempt.resent)
        and case.matches(each.filter, attempt.topic)
        for each in case.history.subscriptions
        if each.client == delivery.client and each.epoch == delivery.epoch
    )


def _by_writer(session: str, pairs: list[tuple[Delivery, Attempt]]) -> Iterator[str]:
    last: dict[tuple[str, str, int, int], Attempt] = {}
    for _, attempt in pairs:
        lane = (attempt.writer, attempt.topic, attempt.qos, attempt.node_changes)
        before = last.get(lane)
        if before is not None and before.counter > attempt.counter:
            yield f"reordered: {session} got {attempt.key} after {before.key}, same topic and QoS"
        else:
            last[lane] = attempt


def _by_time(session: str, pairs: list[tuple[Delivery, Attempt]]) -> Iterator[str]:
    latest: Attempt | None = None
    for _, attempt in pairs:
        if latest is not None and attempt.acked < latest.sent:
            yield f"reordered: {session} got {attempt.key} after {latest.key}, sent when the first was acknowledged"
        if latest is None or attempt.sent > latest.sent:
            latest = attempt
