"""P1, acked means kept: an acknowledged message comes to every session that subscribed before (anomaly A1).

A session counts if it is there at the end; a message is excused that the node gave up visibly, for a limit or its
expiry. What was shared has to come to some member of the group, unless one of them went with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from .case import Case


def check(case: Case) -> Iterator[str]:
    """Acknowledged, owed, and never received."""
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
    """Only where all members of the group kept one session from begin to end."""
    members = {each.client for each in case.history.subscriptions if each.filter.startswith("$share/")}
    if any(case.sessions.get(member) != 1 for member in members):
        return
    places = {each.node for member in members for each in case.history.connections.get(member, [])}
    if any(case.history.life(place).emptied for place in places):
        return  # messages went with a disk
    somebody = {each.key for each in case.history.deliveries if each.client in members}
    excused = {key for client, key in dropped if client in members}
    for key in sorted({attempt.key for _, attempt in case.owed(shared=True)} - somebody - excused):
        yield f"lost: no member of the shared group got {key}, acknowledged after a SUBACK"
