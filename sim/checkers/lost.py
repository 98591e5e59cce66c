"""P1, acked means kept: an acknowledged message reaches every session that subscribed before (anomaly A1).

The checker judges sessions that exist at the end. It excuses messages that a node dropped and reported, for a limit or
expiry. A shared message must reach a member of its group, unless the session of its assigned member has ended. With
copies of slots even that is no excuse for QoS 1: the member leaves it to another one whose session lasts (H-56).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..history import NEVER, Attempt, Subscribed
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Yield each acknowledged message that is owed to a session and never reached it."""
    if not case.kept:
        return
    received, dropped = case.received(), case.dropped()
    for subscription, attempt in case.owed(shared=False):
        client, key = subscription.client, attempt.key
        if key in received.get((client, subscription.epoch), ()) or (client, key) in dropped:
            continue
        since = f"acknowledged after its SUBACK to {subscription.filter}"
        yield f"lost: {client} never got {key} on {attempt.topic}, {since}"
    yield from _shared(case, dropped)


def _shared(case: Case, dropped: set[tuple[str, str]]) -> Iterator[str]:
    """Check each group. Its members are those of the time when the message was sent, and later ones."""
    groups: dict[str, list[Subscribed]] = {}
    for each in case.history.subscriptions:
        if each.filter.startswith("$share/"):
            groups.setdefault(each.filter, []).append(each)
    done = dropped | {(each.client, each.key) for each in case.history.deliveries}
    owed: dict[tuple[str, str], list[Subscribed]] = {}
    for subscription, attempt in case.owed(shared=True):
        owed.setdefault((subscription.filter, attempt.key), []).append(subscription)
    for (group, key), lasting in owed.items():
        attempt, members = case.history.attempts[key], groups[group]
        if any((each.client, key) in done or _took_it_along(case, each, attempt, lasting) for each in members):
            continue
        yield f"lost: no member of {group} got {key}, acknowledged after a SUBACK"


def _took_it_along(case: Case, member: Subscribed, attempt: Attempt, lasting: list[Subscribed]) -> bool:
    """Whether this member may have caused the loss of the message.

    The member's session got the message, and has ended or has QoS 0; or the member's node lost its disk.
    """
    if member.gone < attempt.sent:
        return False
    if any(at_s > attempt.sent_at for at_s in case.history.losses(member.node, member.client)):
        return True
    if (member.filter, member.client, attempt.key) not in case.history.assigned:
        return False
    if not member.qos:
        return True
    if case.sessions.get(member.client) == member.epoch:
        return False
    later = [each.opened for each in case.history.connections[member.client] if each.epoch == member.epoch + 1]
    ended = min(later, default=NEVER)
    return ended > attempt.sent and not _has_heir(case, member, attempt, lasting, ended)


def _has_heir(case: Case, member: Subscribed, attempt: Attempt, lasting: list[Subscribed], ended: int) -> bool:
    """Whether one of the members whose sessions last had to get what this one left behind: its session was durable, and
    each slot has copies."""
    if not case.history.copied or min(member.qos, attempt.qos) != 1 or attempt.expiry_s:
        return False
    if any(each.epoch == member.epoch and each.expiry_s == 0 for each in case.history.connections[member.client]):
        return False
    return any(each.client != member.client and ended < each.given_up for each in lasting)
