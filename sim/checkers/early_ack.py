"""No acknowledgement leaves before the commit of the entry (anomaly A2), even if nothing is lost in this run.

The history has the number of finished commits at the time when the node wrote the acknowledgement. By then each
persistent session that is owed the message must have its entry in one of these commits, or must have got the message.
"""

from __future__ import annotations

from collections.abc import Iterator

from .case import Case


def check(case: Case) -> Iterator[str]:
    """Check the sessions that exist at the end: they also existed when the message was acknowledged."""
    if not case.kept:
        return
    dropped = case.dropped()
    had: dict[tuple[str, int, str], int] = {}
    for each in case.history.deliveries:
        had.setdefault((each.client, each.epoch, each.key), each.number)
    for subscription, attempt in case.owed(shared=False):
        client, key = subscription.client, attempt.key
        if not _persistent(case, client, subscription.epoch) or (client, key) in dropped:
            continue
        durable = case.history.durable.get((client, key))
        if durable is not None and durable <= attempt.mark:
            continue
        if had.get((client, subscription.epoch, key), attempt.acked) < attempt.acked:
            continue
        when = "never" if durable is None else f"with commit {durable}"
        yield f"early ack: {key} was acknowledged after commit {attempt.mark}, its entry for {client} came {when}"


def _persistent(case: Case, client: str, epoch: int) -> bool:
    opened = [each for each in case.history.connections[client] if each.epoch == epoch and each.opened_at]
    return bool(opened) and all(each.expiry_s != 0 for each in opened)
