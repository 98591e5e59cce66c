"""The copies that this node, a follower, keeps of slots of other nodes (docs/cluster.md#copies-of-a-slot).

    none       --Begin-->                                       filling    (the mark says ARRIVING)
    filling    --End-->                                         complete   (the mark says ARRIVED)
    any        --Over-->                                        none       (the primary has given the attempt up)
    complete   --the slot table names this node as primary-->   opened by `SlotMoves`
    any        --the table names another primary or epoch, or this node leaves the view-->   none

Rows of an earlier copy, or of a slot that this node has lost, are kept when a copy begins. From then on they get all
changes, and the primary finds out by digests which of them differ (`slot_comparison.py`).

The primary sends everything on one lane, in the order in which it happened there. So a row that was read for the copy
and a later change of it arrive in this order. An item is acknowledged when its rows are on this disk. The lane is held
while this process is in no view: an acknowledgement says that the process of the in-sync set has the changes.

Only the slot table makes a copy the sessions. `SlotOpening` keeps or deletes the rows of a copy that is over.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import partial
from math import inf

import msgspec
from msgspec.structs import replace

from ...cluster.links.frames import MalformedFrame
from ...cluster.links.ports import Lane, Refuse, Unreadable
from ...cluster.node import ClusterNode
from ...cluster.slots.table import Holder
from ...storage.engine import Passing, StorageError
from ..node import Node
from ..queues.records import RecordError
from ..routing.remote import COPIED, Elsewhere
from ..sessions.slot_sessions import ARRIVED
from .copy_codec import (
    Begin,
    Changes,
    Complete,
    CopyAnswer,
    CopyAttempt,
    CopyItem,
    Declined,
    Different,
    Digests,
    End,
    Ready,
    Rows,
    decode_item,
    pairs,
    unpacked,
)
from .slot_comparison import RowsBetween, differences
from .slot_follower import Traffic
from .slot_opening import SlotOpening

REPEAT_MS = 1_000
"""How often a request of this node is repeated, in ms."""


class _Copy(msgspec.Struct, eq=False):
    """A copy: the primary, the attempt, and this process in the view when it began.

    `kept`: this node had rows of the slot. `said`: the primary may know that the copy is complete, and ask for it in
    the in-sync set. If the same process of the primary begins anew, it has not asked, or for an earlier entrance of
    this node. `listed`: the table has had this process there. `problem`: why the copy cannot go on. `repaired`: rows
    that were wrong although the copy was complete, and that no event has told yet.
    """

    node: str
    attempt: CopyAttempt
    own: Holder
    kept: bool
    complete: bool = False
    said: bool = False
    listed: bool = False
    problem: str = ""
    repaired: int = 0


class _Acks(msgspec.Struct):
    """The items of a primary's lane without an acknowledgement: for each commit that they wait for, the last one."""

    boot: int
    waiting: dict[int, int] = {}


