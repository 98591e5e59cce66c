"""No acknowledgement before the commit that holds the entry (anomaly A2): fatal even if nothing was lost this time.

The node's acknowledgement carries the number of commits that were done when it was written. By then the entry is in one
of them, for each persistent session that the message was owed to, or the session has the message already.
"""

from __future__ import annotations

from collections.abc import Iterator

from .case import Case


def check(case: Case) -> Iterator[str]:
    """Looks at the sessions that are there at the end: those were there at the time, too."""
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
