"""Moves slots with their sessions between nodes: both ends, and what stays behind (docs/cluster.md#moving-a-slot).

The rows of a slot are the sessions, as after a kill. So the new node continues them as it would after its own restart,
and everything that was acknowledged is there. `slot_departure.py` and `slot_arrivals.py` have the two ends,
`slot_transfer.py` the messages between them, `slots/handover.py` the change of the slot table.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from itertools import islice

from ...cluster.node import ClusterNode
from ...cluster.ports import Datagram
from ...mqtt.topics import parse_shared
from ...storage import keys
from ...storage.engine import StorageError
from ..node import Node
from ..queues.records import RecordError
from ..routing.remote import MOVING, Elsewhere
from ..sessions.slot_sessions import ARRIVING
from .slot_arrivals import SlotArrivals
from .slot_departure import ASKING, CLOSING, CLOSING_MS, COPYING, Copying, Departure
from .slot_follower import Traffic
from .slot_handover import SlotHandover
from .slot_leftovers import SlotLeftovers
from .slot_transfer import (
    PIECE_BYTES,
    Attempt,
    Declined,
    Drop,
    Offer,
    Piece,
    Ready,
    SlotMessage,
    Took,
    decode_message,
    encode_message,
    pieces,
)

ANNOUNCED = 200
"""Subscriptions of a slot that one turn announces."""


class SlotMoves:
    """The moves of one node. `unknown` says what the registrar does not know yet of the clients of a slot; "" if
    nothing. `changed` is called when a slot was closed or opened here without a change of the table."""

    def __init__(
        self,
        node: Node,
        member: ClusterNode,
        handover: SlotHandover,
        traffic: Traffic,
        unknown: Callable[[int], str],
        changed: Callable[[], None],
    ) -> None:
        self._node = node
        self._member = member
        self._handover = handover
        self._traffic = traffic
        self._unknown = unknown
        self._changed = changed
        self.departure: Departure | None = None
        self._copying: Copying | None = None
        self._arrivals = SlotArrivals(node, member, self._send)
        self._leftovers = SlotLeftovers(node, member.metadata.get, self._cleared)

    @property
    def closed(self) -> Container[int]:
        """The slots in which no session may begin at this node."""
        return () if self.departure is None else (self.departure.slot,)

    # -- giving a slot away

    def begin(self, slot: int, target: str, done: Callable[[str], None]) -> None:
        """Give a slot of this node to another node that serves. `done` is called once, with "" or the reason why the
        slot stays."""
        departure = self.departure
        if departure is not None and (departure.slot, departure.target.node) == (slot, target):
            departure.done.append(done)
            return
        problem = self._problem(slot, target)
        if problem:
            done(problem)
            return
        env = self._node.env
        row = self._member.slots.row(slot)
        attempt = Attempt(slot, row.epoch, row.version, env.numbers.unique())
        holder = self._member.membership.holders()[target]
        departure = self.departure = Departure(attempt, row, holder, self._member.ports.now_ms(), [done])
        env.event("slot.move", slot=slot, target=target)
        env.log(
            "info", f"slot {slot} moves to {target}: its clients are disconnected, and can connect again after that"
        )
        self._node.slot_sessions.disconnect(slot)
        self._changed()

        def flushed() -> None:
            departure.flushed = True
            self.tick()

        env.store.flush(flushed)

    def _problem(self, slot: int, target: str) -> str:
        """Return why this node cannot begin to move the slot; "" if it can."""
        member = self._member
        row = member.slots.row(slot)
        if self.departure is not None:
            return f"{self._node.name} is just moving slot {self.departure.slot}: one slot moves at a time"
        if not member.leased() or member.own_holder is None:
            return f"{self._node.name} has no lease"
        if row.primary != member.own_holder:
            where = row.primary.node if row.primary is not None else "no node"
            return f"{where} is the primary of slot {slot}, not {self._node.name}"
        if target == self._node.name:
            return f"{target} is the primary of slot {slot} already"
        if target not in member.view.serving:
            return f"{target} does not serve now"
        if slot in self._handover.closed or row.in_sync != (row.primary,):
            return f"slot {slot} is being handed over"
        return ""

    def tick(self) -> None:
        """Continue. Call it often."""
        departure = self.departure
        if departure is None or departure.phase == ASKING:
            return
        now_ms = self._member.ports.now_ms()
        if departure.phase == CLOSING:
            departure.waits_for = self._busy(departure)
            if not departure.waits_for:
                self._leave(departure)
            elif now_ms - departure.begun_ms >= CLOSING_MS:
                self._abort(departure.waits_for)
        elif self._copying is not None and not self._copying.tick(now_ms):
            self._abort(f"{departure.target.node} has not answered in time {departure.waits_for}".strip())
        else:
            self._ask(departure)

    def _busy(self, departure: Departure) -> str:
        slot = departure.slot
        if not departure.flushed:
            return "the disk has not all changes of its sessions"
        unknown = self._unknown(slot)
        if unknown:
            return unknown
        node = self._traffic.sender.publishes_of(slot)
        if node:
            return f"{node} has not acknowledged what a client of this slot has published"
        try:
            return self._node.slot_sessions.busy(slot)
        except StorageError as error:
            return f"the disk cannot be read: {error}"

    def _leave(self, departure: Departure) -> None:
        """Leave the sessions to the disk, and begin to copy them."""
        node, slot = self._node, departure.slot
        for session in node.sessions.in_memory():
            for record in session.inbound.records.values():
                if record.routed and not record.done and slot not in record.slots:
                    # the client may repeat it: then the target gets a copy, although these sessions have the message
                    self._traffic.receiver.keep(node.name, (record.boot, record.counter), (slot,))
        node.slot_sessions.leave(slot)
        self._traffic.gate.sealed.add(slot)
        departure.phase = COPYING
        rows = self._counted(departure, node.slot_sessions.rows(slot))
        stream = pieces(rows, min(PIECE_BYTES, self._member.settings.links.max_payload_bytes // 2))
        self._copying = Copying(departure, stream, lambda message: self._send(departure.target.node, message))

        def safe() -> None:
            departure.safe = True
            self._ask(departure)

        node.env.store.flush(safe)
        self._changed()
        self._copying.begin(self._member.ports.now_ms())

    def _counted(self, departure: Departure, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for key, value in rows:
            departure.sessions += key[:1] == b"s"
            yield key, value

    def _ask(self, departure: Departure) -> None:
        """If the target has everything, ask the leader to make it the primary. From now on only the table decides."""
        if (
            departure is self.departure
            and departure.phase == COPYING
            and departure.safe
            and self._copying is not None
            and self._copying.complete
        ):
            departure.phase = ASKING
            self._handover.give(departure.row, departure.target)

    def _abort(self, reason: str) -> None:
        """The slot stays here."""
        self._end(reason)
        self._changed()

    def _end(self, reason: str) -> None:
        departure, copying = self.departure, self._copying
        assert departure is not None
        slot = departure.slot
        self.departure = self._copying = None
        self._traffic.gate.sealed.discard(slot)
        if copying is not None:
            copying.drop()
            self._open(slot)
        text = f"slot {slot} stays at {self._node.name}: {reason}"
        self._node.env.event("slot.stay", slot=slot, target=departure.target.node, reason=reason)
        self._node.env.log("warning", text)
        for done in departure.done:
            done(text)

    def _open(self, slot: int) -> None:
        try:
            self._node.slot_sessions.open(slot)
        except StorageError as error:
            self._node.env.log("error", f"deadlines of slot {slot} are not watched until the next start: {error}")

    # -- the table

    def table_changed(self) -> None:
        """View or table have changed, and `SlotHandover` has followed: end or complete what depends on them."""
        own = self._member.own_holder
        if self.departure is not None:
            self._follow_departure(self.departure)
        for slot in self._arrivals.follow(own):
            self._arrived(slot)
        if own is not None:
            for slot in list(self._node.slot_sessions.marks):
                self._settle(slot)
        self._place()

    def _follow_departure(self, departure: Departure) -> None:
        member, slot = self._member, departure.slot
        row, own = member.slots.row(slot), member.own_holder
        if departure.phase == ASKING:
            if slot in self._handover.closed:
                return
            if row.home == departure.target.node:
                self._departed(departure)
            else:
                self._end(f"{departure.target.node} has left before it was the primary")
        elif own is None or row.primary != own:
            self._end(f"{self._node.name} is not the primary any more")
        elif row.version != departure.row.version or departure.target not in member.membership.holders().values():
            self._end(f"{departure.target.node} has left")

    def _departed(self, departure: Departure) -> None:
        slot = departure.slot
        self.departure = self._copying = None
        self._traffic.gate.sealed.discard(slot)
        self._traffic.gate.drop(slot)
        took_ms = round(self._member.ports.now_ms() - departure.begun_ms)
        env, target, sessions = self._node.env, departure.target.node, departure.sessions
        env.event("slot.moved", slot=slot, target=target, sessions=sessions, bytes=departure.moved_bytes)
        env.log(
            "notice",
            f"slot {slot} is at {target} now, with {sessions} durable sessions: "
            f"{departure.moved_bytes >> 10} KiB in {took_ms} ms",
        )
        for done in departure.done:
            done("")

    def _arrived(self, slot: int) -> None:
        """This node has become the primary of a slot that arrived: continue its sessions."""
        self._traffic.receiver.load_slots((slot,))
        self._traffic.advertiser.recount()
        self._open(slot)
        self._node.env.event("slot.arrive", slot=slot)
        self._node.env.log("notice", f"slot {slot} is at this node now, with its durable sessions")
        self._node.env.after_turn(lambda: self._announce(slot, self._subscriptions(slot)))

    def _settle(self, slot: int) -> None:
        """A slot with a mark is not moving any more: open it if it is at this node, else delete its rows."""
        if slot in self._arrivals or slot in self._leftovers:
            return
        if self.departure is not None and self.departure.slot == slot:
            return
        row, own, me = self._member.slots.row(slot), self._member.own_holder, self._member.me
        if row.primary == own:
            if self._node.slot_sessions.marks[slot] == ARRIVING:
                text = f"slot {slot} was lost while it moved here: some of its sessions are missing"
                self._node.env.log("error", text)
            self._arrived(slot)
        elif (me.node, me.disk) not in [(holder.node, holder.disk) for holder in row.in_sync]:
            self._leftovers.start(slot)

    def _cleared(self, slot: int) -> None:
        self._node.env.log("info", f"the rows of slot {slot}, which is at another node, are deleted")

    def _place(self) -> None:
        """Tell the router where the sessions of these slots are."""
        router, locator = self._node.router, self._node.gateways.locator
        for slot in list(router.elsewhere):
            home = locator.home_of(slot)
            known = home.node not in ("", self._node.name, MOVING)
            router.place(slot, Elsewhere(home.node, not home.present) if known else Elsewhere(MOVING, True))

    # -- routes of a slot that has come

    def _subscriptions(self, slot: int) -> Iterator[tuple[str, str, str | None]]:
        """Yield mountpoint, filter and group of each subscription of the slot. Raises `StorageError`."""
        start, stop = keys.of_slot(b"b", slot), keys.after(keys.of_slot(b"b", slot))
        while found := self._node.env.store.keys(start, stop, ANNOUNCED):
            for key in found:
                client, text = keys.parse_subscription_key(key)
                group, text = parse_shared(text)
                yield keys.mountpoint_of(client), text, group
            start = found[-1] + b"\x00"

    def _announce(self, slot: int, subscriptions: Iterator[tuple[str, str, str | None]]) -> None:
        """Write the routes of this node for some of the subscriptions."""
        if self._node.env.store.state == "closed":
            return
        try:
            some = list(islice(subscriptions, ANNOUNCED))
        except StorageError as error:
            self._node.env.log("error", f"the subscriptions of slot {slot} cannot be announced: {error}")
            return
        for mountpoint, text, group in some:
            self._traffic.advertiser.announce(mountpoint, text, group, slot)
        if some:
            self._node.env.after_turn(lambda: self._announce(slot, subscriptions))

    # -- messages

    def _send(self, node: str, message: SlotMessage) -> None:
        self._member.links.datagram(node, Datagram.SLOT_MOVE, encode_message(message))

    def received(self, node: str, data: bytes) -> None:
        """A message of another node. Raises `MalformedFrame`."""
        message = decode_message(data)
        self._node.env.tick()
        if isinstance(message, Offer):
            self._arrivals.offered(node, message.attempt)
        elif isinstance(message, Piece):
            self._arrivals.took(node, message)
        elif isinstance(message, Drop):
            self._arrivals.dropped(node, message.attempt)
            self.table_changed()
        else:
            self._answered(node, message)

    def _answered(self, node: str, message: Ready | Declined | Took) -> None:
        departure, copying = self.departure, self._copying
        if departure is None or copying is None or departure.attempt != message.attempt:
            return
        if node != departure.target.node or departure.phase != COPYING:
            return
        now_ms = self._member.ports.now_ms()
        try:
            if isinstance(message, Ready):
                copying.ready(now_ms)
            elif isinstance(message, Took):
                copying.took(message.seq, now_ms)
            else:
                departure.waits_for = f"({message.reason})"
        except (StorageError, RecordError) as error:
            self._abort(f"its rows cannot be read: {error}")
            return
        self._ask(departure)
