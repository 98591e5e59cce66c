"""No acknowledgement leaves before the commit of the entry (anomaly A2), even if nothing is lost in this run.

The history has the number of finished commits at the time when the node wrote the acknowledgement. By then each
persistent session that is owed the message must have its entry in one of these commits, or must have got the message.
If slots have two copies, that holds for the disk of each node in the in-sync set (H-46).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...cluster.identity import slot_of
from ..history import NEVER, Attempt
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
        if had.get((client, subscription.epoch, key), attempt.acked) < attempt.acked:
            continue
        if durable is not None and durable <= attempt.mark:
            if case.history.copied and (lacking := _lacking(case, client, attempt)):
                yield f"early ack: {key} was acknowledged before {lacking} had its entry for {client}"
            continue
        when = "never" if durable is None else f"with commit {durable}"
        yield f"early ack: {key} was acknowledged after commit {attempt.mark}, its entry for {client} came {when}"


def _lacking(case: Case, client: str, attempt: Attempt) -> str:
    """Returns a disk of the in-sync set that lacked the entry of the message at its acknowledgement; "" if none."""
    had = case.history.copies.get((client, attempt.key), {})
    sets = case.history.in_sync(slot_of("", client), attempt.mark)
    lacking = [[disk for disk in disks if had.get(disk, NEVER) > attempt.mark] for disks in sets]
    return "" if not lacking or [] in lacking else lacking[0][0]


def _persistent(case: Case, client: str, epoch: int) -> bool:
    opened = [each for each in case.history.connections[client] if each.epoch == epoch and each.opened_at]
    return bool(opened) and all(each.expiry_s != 0 for each in opened)