class SlotCopies:
    """The copies at one node. `busy`: the slots that are arriving here by a move. `send` sends an answer to a node."""

    def __init__(
        self,
        node: Node,
        member: ClusterNode,
        traffic: Traffic,
        opening: SlotOpening,
        busy: Container[int],
        send: Callable[[str, CopyAnswer], None],
    ) -> None:
        self._node = node
        self._member = member
        self._traffic = traffic
        self._opening = opening
        self._busy = busy
        self._send = send
        self._copies: dict[int, _Copy] = {}
        self._takes_none = ""
        self._acks: dict[str, _Acks] = {}
        self._asked_ms = -inf
        self._told_ms = -inf

    def __contains__(self, slot: object) -> bool:
        return slot in self._copies

    def __len__(self) -> int:
        return len(self._copies)

    def __iter__(self) -> Iterator[int]:
        return iter(self._copies)

    # -- items

    def opened(self, node: str, boot: int) -> None:
        """A process of a node has opened its stream. The copies that an earlier one fed stay until the slot table has
        another primary or epoch: a request of that process may still put them into the in-sync set."""
        known = self._acks.get(node)
        if known is None or known.boot != boot:
            self._acks[node] = _Acks(boot)

    def take(self, node: str, seq: int, payload: bytes) -> None:
        """Take the next item of a primary's lane. Raises `Refuse`, `Unreadable`.

        An item that cannot be read ends all copies of this primary: each of them may lack a change now. The lane is
        held until the slot table names this node no more.
        """
        own = self._member.own_holder
        if own is None:
            raise Refuse(f"{self._node.name} is in no view yet, and its copies are over")
        try:
            item = decode_item(payload)
        except MalformedFrame as error:
            self._end_all(node, str(error))
            raise Unreadable(str(error)) from None
        table = self._traffic.gate.table
        if isinstance(item, Begin) and item.table > table:
            raise Refuse(f"a copy belongs to slot table {item.table}, this node follows table {table}")
        self._handle(node, item, own)
        self._acknowledge(node, seq)

    def _handle(self, node: str, item: CopyItem, own: Holder) -> None:
        if isinstance(item, Changes):
            for part in item.parts:
                if self._is_fed(part.attempt, node):
                    for key, change in unpacked(item, part):
                        self._apply(key, change)
        elif isinstance(item, Begin):
            self._begin(node, item.attempt, own)
        elif isinstance(item, Digests):
            self._compare(node, item)
        elif isinstance(item, Rows):
            self._write(node, item)
        elif isinstance(item, End):
            self._end(node, item.attempt)
        elif self._is_fed(item.attempt, node):
            del self._copies[item.attempt.slot]  # the in-sync set never gets this attempt

    def _between(self, slot: int) -> RowsBetween:
        return partial(self._node.slot_sessions.rows, slot)

    def _compare(self, node: str, item: Digests) -> None:
        """Answer which ranges differ. The rows here have all changes from before the item, and none from behind it."""
        attempt = item.attempt
        if not self._is_fed(attempt, node):
            self._send(node, Declined(attempt, "it has no copy in this attempt"))
            return
        try:
            different, compared = differences(self._between(attempt.slot), item.after, item.ranges)
        except StorageError as error:
            self._cannot_read(attempt.slot, error)
            return
        self._send(node, Different(attempt, item.number, different, compared))

    def _write(self, node: str, item: Rows) -> None:
        """Make a range of a copy that this node still has equal to that of the primary. If the copy is complete, rows
        that differ were wrong (`copy_check.py`)."""
        attempt = item.attempt
        if not self._is_fed(attempt, node):
            return
        copy = self._copies[attempt.slot]
        sent, present = dict(pairs(item.rows)), dict[bytes, bytes]()
        try:
            if copy.kept or copy.complete:
                present = dict(self._node.slot_sessions.rows(attempt.slot, item.after, item.upto))
            for key in present:
                if key not in sent:
                    self._remove(key)
        except StorageError as error:
            self._cannot_read(attempt.slot, error)
            return
        for key, value in sent.items():
            if present.get(key) != value:
                self._apply(key, value)
        if copy.complete:
            wrong = sum([present.get(key) != sent.get(key) for key in present.keys() | sent.keys()])
            copy.repaired += wrong
            self._node.env.counters.queue_copy_repairs += wrong

    def _cannot_read(self, slot: int, error: StorageError) -> None:
        """The rows cannot be read: the copy ends before the primary can ask for it, or leaves the in-sync set. A lack
        of file descriptors ends no complete copy: it is compared later."""
        copy = self._copies[slot]
        if not (copy.complete and isinstance(error, Passing)):
            copy.problem = f"its disk cannot be read: {error}"
            self.tick()

    def _end_all(self, node: str, problem: str) -> None:
        for copy in self._copies.values():
            if copy.node == node and not copy.problem:
                copy.problem = problem
        self.tick()
        if any(copy.node == node for copy in self._copies.values()):
            raise Refuse(problem)

    def _is_fed(self, attempt: CopyAttempt, node: str) -> bool:
        copy = self._copies.get(attempt.slot)
        return copy is not None and copy.attempt == attempt and copy.node == node

    def _apply(self, key: bytes, value: bytes | None) -> None:
        try:
            self._node.slot_sessions.apply(key, value)
        except RecordError as error:
            # the primary has the same row, and reports it as well: the copy must have what the primary has
            self._node.env.log("error", f"a row of a copy: {error}")
            if value is not None:
                self._node.env.store.put(key, value)

    def _remove(self, key: bytes) -> None:
        try:
            self._node.slot_sessions.remove(key)
        except RecordError as error:
            self._node.env.log("error", f"a row of a copy: {error}")

    def _acknowledge(self, node: str, seq: int) -> None:
        """Acknowledge all items up to this one once the disk has what they have written so far."""
        acks, store = self._acks[node], self._node.env.store
        commit = store.open_commit
        if commit not in acks.waiting:
            store.when_landed(commit, lambda: self._landed(node, acks, commit))
        acks.waiting[commit] = seq

    def _landed(self, node: str, acks: _Acks, commit: int) -> None:
        seq = acks.waiting.pop(commit)
        if self._acks.get(node) is acks:
            self._member.links.ack(node, Lane.REPLICA, seq, acks.boot)

    # -- a copy

    def _begin(self, node: str, attempt: CopyAttempt, own: Holder) -> None:
        if not self._is_fed(attempt, node):
            sessions, slot, kept = self._node.slot_sessions, attempt.slot, False
            reason = self._problem(node, attempt)
            try:
                kept = not reason and next(sessions.rows(slot), None) is not None
            except StorageError as error:
                reason = f"its disk cannot be read: {error}"
            if reason:
                self._send(node, Declined(attempt, reason))
                return
            sessions.begin(slot)
            self._traffic.drop_slot(slot)  # nothing but the lane changes the rows from now on
            # with kept rows: the primary may not have written all routes yet, so messages follow the subscriptions in
            # the rows, too
            self._node.router.place(slot, Elsewhere(node, False) if kept else COPIED)
            self._copies[slot] = _Copy(node, attempt, own, kept)
        self._send(node, Ready(attempt, self._copies[attempt.slot].kept))

    def _problem(self, node: str, attempt: CopyAttempt) -> str:
        """Return why this node does not take the copy now; "" if it does."""
        slot = attempt.slot
        row = self._member.slots.row(slot)
        if self._takes_none:
            return self._takes_none
        if row.primary is None or (row.primary.node, row.epoch) != (node, attempt.epoch):
            return "it follows another slot table"
        if not self._node.sessions.startup.complete:
            return "it is still loading its sessions"
        if self._node.env.store.state != "serving":
            return "its disk takes no writes"
        if slot in self._busy:
            return "the slot is just moving to it"
        earlier = self._copies.get(slot)
        if earlier is not None and earlier.said and (earlier.listed or not _of_one_process(earlier.attempt, attempt)):
            return "the slot table may still name an earlier copy"
        if earlier is not None:
            del self._copies[slot]  # the primary has begun anew
        if slot in self._opening.leftovers:
            return "it has not deleted the rows of an earlier copy yet"
        if slot in self._opening.lost:
            return "it has just lost the slot, and its sessions may still write"
        return ""

    def _end(self, node: str, attempt: CopyAttempt) -> None:
        if not self._is_fed(attempt, node):
            self._send(node, Declined(attempt, "it has no copy in this attempt"))
            return
        copy, store = self._copies[attempt.slot], self._node.env.store
        if copy.said:
            # the answer was lost. The rows are here whatever this disk does now, and every commit of the primary waits
            # for this node: the copy can leave the in-sync set only when the table names it
            self._send(node, Complete(attempt))
            return
        if not copy.complete:
            copy.complete = True
            self._node.slot_sessions.mark(attempt.slot, ARRIVED)
        store.when_landed(store.open_commit, lambda: self._completed(copy))

    def _completed(self, copy: _Copy) -> None:
        if self._copies.get(copy.attempt.slot) is copy and not copy.problem:
            copy.said = True
            self._send(copy.node, Complete(copy.attempt))

    # -- the table

    def follow(self, own: Holder | None) -> list[tuple[int, str]]:
        """The slot table or the view has changed; `own` is this process in the view. Returns the slots of which this
        node has become the primary, with the former ones. The marks of copies that are over stay, with their rows."""
        got = []
        for slot, copy in list(self._copies.items()):
            row = self._member.slots.row(slot)
            if own is not None and row.primary == own and copy.complete:
                got.append((slot, copy.node))
                del self._copies[slot]
                continue
            listed = own in row.in_sync
            fed = row.primary is not None and (row.primary.node, row.epoch) == (copy.node, copy.attempt.epoch)
            if own != copy.own or not fed or (copy.listed and not listed):
                del self._copies[slot]
            copy.listed = copy.listed or listed
        return got

    def give_up(self, reason: str) -> None:
        """From now on this node takes no copy, and ends those that it has, as soon as that is possible."""
        self._takes_none = reason
        self.tick()

    def tick(self) -> None:
        """End the copies that cannot go on. Call it often.

        The primary may have asked for a copy that it knows as complete. That one ends only by the table: this node
        waits until it is in the in-sync set, and takes itself out.
        """
        state = self._node.env.store.state
        general = self._takes_none or ("" if state == "serving" else f"its disk is {state}")
        leaving = []
        for copy in [copy for copy in self._copies.values() if copy.problem or general]:
            if not copy.said:
                del self._copies[copy.attempt.slot]
                self._send(copy.node, Declined(copy.attempt, copy.problem or general))
            elif copy.listed:
                row = self._member.slots.row(copy.attempt.slot)
                leaving.append(replace(row, in_sync=tuple([each for each in row.in_sync if each != copy.own])))
        now_ms = self._member.ports.now_ms()
        if now_ms - self._told_ms >= REPEAT_MS:
            self._tell_repairs(now_ms)
        if leaving and now_ms - self._asked_ms >= REPEAT_MS:
            self._asked_ms = now_ms
            self._member.request_slots(tuple(leaving), leaving=True)

    def _tell_repairs(self, now_ms: float) -> None:
        """Report the rows that were wrong: one event for each slot in a while, however many items they came in."""
        self._told_ms = now_ms
        for slot, copy in self._copies.items():
            if copy.repaired:
                self._node.env.event("slot.repair", slot=slot, source=copy.node, rows=copy.repaired)
                copy.repaired = 0


def _of_one_process(one: CopyAttempt, other: CopyAttempt) -> bool:
    """Whether the same process of the primary has begun both (`Numbers.unique`)."""
    return one.number >> 32 == other.number >> 32
