"""Moves slots with their sessions between nodes: both ends, and what stays behind (docs/cluster.md#moving-a-slot).

The rows of a slot are the sessions, as after a kill. So the new node continues them as it would after its own restart,
and everything that was acknowledged is there. `slot_departure.py` and `slot_arrivals.py` have the two ends,
`slot_transfer.py` the messages between them, `slots/handover.py` the change of the slot table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

from ...cluster.node import ClusterNode
from ...cluster.ports import Datagram
from ...storage.engine import StorageError
from ..node import Node
from ..queues.records import RecordError
from .slot_arrivals import SlotArrivals
from .slot_departure import (
    ASKING,
    CLOSING,
    CLOSING_MS,
    COPYING,
    FILL_MS,
    FILLING,
    PARTING,
    PARTING_MS,
    Copying,
    Departure,
)
from .slot_follower import Traffic
from .slot_handover import SlotHandover
from .slot_opening import SlotOpening
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


class SlotMoves:
    """The moves of one node. `unknown` says what the registrar does not know yet of the clients of a slot; "" if
    nothing. `changed` is called when a slot was closed or opened here without a change of the table. `preferred`: slot
    -> the node that must get a copy of it."""

    def __init__(
        self,
        node: Node,
        member: ClusterNode,
        handover: SlotHandover,
        traffic: Traffic,
        opening: SlotOpening,
        unknown: Callable[[int], str],
        changed: Callable[[], None],
        preferred: dict[int, str],
    ) -> None:
        self._node = node
        self._member = member
        self._handover = handover
        self._traffic = traffic
        self._opening = opening
        self._preferred = preferred
        self._unknown = unknown
        self._changed = changed
        self.departure: Departure | None = None
        self._copying: Copying | None = None
        self._dropped: dict[Attempt, Copying] = {}
        """Attempts that are over, and whose target has not said yet that it knows."""
        self.arrivals = SlotArrivals(node, member, self._send, opening.leftovers.start)

    @property
    def closed(self) -> Collection[int]:
        """The slots in which no session may begin at this node."""
        departure = self.departure
        return () if departure is None or departure.phase == FILLING else (departure.slot,)

    @property
    def kept(self) -> set[int]:
        """The slots that must not be handed over as empty ones: those that move, and those that have stayed and whose
        last target may have all rows, which it would open."""
        return {*self.closed, *[attempt.slot for attempt in self._dropped]}

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
        if self._node.options.queue_replicas > 1 and holder not in row.in_sync:
            env.log("info", f"slot {slot} is to move to {target}, which gets a copy of it first")
            self._preferred[slot] = target
            departure.phase = FILLING
            self.tick()
        else:
            self._close(departure)

    def _close(self, departure: Departure) -> None:
        """Disconnect the clients of the slot: no session of it begins any more."""
        env, slot, target = self._node.env, departure.slot, departure.target.node
        departure.phase = PARTING
        departure.begun_ms = self._member.ports.now_ms()
        env.log(
            "info", f"slot {slot} moves to {target}: its clients are disconnected, and can connect again after that"
        )
        self._node.slot_sessions.disconnect(slot, leaving=False)
        self._changed()
        self._part(departure, departure.begun_ms)

    def _part(self, departure: Departure, now_ms: float) -> None:
        """Once the last packets of the clients that have gone are handled, wait for what the clients have published."""
        sessions, slot = self._node.slot_sessions, departure.slot
        if sessions.connections(slot) and now_ms - departure.begun_ms < PARTING_MS:
            return
        sessions.disconnect(slot)
        departure.phase = CLOSING
        departure.begun_ms = now_ms

        def flushed() -> None:
            departure.flushed = True
            self.tick()

        # a copy of another slot may lack what a client of this slot has published
        self._node.env.store.when_all_safe(flushed)

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
        if target in member.full:
            return _takes_none(target)
        if slot in self._handover.closed:
            return f"slot {slot} is being handed over"
        return ""

    def cancel(self, reason: str) -> None:
        """End a move of which the clients have not noticed anything. Any other goes on."""
        if self.departure is not None and self.departure.phase == FILLING:
            self._abort(reason)

    def tick(self) -> None:
        """Continue. Call it often."""
        departure = self.departure
        now_ms = self._member.ports.now_ms()
        self._repeat_ends(now_ms)
        if departure is None or departure.phase == ASKING:
            return
        if departure.phase == FILLING:
            self._fill(departure, now_ms)
        elif departure.phase == PARTING:
            self._part(departure, now_ms)
        elif departure.phase == CLOSING:
            departure.waits_for = self._busy(departure)
            if not departure.waits_for:
                self._leave(departure)
            elif now_ms - departure.begun_ms >= CLOSING_MS:
                self._abort(departure.waits_for)
        elif not departure.safe and not self._node.env.store.accepting:
            # without the mark on the disk the slot cannot leave, and until then other messages wait behind those for it
            self._abort(f"the disk of {self._node.name} is {self._node.env.store.state}")
        elif self._copying is not None and not self._copying.tick(now_ms):
            self._abort(f"{departure.target.node} has not answered in time {departure.waits_for}".strip())
        else:
            self._ask(departure)

    def _fill(self, departure: Departure, now_ms: float) -> None:
        """Wait until the target has a copy."""
        row = self._member.slots.row(departure.slot)
        if departure.target in row.in_sync:
            departure.row = row
            self._close(departure)
        elif departure.target.node in self._member.full:
            self._abort(_takes_none(departure.target.node))
        elif now_ms - departure.begun_ms >= FILL_MS:
            self._abort(f"{departure.target.node} has not got a copy within {FILL_MS // 1000} s")

    def _repeat_ends(self, now_ms: float) -> None:
        for dropped in self._dropped.values():
            dropped.repeat(now_ms)

    def _busy(self, departure: Departure) -> str:
        slot = departure.slot
        if not departure.flushed:
            return "not all nodes have all changes of its sessions"
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
            for packet_id, record in session.inbound.records.items():
                if packet_id in session.inbound.inherited:
                    continue  # the slot has noted it, or lacks the message
                if record.routed and not record.done and slot not in record.slots:
                    # the client may repeat it: then the target gets a copy, although these sessions have the message
                    origin, boot, counter = session.inbound.mid(record)
                    self._traffic.receiver.keep(origin, (boot, counter), (slot,))
        departure.left_open = node.slot_sessions.leave(slot)
        for origin, boot, counter in departure.left_open:
            self._traffic.receiver.keep_members(origin, (boot, counter))
        departure.phase = COPYING
        if departure.target in departure.row.in_sync:
            departure.copied = True
            with suppress(StorageError):  # the store reports it
                departure.sessions = node.slot_sessions.count(slot)
        else:
            self._copy(departure)

        def safe() -> None:
            departure.safe = True
            self._ask(departure)

        node.env.store.when_all_safe(safe)  # every copy has all changes then
        self._changed()

    def _copy(self, departure: Departure) -> None:
        rows = self._counted(departure, self._node.slot_sessions.rows(departure.slot))
        stream = pieces(rows, min(PIECE_BYTES, self._member.settings.links.max_payload_bytes // 2))
        self._copying = Copying(departure, stream, lambda message: self._send(departure.target.node, message))
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
            and (departure.copied or (self._copying is not None and self._copying.complete))
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
        self._over(slot)
        if copying is not None:
            self._dropped[departure.attempt] = copying
            copying.drop(self._member.ports.now_ms())
        if departure.phase in (COPYING, ASKING) and self._holds(slot):
            for origin, boot, counter in departure.left_open:  # its session opens it again
                self._traffic.sender.handshakes.of(origin).closed(boot, counter)
            self._opening.reopen(slot)
        text = f"slot {slot} stays at {self._node.name}: {reason}"
        self._node.env.event("slot.stay", slot=slot, target=departure.target.node, reason=reason)
        self._node.env.log("warning", text)
        for done in departure.done:
            done(text)

    def _over(self, slot: int) -> None:
        self.departure = self._copying = None
        self._preferred.pop(slot, None)

    def _holds(self, slot: int) -> bool:
        return self._node.gateways.locator.home_of(slot).node == self._node.name

    # -- the table

    def table_changed(self) -> None:
        """View or table have changed, and `SlotHandover` has followed: end or complete what depends on them."""
        own, present = self._member.own_holder, self._member.membership.holders()
        if self.departure is not None:
            self._follow_departure(self.departure)
        for attempt, dropped in list(self._dropped.items()):
            if own is None or present.get(dropped.departure.target.node) != dropped.departure.target:
                del self._dropped[attempt]
        self._opening.open(self.arrivals.follow(own), True)

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
        elif departure.phase == FILLING and departure.target in member.membership.holders().values():
            self._node.env.after_turn(self.tick)
        elif row.version != departure.row.version or departure.target not in member.membership.holders().values():
            self._end(f"{departure.target.node} has left")

    def _departed(self, departure: Departure) -> None:
        slot = departure.slot
        self._over(slot)
        self._traffic.drop_slot(slot)
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

    # -- messages

    def _send(self, node: str, message: SlotMessage) -> None:
        self._member.links.datagram(node, Datagram.SLOT_MOVE, encode_message(message))

    def received(self, node: str, data: bytes) -> bool:
        """Handle a message of another node about a move. Returns True if the message may have ended the arrival of a
        slot here. Raises `MalformedFrame`."""
        message = decode_message(data)
        self._node.env.tick()
        if isinstance(message, Offer):
            self.arrivals.offered(node, message.attempt)
        elif isinstance(message, Piece):
            self.arrivals.took(node, message)
        elif isinstance(message, Drop):
            self.arrivals.dropped(node, message.attempt)
        else:
            self._answered(node, message)
        return isinstance(message, Drop)

    def _answered(self, node: str, message: Ready | Declined | Took) -> None:
        departure, copying = self.departure, self._copying
        if message.attempt in self._dropped:
            if isinstance(message, Declined):
                del self._dropped[message.attempt]
            return
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


def _takes_none(target: str) -> str:
    return f"{target} takes no slots: its disk is full, or it leaves"
