"""The slots of one node in a cluster: which it has, which it gives away or gets, and where messages for them go."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...cluster.node import ClusterNode
from ...cluster.ports import GOODBYE_S, Datagram
from ..node import Node
from .copy_check import CopyCheck
from .copy_codec import CopyAnswer, encode
from .copy_minimum import CopyMinimum
from .routes import Routes
from .slot_balance import SlotBalance
from .slot_copies import SlotCopies
from .slot_follower import SlotFollower, Traffic
from .slot_handover import SlotHandover
from .slot_moves import SlotMoves
from .slot_opening import SlotOpening
from .slot_replicator import SlotReplicator
from .slow_disks import SlowDisks
from .table_locator import TableLocator


class ClusterSlots:
    """The parts of a node that follow the slot table."""

    def __init__(
        self, node: Node, member: ClusterNode, routes: Routes, traffic: Traffic, abandon: Callable[[], None]
    ) -> None:
        """`abandon` closes the connections whose clients wait for an answer: other nodes have got slots of this one."""
        self._node = node
        self._abandon = abandon
        self._member = member
        self._replicas = node.options.queue_replicas
        env = node.env
        self.minimum = CopyMinimum(node, member)
        self.follower = SlotFollower(node, member, routes, traffic)
        self.handover = SlotHandover(member, self._empty, env.store.when_all_safe, env.log)
        self.opening = SlotOpening(node, member, traffic, self._some_opened)
        self.replicator = SlotReplicator(
            member, env, node.slot_sessions, env.options.queue_replicas, self, self.opening.lost, self._misplaced
        )
        self.check = CopyCheck(env, member.ports.now_ms, node.slot_sessions, self.replicator)
        self.slow_disks = SlowDisks(node, member, self.replicator)
        self.moves = SlotMoves(
            node,
            member,
            self.handover,
            traffic,
            self.opening,
            self._unknown,
            self._closed_or_opened,
            self.replicator.preferred,
        )
        self.balance = SlotBalance(node, member, self.handover, self.moves, self.replicator.lacking, self._unknown)
        self.copies = SlotCopies(node, member, traffic, self.opening, self.moves.arrivals, self._answer_primary)
        self.locator = TableLocator(
            member, self, traffic.gate.sealed, node.sessions.elsewhere, self.opening.perhaps_lost
        )
        if env.options.queue_replicas > 1:
            env.store.guard = self.replicator

    def __contains__(self, slot: object) -> bool:
        """True for a slot in which no session may begin at this node, although it is the primary: it gives the slot
        away, or has got it and opens it in a later turn."""
        return slot in self.handover.closed or slot in self.moves.closed or slot in self.opening.unopened

    def is_primary(self, slot: int) -> bool:
        """True if no other node can be the primary of a slot of this node: it has a lease, so no view without it is
        applied anywhere, and it is not giving the slot away."""
        return self._member.leased() and slot not in self

    @property
    def have_copies(self) -> bool:
        """True if slots get copies on other nodes."""
        return self._member.clustered and self._replicas > 1

    def is_copied(self, slot: int) -> bool:
        """As `ClusterPort.is_copied`."""
        own = self._member.own_holder
        return self.have_copies and own is not None and self._member.slots.row(slot).primary == own

    def continues(self, slot: int) -> bool:
        """As `ClusterPort.continues`."""
        return self.is_copied(slot) and len(self._member.slots.row(slot).in_sync) > 1

    def alone(self) -> list[int]:
        """Return the slots of which this node is the primary, and that no other node has."""
        own, table = self._member.own_holder, self._member.slots
        rows = [] if own is None else [table.row(slot) for slot in table.slots_by_primary.get(own.node, ())]
        return [row.slot for row in rows if row.in_sync == (own,)]

    @property
    def may_get_slots(self) -> bool:
        """True while slots with sessions may become this node's: it has a copy of them, or they are moving here. Also
        while it has not opened slots that it has got."""
        own, table = self._member.own_holder, self._member.slots
        follows = own is not None and any(own in row.in_sync and row.primary != own for row in table.rows)
        return follows or bool(len(self.copies) or list(self.moves.arrivals) or self.opening.unopened)

    @property
    def at_rest(self) -> bool:
        """True while this node neither hands over empty slots nor has slots to open."""
        waiting = set(self._misplaced()) - self.moves.kept
        return not (waiting or self.handover.closed or self.opening.unopened)

    def _empty(self, slots: Collection[int]) -> list[int]:
        """Return those of these slots that have no session here, and whose clients at other nodes are all known."""
        registrar = self._node.gateways.registration.registrar
        filling = self.replicator.filling
        kept = self.moves.kept | filling
        idle = [slot for slot in slots if slot not in kept]
        empty = self._node.sessions.empty(idle)
        return [slot for slot in empty if registrar.is_complete(slot)]

    def _misplaced(self) -> Collection[int]:
        """Return the empty slots that this node is about to hand over: the new primary decides about their copies."""
        return self._node.sessions.empty(self.handover.misplaced())

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
        """The table has changed: first what may be accepted, then the sessions that have come or gone, then the
        messages for them, and last the commits that wait for copies (H-46). What waited for the follower of a lost slot
        is never answered (H-55)."""
        self.minimum.follow()
        own = self._member.own_holder
        lost = self.opening.give_up()
        self.handover.table_changed()
        self.moves.table_changed()
        present = self._member.view.nodes
        got = self.copies.follow(own)
        for here in (True, False):
            self.opening.open([slot for slot, former in got if (former in present) is here], here)
        self._settle()
        self.follower.follow()
        if lost:
            self._abandon()
        self.replicator.follow(own)
        self.balance.follow()

    def received(self, node: str, data: bytes) -> None:
        """Handle a message of another node about the move of a slot. Raises `MalformedFrame`."""
        if self.moves.received(node, data):
            self._settle()

    def take(self, node: str, seq: int, payload: bytes) -> None:
        """Take the next item of a primary's lane, as `SlotCopies.take`."""
        self._settle_after(lambda: self.copies.take(node, seq, payload))

    def _settle_after(self, step: Callable[[], None]) -> None:
        """Run a step that may end copies. The rows of such a copy are kept or deleted at once: if the slot came empty
        before that, its mark would count as that of rows that came with it."""
        before = len(self.copies)
        try:
            step()
        finally:
            if len(self.copies) < before:
                self._settle()

    def _settle(self) -> None:
        """Nothing is decided about the rows of slots that are moving, or of which this node keeps a copy."""
        departure = self.moves.departure
        moving = () if departure is None else (departure.slot,)
        self.opening.settle({*moving, *self.moves.arrivals, *self.copies})
        self.opening.place()

    def _answer_primary(self, node: str, answer: CopyAnswer) -> None:
        self._member.links.datagram(node, Datagram.SLOT_COPY, encode(answer))

    def _closed_or_opened(self) -> None:
        """A slot was closed or opened here, although the table has not changed."""
        self.follower.follow()
        self._node.gateways.table_changed()

    def _some_opened(self) -> None:
        """Slots that this node has got were opened, or are another node's by now."""
        self._settle()
        self._closed_or_opened()

    def complete_copies(self, then: Callable[[], None]) -> None:
        """Let the followers get all changes: after the goodbye of this node one of them has its sessions. Call `then`
        after that, or after `GOODBYE_S` seconds."""
        waiting = [then]

        def go_on() -> None:
            if waiting:
                waiting.pop()()

        store = self._node.env.store
        if store.state in ("closed", "failed"):
            go_on()  # nothing of it becomes safe any more
            return
        self._member.ports.later(GOODBYE_S, go_on)
        store.when_all_safe(go_on)

    def tick(self) -> None:
        """Continue what was begun. Call it often."""
        if not self._member.closed and not self._node.closing:
            self.handover.tick(self._member.ports.now_ms())
            self.moves.tick()
            self.slow_disks.tick()
            self.replicator.tick()
            self.check.tick()
            self._settle_after(self.copies.tick)
            self.balance.tick()
            self.minimum.follow()  # an operator may have changed the setting
