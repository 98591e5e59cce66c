"""The rows of `session show`. This module reads only those parts of a session that the query needs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from ..broker.operations import queue_size, queued_messages
from .columns import Query, Row
from .context import Context, TimeSlice

if TYPE_CHECKING:
    from ..broker.sessions.session import Session

SESSION = (
    "node",
    "mountpoint",
    "client_id",
    "user",
    "peer_host",
    "peer_port",
    "protocol",
    "is_online",
    "is_offline",
    "statename",
    "num_sessions",
    "clean_session",
    "waiting_acks",
    "gateway",
    "slot",
)
QUEUE = ("queue_size", "online_messages", "offline_messages")
SUBSCRIPTION = ("topic", "qos", "rap", "no_local")
MESSAGE = ("msg_ref", "msg_qos", "routing_key", "dup", "payload")
FIELDS = (*SESSION, *QUEUE, *SUBSCRIPTION, *MESSAGE)
DEFAULT = ("client_id", "is_online", "mountpoint", "peer_host", "peer_port", "user")


async def rows(context: Context, query: Query) -> AsyncIterator[Row]:
    """All rows that pass the filters: one for each session, subscription or message, as the query asks."""
    time_slice = context.time_slice()
    gateways = context.node.gateways.of_connections() if query.wants("gateway") else {}
    for session in context.node.sessions.everything():
        await time_slice.yield_if_due()
        if session.ending:
            continue
        row = _session(context.node.name, session, gateways)
        if not query.holds(row):
            continue
        if query.wants(*QUEUE):
            row |= await _queue(session, time_slice)
        async for whole in _with_details(session, row, query, time_slice):
            if query.holds(whole):
                yield whole


def _session(node: str, session: Session, gateways: Mapping[int, str]) -> Row:
    connection = session.connection
    return {
        "node": node,
        "mountpoint": session.mountpoint,
        "client_id": session.client_id,
        "user": session.username,
        "peer_host": connection.peer[0] if connection is not None else None,
        "peer_port": connection.peer[1] if connection is not None else None,
        "protocol": session.version,
        "is_online": connection is not None,
        "is_offline": connection is None,
        "statename": "online" if connection is not None else "offline",
        "num_sessions": int(connection is not None),
        "clean_session": not session.durable,
        "waiting_acks": len(session.queue.inflight),
        "gateway": gateways.get(id(connection), node) if connection is not None else None,
        "slot": session.key[0],
    }


async def _queue(session: Session, time_slice: TimeSlice) -> Row:
    size = 0
    for step in queue_size(session.queue):
        if step is None:
            await time_slice.yield_if_due()
        else:
            size = step
    online = session.online
    return {"queue_size": size, "online_messages": size if online else 0, "offline_messages": 0 if online else size}


async def _with_details(session: Session, row: Row, query: Query, time_slice: TimeSlice) -> AsyncIterator[Row]:
    """The row of the session for each subscription or message; for both, their cross product."""
    subscriptions: list[Row] = [{}]
    if query.wants(*SUBSCRIPTION):
        subscriptions = [
            {"topic": text, "qos": each.qos, "rap": each.retain_as_published, "no_local": each.no_local}
            for text, each in session.subscriptions.items()
        ]
    for subscription in subscriptions:
        await time_slice.yield_if_due()
        if not query.wants(*MESSAGE):
            yield row | subscription
            continue
        for step in queued_messages(session.queue):
            await time_slice.yield_if_due()
            for message, qos, dup in step:
                details: Row = {
                    "msg_ref": "/".join(map(str, message.mid)),
                    "msg_qos": qos,
                    "routing_key": message.topic,
                    "dup": dup,
                    "payload": message.payload.decode("utf-8", "backslashreplace"),
                }
                yield row | subscription | details
