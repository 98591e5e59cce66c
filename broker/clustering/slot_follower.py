"""Follows the slot table: messages for the sessions of a slot go to the node that has the slot now (H-41, H-44)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...cluster.identity import slot_origin
from ...cluster.node import ClusterNode
from ...cluster.slots.table import SlotHome
from ..node import Node
from ..routing.ack_context import AckContext
from ..routing.remote import MOVING
from ..routing.router import AFTER_COMMIT
from .forward_receiver import ForwardReceiver
from .forward_sender import ForwardSender
from .outstanding_forward import OutstandingForward
from .route_advertiser import RouteAdvertiser
from .routes import Routes
from .slot_gate import SlotGate


class Traffic(Struct):
    """The parts that messages between nodes go through. `relay_sender` has those that this node relays."""

    gate: SlotGate
    receiver: ForwardReceiver
    sender: ForwardSender
    relay_sender: ForwardSender
    advertiser: RouteAdvertiser

    def drop_slot(self, slot: int, lost: bool = False) -> None:
        """The slot has left this node: forget what it has taken, and its open handshakes. `lost`: another node has
        taken it over, and may lack the last messages."""
        self.gate.drop(slot)
        if lost:
            self.receiver.lose_slot(slot)
        else:
            self.receiver.drop_slot(slot)
        self.sender.handshakes.forget(slot_origin(slot))


class SlotFollower:
    """Brings a new slot table to the routes, to the copies under way, and to the gate for the copies that arrive."""

    def __init__(self, node: Node, member: ClusterNode, routes: Routes, traffic: Traffic) -> None:
        self._node = node
        self._member = member
        self._routes = routes
        self._gate = traffic.gate
        self._receiver = traffic.receiver
        self._sender = traffic.sender
        self._senders = traffic.sender, traffic.relay_sender
        self._advertiser = traffic.advertiser
        self._sender.here = self._take_own
        self._unopened: set[int] = set()
        """Slots that are this node's by the table, and whose messages wait until their sessions are open here."""

    def follow(self) -> None:
        """The table of slots has changed: send messages to the present primaries, and announce the slots of this node.

        Messages for a slot without primary are kept for the node with its sessions. A repeated call changes nothing.
        """
        member, gate = self._member, self._gate
        locator = self._node.gateways.locator
        homes = locator.homes()
        placed = self._routes.place(homes)
        gate.table = member.slots.index
        gate.entered = gate.entered or member.own_holder is not None
        gate.contested = self._is_contested()
        self._sender.answers.boots.update({each.node: each.boot for each in member.view.incarnations})
        self._sender.follow(gate.table, self._open_places(placed.moved, homes))
        for each in self._senders:
            each.follow_table(gate.table)
        if any(each.parked for each in self._senders):
            elsewhere = self._node.router.elsewhere
            nodes = {slot: home.node for slot, home in enumerate(homes)}
            nodes.update({slot: place.node for slot, place in elsewhere.items() if place.node})
            present = {
                slot: node for slot, node in nodes.items() if node not in ("", MOVING) and self._is_open(slot, node)
            }
            for each in self._senders:
                each.unpark(present)
        if member.leased():
            self._sender.proven()
        if placed.arrived:
            self._advertiser.arrived(placed.arrived)
        member.links.try_again()  # refused copies may belong to this table

    def _open_places(
        self, moved: Mapping[int, tuple[str, str]], homes: Sequence[SlotHome]
    ) -> dict[int, tuple[str, str]]:
        """Where messages for slots that have moved go: those of a slot that is this node's by the table, and whose
        sessions are not open here yet, wait. Else the slot would count as having them (H-44)."""
        waited = {slot: (MOVING, homes[slot].node) for slot in self._unopened if homes[slot].node}
        places = {**moved, **waited}
        self._unopened = {slot for slot, (_, node) in places.items() if not self._is_open(slot, node)}
        places.update({slot: (places[slot][0], MOVING) for slot in self._unopened})
        return {slot: place for slot, place in places.items() if place != (MOVING, MOVING)}

    def _is_open(self, slot: int, node: str) -> bool:
        return node != self._node.name or slot not in self._node.sessions.elsewhere

    def _is_contested(self) -> bool:
        """True if messages for a slot without primary are sent to this node, and must wait for its next primary.

        Another holder may be the next one, and would lack what this node has taken.
        """
        table = self._member.slots
        rows = [table.row(slot) for slot in table.slots_by_primary.get(None, ())]
        return any(row.home == self._node.name and len(row.in_sync) > 1 for row in rows)

    def _take_own(self, copy: OutstandingForward) -> None:
        """A message of this node was on its way to slots that are here now: give it to their sessions, unless they had
        it before they came."""
        node, message = self._node, copy.message
        number = (node.env.numbers.boot, copy.number)
        slots = tuple([s for s in copy.slots if not copy.number or self._gate.last(s, node.name) < number])
        if message.remembered:
            slots = tuple(self._receiver.take_own(message, slots))
        unsafe = self._gate.unsafe
        if unsafe and len(slots) < len(copy.slots) and copy.pending is not None:
            # a copy of such a slot has the message, and perhaps only in memory
            node.env.store.when_committed(unsafe, copy.pending.add().complete)
        if not slots:
            return
        if copy.again:
            message = replace(message, again=True)
        wait = node.router.deliver(message, node.router.plans(message.mountpoint), False, slots, (), AckContext())
        if wait == AFTER_COMMIT and copy.pending is not None:
            node.env.store.when_committed(node.env.store.open_commit, copy.pending.add().complete)
