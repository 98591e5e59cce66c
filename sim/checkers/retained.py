"""Retained messages: a new subscription gets the newest acknowledged message, or one sent since (anomaly A16).

The checker judges subscriptions whose connection lasts until the end, and at least `LAST_S` seconds after SUBACK.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..history import NEVER, Attempt, Connection, Subscribed
from ..workload.swarm import RETAINED_TOPICS
from .case import Case

LAST_S = 3.0
"""The least time of a connection after SUBACK, in s: longer than the slowest network needs for the message."""


def check(case: Case) -> Iterator[str]:
    """Check every granted subscription that matches a retained topic."""
    if not case.kept:
        return
    dropped = case.dropped()
    for each in case.history.subscriptions:
        connection = _connection(case, each)
        if connection is None or not each.qos or each.without_lease or each.filter.startswith("$share/"):
            continue
        for topic in RETAINED_TOPICS:
            if case.matches(each.filter, topic):
                yield from _judge(case, each, connection, topic, dropped)


def _connection(case: Case, subscription: Subscribed) -> Connection | None:
    """Returns the connection of the SUBACK if it is open at the end, else None."""
    if subscription.granted == NEVER or subscription.given_up != NEVER:
        return None
    for each in case.history.connections[subscription.client]:
        if each.opened < subscription.granted and each.closed == NEVER:
            return each if case.end_s - subscription.granted_at > LAST_S and each.opened < subscription.asked else None
    return None


def _judge(
    case: Case, subscription: Subscribed, connection: Connection, topic: str, dropped: set[tuple[str, str]]
) -> Iterator[str]:
    writes = [each for each in case.history.attempts.values() if each.retain and each.topic == topic]
    before = [each for each in writes if each.acked < subscription.asked and not each.without_lease]
    if not before:
        return
    newest = max(before, key=lambda each: each.acked)
    got = {
        each.key
        for each in case.history.deliveries
        if each.client == subscription.client and each.connection == connection.number and each.topic == topic
    }
    good = {each.key for each in writes if not _superseded(each, before)}
    if not got & good and not any((subscription.client, key) in dropped for key in good):
        what = f"{subscription.client} subscribed to {subscription.filter}"
        yield f"retained: {what} and got {sorted(got) or 'nothing'} for {topic}, {newest.key} was acknowledged before"


def _superseded(write: Attempt, before: list[Attempt]) -> bool:
    return any(other.sent > write.acked for other in before)
