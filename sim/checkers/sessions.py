"""Sessions live exactly as long as promised, across kills and with wrong clocks (P7; anomalies A12, A13).

The checker predicts the flag of each CONNACK from the connections before it. It accepts both values where the client
cannot know: after a connection without a CONNACK, or close to the deadline.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from ..history import NEVER, Connection
from .case import Case

COMMITS = 4
"""How many commits, one after another, the end of a session waits for if its slot has copies: that which has begun, the
will, what the will leads to, and the end, each at two nodes (3 nodes, copies and small, seed 5400369)."""


@dataclass(slots=True)
class _Known:
    """A disconnected client's knowledge of its session: it ends between `low` and `high`, in s."""

    low: float
    high: float


NONE = _Known(-inf, -inf)


def check(case: Case) -> Iterator[str]:
    """Check all connections of each client, in order."""
    if not case.kept:
        return
    for connections in case.history.connections.values():
        known, since_s = NONE, 0.0
        for each in connections:
            if each.opened == NEVER:
                known = _perhaps(case, known, each)
                continue
            if _emptied(case, each):
                known = _Known(-inf, known.high)
            yield from _answer(case, known, each)
            yield from _overdue(case, known, since_s, each.asked_at, each)
            known, since_s = _after(case, each), each.asked_at
        if connections and connections[-1].opened != NEVER:
            yield from _overdue(case, known, since_s, case.end_s, connections[-1])


def _emptied(case: Case, connection: Connection) -> bool:
    """Whether a node that had a session of the client has lost its disk since then."""
    return any(
        before.asked_at < at_s < connection.opened_at
        for before in case.history.connections[connection.client]
        for at_s in case.history.losses(before.node, before.client)
    )


def _answer(case: Case, known: _Known, connection: Connection) -> Iterator[str]:
    if connection.present is None:
        return
    who = f"{connection.client}, connection {connection.number}"
    if connection.present and (connection.clean or connection.asked_at > known.high + case.slack_s):
        yield f"zombie: {who}: a session is present although it has ended"
    if not connection.present and not connection.clean and connection.opened_at < known.low - case.slack_s:
        yield f"amnesia: {who}: no session is present although it must exist"


def _overdue(case: Case, known: _Known, since_s: float, until_s: float, connection: Connection) -> Iterator[str]:
    """Check that the session of an absent client ends by its deadline, or with the disk, or when its node is up again
    and has had a lease for a while.

    `since_s` is the time of the client's last CONNECT.
    """
    client, node = connection.client, connection.node
    if known.low == -inf or known.high + case.slack_s >= until_s:
        return
    due_s = known.high + case.slack_s + (COMMITS * case.commit_s if case.history.copied else 0.0)
    by_s = case.looked_from(case.leased_from(due_s, node), node)
    if by_s >= until_s or any(since_s < at_s <= by_s for at_s in case.history.losses(node, connection.client)):
        return
    ended = [
        at_s
        for at_s, row in case.history.events
        if row["type"] == "sess.end" and row["client"] == client and known.low - case.slack_s <= at_s <= by_s
    ]
    if not ended:
        yield f"overdue: the session of {client} had to end by {known.high:.3f} s, and did not"


def _after(case: Case, connection: Connection) -> _Known:
    """Returns the client's knowledge after the end of this connection."""
    if connection.closed == NEVER:
        return _Known(inf, inf)
    expiries = {connection.expiry_s}
    if connection.final_expiry_s is not None:
        if heeded(case, connection):
            expiries.clear()
        expiries.add(connection.final_expiry_s)
    begins, ends = detached(case, connection)
    low = min(_deadline(begins, each) for each in expiries)
    high = max(_deadline(ends, each) for each in expiries)
    return _Known(low, high)


def _perhaps(case: Case, known: _Known, connection: Connection) -> _Known:
    """Returns the client's knowledge after a CONNECT without an answer: the node may or may not have received it."""
    if connection.expiry_s == 0:
        return _Known(-inf, known.high)
    begins, ends = detached(case, connection)
    low = -inf if connection.clean else min(known.low, _deadline(min(begins, connection.asked_at), connection.expiry_s))
    return _Known(low, max(known.high, _deadline(ends, connection.expiry_s)))


def _deadline(since_s: float, expiry_s: int | None) -> float:
    if expiry_s is None:
        return inf
    return since_s + expiry_s if expiry_s else -inf


def detached(case: Case, connection: Connection) -> tuple[float, float]:
    """Returns the earliest and the latest time from which the node may count the absence of this client.

    A kill shortly after the end of the connection may undo the record of that end: then the node counts from its next
    start. A suspended node notices the end when it resumes, unless it is killed before.
    """
    noticed = connection.noticed_at
    if noticed is None:
        return connection.closed_at or connection.asked_at, inf
    latest = noticed
    for start in case.history.life(connection.node).starts:
        if latest < start and _killed_within(case, connection.node, latest, start):
            latest = start
    earliest = min(connection.closed_at, noticed) if connection.closed != NEVER else noticed
    return earliest, latest


def heeded(case: Case, connection: Connection) -> bool:
    """Whether the effect of the DISCONNECT is certainly durable.

    DISCONNECT has no answer. A kill undoes it if the node has not read it, or has not stored its effect.
    """
    over_at = None if connection.pipe is None else connection.pipe.over_at
    return connection.arrived and over_at is not None and detached(case, connection)[1] == over_at


def _killed_within(case: Case, node: str, since_s: float, until_s: float) -> bool:
    kills = [each.at_s for each in case.history.faults if each.kind in ("kill", "power loss") and each.node == node]
    kills.append(case.history.healed_at)
    knows_s = since_s
    for name, at_s, end_s in sorted(case.stood, key=lambda each: each[1]):
        if name == node and at_s <= knows_s + case.commit_s and end_s > knows_s:
            knows_s = end_s  # it was suspended before it noticed the end, or before its disk had it
    return any(since_s <= at_s <= min(until_s, knows_s + case.commit_s) for at_s in kills)
