"""Closes connections whose clients wait for answers that this node must not give any more (H-14, H-55)."""

from __future__ import annotations

from ...mqtt.reasons import ReasonCode
from ..connection.ack_queue import REGISTER
from ..connection.connection import LEASE_LOST, ClientConnection
from ..connection.refusal import give_up
from ..node import Node
from .incident_monitor import IncidentMonitor

NO_SLOT = "other nodes have got slots of this node, which was out of the view: send again"


def slots_lost(node: Node, incidents: IncidentMonitor) -> None:
    """Other nodes have got slots of this one, and may lack what waits for their copies. Whatever the policies say, this
    node answers nothing that waits: the clients repeat it (H-55)."""
    for connection in list(node.connections.values()):
        if connection.acks.waiting:
            close(connection, incidents, NO_SLOT)
    cancel_forwards(node)


def close(connection: ClientConnection, incidents: IncidentMonitor, reason: str) -> None:
    """Close a connection without its answers."""
    unanswered = connection.acks.unanswered()
    incidents.count("voided", unanswered)
    if "register" in unanswered:
        give_up(connection, REGISTER, reason)
    else:
        connection.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, reason, LEASE_LOST)


def cancel_forwards(node: Node) -> None:
    """Publishers that repeat a message of an open handshake may have no answer: other nodes get it again."""
    for session in node.sessions.in_memory():
        session.inbound.cancel_forwards()
