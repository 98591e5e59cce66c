"""The slots of one node in a cluster: which it has, which it gives away or gets, and where messages for them go."""

from __future__ import annotations

from collections.abc import Collection

from ...cluster.node import ClusterNode
from ..node import Node
from .routes import Routes
from .slot_follower import SlotFollower, Traffic
from .slot_handover import SlotHandover
from .slot_moves import SlotMoves
from .table_locator import TableLocator


class ClusterSlots:
    """The parts of a node that follow the slot table."""

    def __init__(self, node: Node, member: ClusterNode, routes: Routes, traffic: Traffic) -> None:
        self._node = node
        self._member = member
        self.follower = SlotFollower(node, member, routes, traffic)
        self.handover = SlotHandover(member, self._empty, node.env.log)
        self.moves = SlotMoves(
            node,
            member,
            self.handover,
            traffic,
            self._unknown,
            self._closed_or_opened,
        )
        self.locator = TableLocator(member, self, traffic.gate.sealed)

    def __contains__(self, slot: object) -> bool:
        """True for a slot in which no session may begin at this node, although it is the primary."""
        return slot in self.handover.closed or slot in self.moves.closed

    def is_primary(self, slot: int) -> bool:
        """True if no other node can be the primary of a slot of this node: it has a lease, so no view without it is
        applied anywhere, and it is not giving the slot away."""
        return self._member.leased() and slot not in self

    def _empty(self, slots: Collection[int]) -> list[int]:
        """Return those of these slots that have no session here, and whose clients at other nodes are all known."""
        registrar = self._node.gateways.registration.registrar
        empty = [slot for slot in self._node.sessions.empty(slots) if slot not in self.moves.closed]
        return [slot for slot in empty if registrar.is_complete(slot)]

    def _unknown(self, slot: int) -> str:
        """Return what the registrar does not know yet of the clients of a slot; "" if nothing."""
        registration = self._node.gateways.registration
        if not registration.registrar.is_complete(slot):
            return "not all nodes have said which clients of this slot they have"
        if registration.local.resolving(slot):
            # the next registrar would take such a client for one that has asked for no session
            return "other nodes have not answered a client of this slot, whose connection has ended"
        return ""

    def follow(self) -> None:
        """The table has changed: first the sessions that have come or gone, then the messages for them."""
        self.handover.table_changed()
        self.moves.table_changed()
        self.follower.follow()

    def _closed_or_opened(self) -> None:
        """A slot was closed or opened here, although the table has not changed."""
        self.follower.follow()
        self._node.gateways.table_changed()

    def tick(self) -> None:
        """Continue what was begun. Call it often."""
        if not self._member.closed and not self._node.closing:
            self.handover.tick(self._member.ports.now_ms())
            self.moves.tick()
