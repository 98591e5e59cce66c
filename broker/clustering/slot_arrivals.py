"""The slots whose rows arrive at this node from their primary (H-45).

    arriving   some rows are on disk
    arrived    all of them are, and a mark says so; the former node may ask the leader to make this node the primary

Only the slot table opens a slot here. It also ends an attempt: a row of another version was not made for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ...cluster.links.frames import MalformedFrame
from ...cluster.node import ClusterNode
from ...cluster.slots.table import Holder
from ...storage.engine import StorageError
from ..node import Node
from ..queues.records import RecordError
from ..routing.remote import Elsewhere
from ..sessions.slot_sessions import ARRIVED, KEPT
from .slot_transfer import Attempt, Declined, Piece, Ready, RowStream, SlotMessage, Took

AHEAD_BYTES = 1 << 20
"""While fewer bytes wait for the disk, a piece is answered before it is on disk. The last one never is."""


GIVEN_UP = "it has given this attempt up"
"""The answer about an attempt that is over."""


class _Arrival(msgspec.Struct, eq=False):
    """An attempt: the node that gives the slot away, this process in the view when it began, and the next piece.
    `commit` is the batch for which the answer to the last piece waits."""

    node: str
    attempt: Attempt
    own: Holder | None
    stream: RowStream
    expected: int = 0
    commit: int = 0
    complete: bool = False


class SlotArrivals:
    """The slots that are arriving. `send` sends a message to a node; `discard` deletes the rows of a slot in later
    turns."""

    def __init__(
        self,
        node: Node,
        member: ClusterNode,
        send: Callable[[str, SlotMessage], None],
        discard: Callable[[int], None],
    ) -> None:
        self._node = node
        self._member = member
        self._send = send
        self._discard = discard
        self._arrivals: dict[int, _Arrival] = {}

    def __contains__(self, slot: object) -> bool:
        return slot in self._arrivals

    def __iter__(self) -> Iterator[int]:
        return iter(self._arrivals)

    def offered(self, node: str, attempt: Attempt) -> None:
        """A node offers a slot."""
        arrival = self._arrivals.get(attempt.slot)
        if arrival is None or arrival.attempt != attempt:
            reason = self._problem(node, attempt)
            if reason:
                self._send(node, Declined(attempt, reason))
                return
            self._node.slot_sessions.begin(attempt.slot)
            self._node.router.place(attempt.slot, Elsewhere(node, False))
            self._arrivals[attempt.slot] = _Arrival(node, attempt, self._member.own_holder, RowStream())
        self._send(node, Ready(attempt))

    def _problem(self, node: str, attempt: Attempt) -> str:
        """Return why this node does not take the slot now; "" if it does."""
        member, slot = self._member, attempt.slot
        row = member.slots.row(slot)
        if member.own_holder is None or not member.leased():
            return "it has no lease"
        if member.lease_service is not None and member.lease_service.leaves:
            return "it leaves the cluster"
        if not self._node.sessions.startup.complete:
            return "it is still loading its sessions"
        if row.primary is None or (row.primary.node, row.epoch, row.version) != (node, attempt.epoch, attempt.version):
            return "it follows another slot table"
        if slot in self._arrivals or slot in self._node.slot_sessions.marks:
            if self._node.slot_sessions.marks.get(slot) == KEPT:
                self._discard(slot)  # no copy comes: the slot moves as a whole
            return "it has not deleted the rows of an earlier move yet"
        try:
            if self._node.slot_sessions.strange_rows(slot):
                return "its disk has sessions of this slot, which no client can reach"
        except StorageError as error:
            return f"its disk cannot be read: {error}"
        return ""

    def took(self, node: str, piece: Piece) -> None:
        """The next piece of the rows of a slot. Raises `MalformedFrame`."""
        arrival = self._arrivals.get(piece.attempt.slot)
        if arrival is None or arrival.attempt != piece.attempt or arrival.node != node:
            self._send(node, Declined(piece.attempt, GIVEN_UP))
            return
        store = self._node.env.store
        if piece.seq == arrival.expected:
            try:
                for key, value in arrival.stream.take(piece.data):
                    if len(key) < 2 or key[1] != piece.attempt.slot:
                        raise MalformedFrame(f"a row of another slot than {piece.attempt.slot}: {key[:16]!r}")
                    self._node.slot_sessions.apply(key, value)
            except RecordError as error:
                self._send(node, Declined(piece.attempt, str(error)))
                return
            if piece.last:
                if not arrival.stream.complete:
                    raise MalformedFrame(f"the rows of slot {piece.attempt.slot} end within a row")
                self._node.slot_sessions.mark(piece.attempt.slot, ARRIVED)
                arrival.complete = True
            arrival.expected += 1
            hurries = not piece.last and store.bytes_waiting < AHEAD_BYTES
            arrival.commit = 0 if hurries else store.open_commit
            store.when_landed(arrival.commit, lambda: self._answer(arrival, piece.seq))
        elif piece.seq == arrival.expected - 1 and arrival.commit <= store.landed:
            self._answer(arrival, piece.seq)

    def _answer(self, arrival: _Arrival, seq: int) -> None:
        if self._arrivals.get(arrival.attempt.slot) is arrival:
            self._send(arrival.node, Took(arrival.attempt, seq))

    def dropped(self, node: str, attempt: Attempt) -> None:
        """The former node has ended the attempt, and repeats that until it gets an answer."""
        arrival = self._arrivals.get(attempt.slot)
        if arrival is not None and arrival.attempt == attempt and arrival.node == node:
            del self._arrivals[attempt.slot]
        self._send(node, Declined(attempt, GIVEN_UP))

    def follow(self, own: Holder | None) -> list[int]:
        """The slot table has changed; `own` is this process in the view. Returns the slots that this node has got.

        An attempt that the table has passed over is forgotten, and so is one of a former entrance of this node. Its
        mark stays, with its rows.
        """
        got = []
        for slot, arrival in list(self._arrivals.items()):
            row = self._member.slots.row(slot)
            if own is not None and row.primary == own and arrival.complete:
                got.append(slot)
                del self._arrivals[slot]
            elif own != arrival.own or (own not in row.in_sync and row.version != arrival.attempt.version):
                del self._arrivals[slot]
        return got
