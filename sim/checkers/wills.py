"""P5: each will is published exactly once after an end without DISCONNECT, and never after DISCONNECT (anomaly A14).

It is published at its time, also across a kill of the node, or not at all if the session is resumed before. A
constantly connected subscriber with QoS 2 counts wills. A will of QoS 1 may arrive twice if a node was killed in
between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import Any

from ...broker.connection.connection import FAILOVER_GRACE_S
from ...broker.connection.transport import PEER_CLOSED
from ...cluster.identity import slot_of
from ..history import NEVER, Connection
from ..workload.swarm import WATCHER, WILL_FILTER
from .case import Case
from .sessions import detached, heeded

BACK_S = FAILOVER_GRACE_S - 0.5
"""A client that is connected again so many seconds after the end of its gateway was certainly in time."""
UNDER_WAY_S = 20.0
"""The longest time in which a will is in flight between nodes that do not hear each other, in s."""


def check(case: Case) -> Iterator[str]:
    """Check the will of every accepted connection."""
    if not case.kept or WATCHER not in case.sessions:
        return
    counts: Counter[str] = Counter()
    times: dict[str, float] = {}
    for each in case.history.deliveries:
        if each.client == WATCHER and each.first:
            # a QoS 1 PUBLISH with DUP is a repetition and not a second publication
            counts[each.key] += 1 if each.qos == 2 or not each.dup or not counts[each.key] else 0
            times.setdefault(each.key, each.sent_at)
    dropped = case.dropped()
    since = _watched_since(case)
    for connections in case.history.connections.values():
        for place, connection in enumerate(connections):
            yield from _unheard(case, connection)
            will = connection.will
            if will is None or connection.opened == NEVER:
                continue
            later = connections[place + 1] if place + 1 < len(connections) else None
            if connection.asked < since or (WATCHER, will.key) in dropped:
                yield from _unwatched(case, connection, later)
                continue
            if any(at_s > connection.opened_at for at_s in _losses(case, connection)):
                continue  # the node lost the will with its disk
            yield from _judge(case, connection, later, counts[will.key], times.get(will.key))


def _unheard(case: Case, connection: Connection) -> Iterator[str]:
    """Check that a DISCONNECT is handled, with or without a will (H-19). A node that learns that the client has closed
    the connection has received all its packets. What becomes of the gateway then is no excuse."""
    if not connection.polite:
        return
    opened = [row for at_s, row in _told(case, connection, "conn.open") if at_s <= connection.opened_at]
    if not opened:
        return  # another node had the session
    this = opened[-1]["boot"], opened[-1]["conn"]
    seen = case.history.leaving.get(connection.client, [])
    for until, row in _told(case, connection, "conn.close"):
        if (row["boot"], row["conn"]) != this:
            continue
        complete = any(node == row["node"] and connection.closed_at <= at_s <= until for at_s, node in seen)
        if row["reason"] == PEER_CLOSED or (complete and row["reason"] == "gateway_lost"):
            yield f"disconnect unheard: {connection.client}, connection {connection.number}, has sent DISCONNECT"


def _losses(case: Case, connection: Connection) -> list[float]:
    """Returns the times at which the will may have been lost with a disk. If slots have copies, that is the disk of the
    gateway only while the slot had no primary."""
    lost = case.history.losses(connection.node, connection.client, connection.expiry_s != 0)
    if connection.expiry_s == 0 and case.history.copied:
        lost = lost + case.history.losses(connection.node, connection.client)
    return lost


def _watched_since(case: Case) -> int:
    """Returns the number of the event from which on the watcher gets all wills.

    Other nodes get the route of a subscription that was granted without a lease later. A subscription is lost with the
    disk, although a new session of the client may exist.
    """
    return min(
        (
            each.granted
            for each in case.history.subscriptions
            if each.filter == WILL_FILTER
            and not each.without_lease
            and each.epoch == case.sessions[WATCHER]
            and not any(at_s > each.asked_at for at_s in case.history.losses(each.node, each.client))
        ),
        default=NEVER,
    )


def _judge(
    case: Case, connection: Connection, later: Connection | None, count: int, at_s: float | None
) -> Iterator[str]:
    will = connection.will
    assert will is not None
    low, high = _expected(case, connection, later)
    who = f"the will {will.key} of {connection.client}, connection {connection.number},"
    if count < low and not _died_with_it(case, connection):
        yield f"will lost: {who} was never published"
    elif high == 0 and count and not _taken_over(case, connection, later):
        yield f"will spurious: {who} was published although it must not be"
    elif count > 1 and not _died_with_it(case, connection) and (will.qos == 2 or not _killed_after(case, connection)):
        yield f"will twice: {who} came {count} times"
    if at_s is not None and connection.closed != NEVER and low == 1 and (later is None or not later.clean):
        earliest = detached(case, connection)[0] + _delay(connection)
        if at_s < earliest - case.slack_s:
            yield f"will early: {who} was published {earliest - at_s:.3f} s before its time"
    if not case.scattered:
        yield from _late(case, connection, later, who)


def _unwatched(case: Case, connection: Connection, later: Connection | None) -> Iterator[str]:
    """Check a will that the watcher may not get: the log says that it was published. An earlier will may wait as well,
    and the row does not say which one it is, so this is about the first connection."""
    end_s = _end_of_gateway(case, connection, later)
    if connection.number > 1 or connection.polite or end_s is None or later is None:
        return
    rows = [(at_s, row) for at_s, row in case.history.events if row["type"] == "will.fire"]
    if any(row["client"] == connection.client and end_s < at_s < later.opened_at for at_s, row in rows):
        who = f"the will of {connection.client}, connection {connection.number},"
        yield f"will spurious: {who} was published although only its gateway had ended"


def _taken_over(case: Case, connection: Connection, later: Connection | None) -> bool:
    """Whether another node took over the session during the connection or behind its end: it does not know of a
    DISCONNECT that its predecessor has not read or not copied.

    A node that stands still reads it late, and its client may be back before another node takes over (3 nodes, copies,
    relay, seed 5500280).
    """
    until = case.end_s if later is None or later.opened == NEVER else later.opened_at
    if connection.expiry_s == 0:
        ends = [at_s for at_s, _ in _told(case, connection, "sess.end") if at_s >= connection.closed_at]
        until = max(until, min(ends, default=case.end_s))
    arrivals = case.history.slot_arrivals.get(slot_of("", connection.client), [])
    return case.history.copied and any(connection.asked_at < at_s < until for at_s in arrivals)


def _died_with_it(case: Case, connection: Connection) -> bool:
    """Whether the node ended while its copies of the will were in flight to other nodes: they may be lost (H-19).

    A will with a mid of its slot is sent again by the next primary (H-50).
    """
    if not case.scattered:
        return False
    ends = case.history.life(connection.node).ends
    begin = _begun(case, connection)
    fired = [
        at_s
        for at_s, row in _told(case, connection, "will.fire")
        if at_s >= begin and not row["mid"][0].startswith("#")
    ]
    return any(at_s <= end <= at_s + UNDER_WAY_S for at_s in fired for end in ends)


def _begun(case: Case, connection: Connection) -> float:
    """Returns the time when the node accepted this connection, which may be long before CONNACK arrived."""
    begins = [at_s for at_s, _ in _told(case, connection, "conn.open") if at_s <= connection.opened_at]
    return max(begins, default=connection.opened_at)


def _told(case: Case, connection: Connection, kind: str) -> Iterator[tuple[float, dict[str, Any]]]:
    wanted = (kind, connection.node, connection.client)
    for at_s, row in case.history.events:
        if (row["type"], row["node"], row.get("client")) == wanted:
            yield at_s, row


def _late(case: Case, connection: Connection, later: Connection | None, who: str) -> Iterator[str]:
    """Check that a due will is published by its time, or when the node is up again after that."""
    begins, ends = detached(case, connection)
    earliest = begins + _delay(connection) - case.slack_s
    latest = ends + _delay(connection) + _grace(case, connection) + case.slack_s
    if connection.closed == NEVER or connection.polite or latest > case.end_s:
        return
    if later is not None and later.asked_at <= latest:
        return
    by_s = case.looked_from(latest, connection.node)
    fired = [
        at_s
        for at_s, row in case.history.events
        if row["type"] == "will.fire" and row["client"] == connection.client and earliest <= at_s <= by_s
    ]
    if not fired:
        yield f"will late: {who} was not published by {by_s:.3f} s"


def _expected(case: Case, connection: Connection, later: Connection | None) -> tuple[int, int]:
    """Returns the least and the greatest allowed number of publications of the will."""
    begins, ends = detached(case, connection)
    if connection.closed == NEVER:
        return 0, 0
    if connection.polite:
        return 0, 0 if heeded(case, connection) else 1
    delay, grace = _delay(connection), _grace(case, connection)
    earliest, latest = begins + delay - case.slack_s, ends + delay + grace + case.slack_s
    if _end_of_gateway(case, connection, later) is not None:
        return 0, 0
    if later is None:
        return (1 if latest < case.end_s else 0), 1
    if delay == 0 and not grace:
        return 1, 1
    if later.clean:
        excused = grace and later.asked_at <= latest
        return (1 if later.opened != NEVER and not excused else 0), 1
    if later.asked_at > latest:
        return 1, 1
    if delay and later.opened != NEVER and later.opened_at < earliest:
        return 0, int(_is_back(case, later))
    return 0, 1


def _is_back(case: Case, later: Connection) -> bool:
    """Whether the former will may be back: a connection without a will has cancelled it, and its node died, or lost the
    slot, before the disk or the copy had that."""
    arrivals = case.history.slot_arrivals.get(slot_of("", later.client), [])
    until = later.opened_at + UNDER_WAY_S
    ends = [*case.history.life(later.node).ends, *arrivals]
    return later.will is None and any(later.asked_at < at_s < until for at_s in ends)


def _end_of_gateway(case: Case, connection: Connection, later: Connection | None) -> float | None:
    """Returns when the gateway of the client ended, by a kill or a stop, if nobody may get its will for that (H-39).

    Its primary went on, and served the client again in time. Else returns None.

    A primary that gave up the gateway before that began to wait earlier. It does not know of a client that another node
    serves without a lease (3 nodes, copies, relay, seed 9983038).
    """
    history, gateway, since = case.history, connection.gateway, connection.opened_at
    ends = [*history.life(gateway).ends, *_stops(case, gateway)]
    end_s = min([at_s for at_s in ends if since < at_s <= connection.closed_at], default=None)
    if end_s is None or later is None or later.opened == NEVER or later.opened_at > end_s + BACK_S:
        return None
    if not connection.relayed or later.node != connection.node or not _grace(case, connection):
        return None
    others = [*history.life(connection.node).ends, *_stops(case, connection.node)]
    goes_on = not any(since < at_s <= later.opened_at for at_s in others)
    given_up = since < history.given_up.get(connection.client, 0.0) < end_s
    return end_s if goes_on and not given_up else None


def _stops(case: Case, node: str) -> list[float]:
    """Returns when the node began to stop in order. Its process ends later."""
    return [each.at_s for each in case.history.faults if each.kind == "stop" and each.node == node]


def _grace(case: Case, connection: Connection) -> float:
    """Returns the seconds for which the will may wait after an end that the cluster made itself (H-39).

    After a takeover through another gateway it waits as long, and is not published if the former gateway has died. So a
    client that connects again in this time may find its will published or not.
    """
    if not case.relay_s or (connection.expiry_s == 0 and not case.history.copied):
        return 0.0
    return float(FAILOVER_GRACE_S)


def _delay(connection: Connection) -> float:
    """Returns the seconds until the will is due: its delay, or the session's expiry if less [MQTT5-3.1.3-9]."""
    assert connection.will is not None
    expiry = inf if connection.expiry_s is None else connection.expiry_s
    return min(connection.will.delay_s, expiry)


def _killed_after(case: Case, connection: Connection) -> bool:
    nodes = {connection.node, *[each.node for each in case.history.connections.get(WATCHER, [])]}
    return any(start > connection.opened_at for node in nodes for start in case.history.life(node).starts)
