"""Bugs planted in a node, to test that the checkers find them (docs/simulation.md).

A bug is applied to a node before the node opens its disk. The broker's code does not contain the bugs: they replace the
classes of its objects by those of `node_parts`, or change its objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...broker.connection.connection import ClientConnection
from ...broker.connection.transport import ClientTransport, ConnectionOrigin
from ...broker.node import Node
from ...broker.queues.durable_queue import DurableQueue
from ...broker.queues.message import Message
from ...broker.routing.ack_context import AckContext
from ...broker.routing.plans import Plan, PlanCache
from ...broker.routing.router import DELIVERED
from ...broker.sessions.absence import NEVER
from ...broker.sessions.inbound_qos2 import InboundHandshakes
from ...broker.sessions.session import Session
from ...storage.engine import Durability
from . import node_parts


@dataclass(frozen=True, slots=True)
class NodeBug:
    """One bug: `apply` plants it in a node, `about` describes it.

    `durability` is the real durability of the disk, if it differs from the swarm's. The bug must be found within
    `seeds` seeds from 0 on.
    """

    name: str
    about: str
    seeds: int
    apply: Callable[[Node], None]
    durability: Durability | None = None


def _nothing(session: Session) -> None:
    """Change nothing."""


def _sessions(
    node: Node, made: Callable[[Session], None] = _nothing, restored: Callable[[Session], None] = _nothing
) -> None:
    sessions: Any = node.sessions
    sessions.__class__ = node_parts.AlteringSlots
    sessions.made, sessions.restored = made, restored


def queue_bug(kind: type[DurableQueue]) -> Callable[[Node], None]:
    """Returns a bug that changes the class of every durable queue to `kind`."""

    def made(session: Session) -> None:
        if session.durable:
            session.queue.__class__ = kind

    return lambda node: _sessions(node, made)


def session_bug(kind: type[Session]) -> Callable[[Node], None]:
    """Returns a bug that changes the class of every session to `kind`."""

    def made(session: Session) -> None:
        session.__class__ = kind

    return lambda node: _sessions(node, made)


def restore_bug(restored: Callable[[Session], None]) -> Callable[[Node], None]:
    """Returns a bug that changes every session restored by a restart."""
    return lambda node: _sessions(node, restored=restored)


def inbound_bug(kind: type[InboundHandshakes]) -> Callable[[Node], None]:
    """Returns a bug that changes the class of every session's inbound QoS 2 handshakes to `kind`."""

    def made(session: Session) -> None:
        session.inbound.__class__ = kind

    return lambda node: _sessions(node, made)


def connection_bug(alter: Callable[[ClientConnection], None]) -> Callable[[Node], None]:
    """Returns a bug that applies `alter` to every new connection."""

    def bug(node: Node) -> None:
        accept = node.accept

        def accepting(transport: ClientTransport, origin: ConnectionOrigin) -> ClientConnection:
            connection = accept(transport, origin)
            alter(connection)
            return connection

        node.accept = accepting  # type: ignore[method-assign]

    return bug


def _answers_before_commit(connection: ClientConnection) -> None:
    connection.acks.__class__ = node_parts.AnswersBeforeCommit


def _old_connection_kept(connection: ClientConnection) -> None:
    connection.__class__ = node_parts.OldConnectionKept


def _ack_before_commit(node: Node) -> None:
    route = node.router.route

    def routed(message: Message, plans: PlanCache, context: AckContext, plan: Plan | None = None) -> int:
        return min(DELIVERED, route(message, plans, context, plan))

    node.router.route = routed  # type: ignore[method-assign]


def _ids_from_one(node: Node) -> None:
    def restored(session: Session) -> None:
        queue: Any = session.queue
        if session.durable:
            queue.__class__ = node_parts.IdsFromOne
            queue.renumber()

    _sessions(node, restored=restored)


def _session_expiry_restarts(session: Session) -> None:
    if session.absence.expires_at and session.expiry_s != NEVER:
        session.absence.expires_at = session.env.now + session.expiry_s * 1000


def _will_delay_restarts(session: Session) -> None:
    if session.absence.will_at and session.will is not None:
        session.absence.will_at = session.env.now + 1000 + session.will.delay_s * 1000


def _will_lost(session: Session) -> None:
    session.will = None
    session.absence.will_at = 0


def _inbound_lost(session: Session) -> None:
    session.inbound.records.clear()


