"""After the end of all faults every wait ends: a wait that lasts until the end of the simulation would never end.

One wait may last: a node waits for the packets of a client that it could not know to be gone (`left_behind`). At rest
the disk has no entries, subscriptions or payloads of ended sessions. Rows of a slot that the node has no copy of may be
half of one, which it keeps for the next copy, or deletes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from itertools import takewhile

from ...broker.node import Node
from ...broker.queues.records import decode_entry, decode_session
from ...netsplit.policy import ViewState
from ...storage.keys import SLOT_KINDS, client_key
from ..history import NEVER, ViewLog
from ..workload.client import ModelClient
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Yield everything that was not at rest at the end."""
    for what in case.pending:
        yield f"not at rest: {what}"


def left_behind(clients: Iterable[ModelClient], node: str, views: ViewLog) -> set[str]:
    """Returns the clients that may have an open connection at this node, although they are gone for good.

    Such a client, without durable state, has gone on to another node and left the socket open. This node or the other
    one had no lease then, so no node could end the connection here. When the nodes reach each other again, the client
    has left the other node, and no node knows that it was there. A real connection ends with its keep alive or its
    socket (docs/netsplit.md). Model clients have no keep alive, and never close such a socket.
    """
    return {client.name for client in clients if client.gone and _was_left(client, node, views)}


def _was_left(client: ModelClient, node: str, views: ViewLog) -> bool:
    opened = [each for each in client.lists if each.opened != NEVER]
    later = list(takewhile(lambda each: each.node != node, reversed(opened)))
    if not later or len(later) == len(opened):
        return False
    last = opened[-len(later) - 1]
    if last.relayed or last.expiry_s != 0 or last.noticed_at is not None:
        return False
    if not any(peer.pipe is last.pipe for _, peer in client.superseded):
        return False  # the client has closed it, and the node has to notice that
    return all(
        any(ViewState.MINORITY in views.between(name, each.asked_at, each.opened_at) for name in (node, each.node))
        for each in later
    )


def pending(
    node: Node, clients: list[ModelClient], kept: bool, alone: bool = True, left: Collection[str] = ()
) -> list[str]:
    """Returns a sentence for everything that waits in a node and its clients. `kept`: the node has lost nothing.

    A node of a cluster (not `alone`) writes for every lease, so its store may be busy at rest. It may wait for the
    packets of the clients `left`.
    """
    found = [*clients_waiting(clients, kept), *_connections(node, left)]
    if (alone and node.env.store.bytes_waiting) or node.env.store.state != "serving":
        found.append(f"the store, {node.env.store.state}, {node.env.store.bytes_waiting} bytes")
    if len(node.cleanup):
        found.append(f"{len(node.cleanup)} ranges of garbage")
    for session in node.sessions.in_memory():
        queue = session.queue
        if session.online and (queue.size or queue.inflight) and session.client_id not in left:
            found.append(f"queue of {session.client_id}: {queue.size} waiting, {len(queue.inflight)} in flight")
        if not session.online and queue.inflight:
            found.append(f"queue of {session.client_id}: in flight without a connection")
    return found


def clients_waiting(clients: list[ModelClient], kept: bool) -> Iterator[str]:
    """Yield a sentence for each wait of a client. `kept`: the nodes have lost nothing."""
    for client in clients:
        if client.gone:
            continue
        if not client.connected:
            yield f"{client.name} is not connected"
        if client.sender.open:
            yield f"{client.name} waits for the answers to {list(client.sender.open)}"
        if client.connected and client.wants:
            yield f"{client.name} waits for SUBACK to {client.wants}"
        if client.receiver.held and kept:
            yield f"{client.name} waits for PUBREL of {list(client.receiver.held)}"


def _connections(node: Node, left: Collection[str]) -> Iterator[str]:
    for connection in node.connections.values():
        name = connection.client_id or "a connection without CONNECT"
        if connection.acks.waiting or connection.flow.held is not None or connection.flow.paused_for:
            flow = connection.flow
            waits = len(connection.acks.waiting)
            yield f"connection of {name}: {waits} answers wait, held {flow.held}, paused {sorted(flow.paused_for)}"
        if connection.acks.unacked and name not in left:
            yield f"connection of {name}: {connection.acks.unacked} unacknowledged"
        if connection.output.out:
            yield f"connection of {name}: output that was not flushed"


def leftovers(content: Mapping[bytes, bytes], elsewhere: Container[int] = ()) -> Iterator[str]:
    """Yield a sentence for each record on the disk that belongs to no session.

    `elsewhere`: the slots that the slot table does not name this node for. While such a slot has a mark on the disk, no
    session is made from its rows, and they need not be whole (3 nodes, copies, seed 1401332).
    """
    closed = {key[1] for key in content if key[:1] == b"h" and key[1] in elsewhere}
    if closed:
        content = {key: value for key, value in content.items() if key[0] not in SLOT_KINDS or key[1] not in closed}
    owners: set[bytes] = set()
    for key, value in content.items():
        if key[:1] == b"s":
            record = decode_session(key, value)
            owners.add(client_key(key[1], record.mountpoint, record.client_id) + record.incarnation.to_bytes(8, "big"))
    references: Counter[bytes] = Counter()
    for key, value in content.items():
        kind = key[:1]
        if kind in (b"q", b"b", b"i") and not any(key[1:].startswith(owner) for owner in owners):
            yield f"on disk without a session: {key!r}"
        if kind == b"q":
            mid = decode_entry(key, value).mid
            if mid:
                references[key[1:2] + mid] += 1
        if kind == b"j":
            yield f"on disk: garbage {key!r}"
    for key, value in content.items():
        if key[:1] == b"u" and int.from_bytes(value, "big") != references[key[1:]]:
            count = int.from_bytes(value, "big")
            yield f"on disk: body {key[1:]!r} counts {count}, {references[key[1:]]} entries have it"
        if key[:1] == b"p" and b"u" + key[1:] not in content:
            yield f"on disk: body {key[1:]!r} without a count"
    for mid in references:
        if b"p" + mid not in content:
            yield f"on disk: the body {mid!r} is missing"