def _subscriptions_lost(session: Session) -> None:
    for text in list(session.subscriptions):
        subscription = session.subscriptions.pop(text)
        table = session.parts.router.table(session.mountpoint)
        table.remove(session.key, subscription.filter, subscription.group, session.durable)


def _unsent_counts_as_sent(session: Session) -> None:
    queue = session.queue
    if isinstance(queue, DurableQueue):
        queue.sent_below = queue.next_seq


def _wall_clock(node: Node) -> None:
    clock: Any = node.env.clock
    clock.__class__ = node_parts.WallClock


def _as_it_is(node: Node) -> None:
    """Change nothing: only the durability differs."""


NODE_BUGS: dict[str, NodeBug] = {
    bug.name: bug
    for bug in (
        NodeBug("ack-before-commit", "PUBACK and PUBREC do not wait for the commit", 20, _ack_before_commit),
        NodeBug("answers-before-commit", "no answer waits for the commit", 20, connection_bug(_answers_before_commit)),
        NodeBug("sync-without-fsync", "a commit ends before the disk has synced", 100, _as_it_is, "os"),
        NodeBug(
            "released-not-stored", "the arrival of PUBREC is not stored", 50, queue_bug(node_parts.ReleasedNotStored)
        ),
        NodeBug(
            "pubrel-before-stored",
            "PUBREL leaves before the arrival of PUBREC is stored",
            100,
            queue_bug(node_parts.PubrelBeforeStored),
        ),
        NodeBug(
            "publish-before-stored",
            "a QoS 2 PUBLISH leaves before it is stored",
            100,
            queue_bug(node_parts.PublishBeforeStored),
        ),
        NodeBug(
            "disk-means-safe",
            "an entry that was read back counts as committed",
            300,
            queue_bug(node_parts.DiskMeansSafe),
        ),
        NodeBug("ids-from-one", "packet ids begin at 1 after a restart", 50, _ids_from_one),
        NodeBug("newest-first", "a backlog is sent from its end", 50, queue_bug(node_parts.NewestFirst)),
        NodeBug("window-ignored", "the receive maximum is ignored", 50, queue_bug(node_parts.WindowIgnored)),
        NodeBug("inbound-lost", "inbound QoS 2 ids are lost at restart", 50, restore_bug(_inbound_lost)),
        NodeBug(
            "routed-too-early",
            "an inbound id is stored as routed before routing",
            100,
            inbound_bug(node_parts.InboundRoutedTooEarly),
        ),
        NodeBug("subscriptions-lost", "a restart forgets subscriptions", 20, restore_bug(_subscriptions_lost)),
        NodeBug(
            "session-expiry-restarts",
            "a restart restarts the session expiry",
            800,
            restore_bug(_session_expiry_restarts),
        ),
        NodeBug(
            "message-expiry-restarts",
            "a restart prolongs the message expiry",
            100,
            queue_bug(node_parts.MessageExpiryRestarts),
        ),
        NodeBug(
            "unsent-counts-as-sent",
            "a restart takes all messages in a queue for sent",
            100,
            restore_bug(_unsent_counts_as_sent),
        ),
        NodeBug("will-delay-restarts", "a restart restarts the will delay", 500, restore_bug(_will_delay_restarts)),
        NodeBug("will-lost", "a restart forgets wills", 100, restore_bug(_will_lost)),
        NodeBug(
            "will-twice", "a will stays on disk after it was published", 300, session_bug(node_parts.WillStaysOnDisk)
        ),
        NodeBug(
            "will-forgotten-first",
            "a will is deleted before it is published",
            100,
            session_bug(node_parts.WillForgottenFirst),
        ),
        NodeBug(
            "will-after-disconnect",
            "DISCONNECT does not discard the will",
            100,
            session_bug(node_parts.DisconnectKeepsWill),
        ),
        NodeBug("wall-clock", "deadlines follow the wall clock", 100, _wall_clock),
        NodeBug(
            "old-connection-kept",
            "a takeover does not close the old connection",
            20,
            connection_bug(_old_connection_kept),
        ),
        NodeBug(
            "nothing-cleaned-up", "ended sessions leave entries on disk", 100, queue_bug(node_parts.NothingCleanedUp)
        ),
        NodeBug("bodies-kept", "shared payloads are never deleted", 50, queue_bug(node_parts.BodiesKept)),
    )
}
"""Every bug by its name."""
