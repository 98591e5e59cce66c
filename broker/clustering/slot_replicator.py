"""Sends the changes of this node's slots to the nodes with copies, and says which commits these nodes have (P1).

    begun      Begin is under way; the follower has not answered
    filling    present rows are under way, a few at a time, between the changes; if the follower has kept rows, digests
               first, and then the rows that differ (`slot_comparison.py`)
    counted    End is under way: commits wait for the follower from now on
    asked      the follower has everything; the leader is asked to put it into the in-sync set
    in sync    the slot table names the follower

A follower counts before the table can name it: then it has all that was acknowledged, whenever the log takes the
request (H-46). It counts until an applied table cannot name it any more: the view lacks this entrance of its node, or
the row has changed after the request and lacks it. It never stops to count by time, and never because this node says
so. If a follower leaves the view together with this node, either may get the slot: until the table says which of them
has got it, no commit ends that the follower may lack, or that changes the slot after that. `copy_commits.py` has the
commits that wait, `late_changes.py` the changes that nobody waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from ...cluster.links.ports import Lane
from ...cluster.membership.state_machine import zone_of
from ...cluster.node import ClusterNode
from ...cluster.slots.replicas import followers, with_copy
from ...cluster.slots.table import Holder, SlotRow, ranges
from ...storage.engine import Batch
from ...storage.keys import SLOT_KINDS
from ..environment import Environment
from .copy_codec import (
    Begin,
    Complete,
    CopyAttempt,
    CopyItem,
    Declined,
    Different,
    End,
    Over,
    Ready,
    decode_answer,
    encode,
)
from .copy_commits import CopyCommits, Wait
from .late_changes import LateChanges
from .slot_filling import ASKED, BEGUN, COUNTED, IN_SYNC, Copy, SlotFilling, SlotRows

FILLS = 64
"""Copies that this node fills at the same time."""
REPEAT_MS = 1_000
"""How often a request or an unanswered item is repeated, and how soon a declined copy is tried again."""
LOOK_MS = 1_000
"""How often this node looks for slots that lack a copy, besides each change of the table."""
QUIET_MS = 200
"""How long no commit may have waited for a node until it gets large items."""
LATE_KINDS = SLOT_KINDS.replace(b"b", b"")
"""The kinds of rows that sessions must not write any more when their slot was lost."""
BEHIND_BYTES = 64 << 20
"""A copy that is not counted yet is given up while more than this waits for its node."""


class SlotReplicator:
    """The copies of the slots of one node, as the `Guard` of its store.

    `wanted`: how many nodes should have each slot, this one included. `closed` has the slots that are being given away,
    `lost` those that another node has got without that: late writes of their sessions are dropped. `leaving` returns
    the slots that are about to be given away.
    """

    def __init__(
        self,
        member: ClusterNode,
        env: Environment,
        slot_rows: SlotRows,
        wanted: int,
        closed: Container[int],
        lost: Container[int],
        leaving: Callable[[], Container[int]],
    ) -> None:
        self._member = member
        self._env = env
        self._wanted = wanted
        self._closed = closed
        self._lost = lost
        self._leaving = leaving
        self.copies: dict[int, list[Copy]] = {}
        """The copies of each slot: at most the present one, and one that is to replace it."""
        self.preferred: dict[int, str] = {}
        """Slots that an operator moves: the node that must have a copy."""
        self._fills: list[Copy] = []
        """The copies that are not in sync yet."""
        self._filling = SlotFilling(env, slot_rows, member.ports.now_ms, self._give, self._give_up, self._is_quiet)
        self._commits = CopyCommits(env.store.open_commit - 1)
        self._late = LateChanges(member.ports.now_ms, member.ports.later, self._send_alone)
        self._unawaited: list[Wait] = []
        """Items with changes that nobody has waited for, and that are not acknowledged yet."""
        self._not_before_ms: dict[int, float] = {}
        self._looked_ms = 0.0

    # -- the guard of the store

    @property
    def safe(self) -> int:
        """As `Guard.safe`."""
        return self._commits.safe

    def closing(self, commit: int, batch: Batch, late: set[bytes]) -> None:
        """As `Guard.closing`: send the changes of each copied slot to its followers. What nobody waits for may wait for
        the next item."""
        self._commits.last = commit
        if self._lost:
            self._drop_late(batch)
        if (self.copies or self._commits.rivals) and batch:
            self._send_changes(commit, batch, late)
        for copy in self._fills:
            if copy.filled:
                self._end(copy)

    def _drop_late(self, batch: Batch) -> None:
        """Drop what sessions still write that this process has lost: the node that has them now knows nothing of it.
        The router's table has their subscriptions, so these stay until they are compared or deleted."""
        lost, kinds = self._lost, LATE_KINDS
        late = [key for key, value in batch.items() if value is not None and key[0] in kinds and key[1] in lost]
        for key in late:
            del batch[key]

    def hurry(self) -> None:
        """As `Guard.hurry`: send what waits. The open commit waits for it, and for what was sent alone before."""
        for node in self._late.nodes:
            self._send_alone(node)
        waits = [wait for wait in self._unawaited if self._commits.lacks(*wait)]
        self._unawaited = []
        if waits:
            self._commits.add(self._env.store.open_commit, waits)

    def _send_changes(self, commit: int, batch: Batch, late: set[bytes]) -> None:
        copies = self.copies
        for slot, changes in _by_slot(batch, copies).items():
            unhurried = late.issuperset(changes[::2])
            for copy in copies[slot]:
                if copy.phase != BEGUN:
                    self._late.add(copy.holder.node, copy.attempt, copy, changes, unhurried)
        waits = self._send_waiting(*self._late.due())
        rivals = self._commits.rivals
        if waits or (rivals and _by_slot(batch, {slot for slot, _ in rivals})):
            self._commits.add(commit, waits)

    def _send_waiting(self, *nodes: str) -> list[Wait]:
        """Send these nodes the changes that wait for them. Returns what a commit with these changes waits for."""
        waits = []
        for node in nodes:
            if (taken := self._late.take(node)) is not None:
                item, counted = taken
                seq = self._send(node, item)
                if counted:
                    waits.append((node, seq, counted))
                    self._commits.waited_ms[node] = self._member.ports.now_ms()
        return waits

    def _send_alone(self, node: str) -> None:
        """Send a node the changes that wait for it. No commit waits for them yet."""
        if waits := self._send_waiting(node):
            self._unawaited = [wait for wait in [*self._unawaited, *waits] if self._commits.lacks(*wait)]

    def _send(self, node: str, item: bytes) -> int:
        """Send an item, behind the changes that wait for the node."""
        self._send_alone(node)
        return self._member.links.send(node, Lane.REPLICA, item)

    # -- acknowledgements

    def acked(self, node: str, upto: int, index: int) -> None:
        """A follower has all items up to this number on disk. It followed the slot table `index` then."""
        if self._commits.acked(node, upto, index):
            self._settle()
            self._filling.acked(node, upto)

    def _settle(self) -> None:
        if self._commits.settle():
            self._env.store.settle()

    def received(self, node: str, data: bytes) -> None:
        """A follower's message. Raises `MalformedFrame`."""
        answer = decode_answer(data)
        slot = answer.attempt.slot
        copy = next((each for each in self.copies.get(slot, ()) if each.attempt == answer.attempt), None)
        if copy is None or copy.holder.node != node:
            return
        copy.bytes += len(data)
        if isinstance(answer, Ready) and copy.phase == BEGUN:
            self._filling.begin(copy, answer.kept)
        elif isinstance(answer, Complete) and copy.phase == COUNTED:
            copy.phase = ASKED
            self._ask([copy])
        elif isinstance(answer, Declined) and copy.phase < ASKED:
            self._put_off(slot, copy)
        elif isinstance(answer, Different) and copy.left.answered(answer.number, answer.ranges, answer.compared):
            self._filling.go_on(copy)

    def _give_up(self, copy: Copy) -> None:
        """End an attempt for which nobody was asked, and tell the follower: another node may get the copy."""
        self._give(copy, Over(copy.attempt))
        self._put_off(copy.attempt.slot, copy)

    def _put_off(self, slot: int, copy: Copy) -> None:
        """The attempt is over, and the table cannot name it. Try again after a while."""
        assert copy.phase < ASKED
        self._forget(slot, copy)
        self._settle()
        self._not_before_ms[slot] = self._member.ports.now_ms() + REPEAT_MS

    def _forget(self, slot: int, copy: Copy) -> None:
        copy.over = True
        self._filling.ended(copy)
        self._fills = [each for each in self._fills if each is not copy]
        rest = [each for each in self.copies[slot] if each is not copy]
        if rest:
            self.copies[slot] = rest
        else:
            del self.copies[slot]

    # -- copies in sync, as `SyncedCopies`

    def in_sync(self, slot: int) -> list[Copy]:
        """Return the copies of a slot that are in sync, none while the slot is given away."""
        return [copy for copy in self.copies.get(slot, ()) if copy.phase == IN_SYNC and slot not in self._closed]

    def is_idle(self, node: str) -> bool:
        """True if no commit has waited for a node for a while, and no copy is filled there."""
        return self._is_quiet(node) and not any(copy.holder.node == node for copy in self._fills)

    def send(self, node: str, item: CopyItem) -> int:
        """Send an item behind all changes. Returns its number."""
        return self._send(node, encode(item))

    def has(self, node: str, number: int) -> bool:
        """True if a node has acknowledged the item with this number."""
        return self._commits.has(node, number)

    # -- filling

    def _is_quiet(self, node: str) -> bool:
        return self._member.ports.now_ms() - self._commits.waited_ms.get(node, 0.0) >= QUIET_MS

    def _give(self, copy: Copy, item: CopyItem) -> int:
        """Send an item of one copy."""
        data = encode(item)
        copy.bytes += len(data)
        return self._send(copy.holder.node, data)

    def _end(self, copy: Copy) -> None:
        copy.phase = COUNTED
        self._say(copy)

    def _say(self, copy: Copy) -> None:
        """Send the item that the follower must answer in this phase."""
        copy.said_ms = self._member.ports.now_ms()
        begin = copy.phase == BEGUN
        copy.said = self._give(copy, Begin(copy.attempt, self._member.slots.index) if begin else End(copy.attempt))

    def _compare_again(self, copy: Copy) -> None:
        """The follower has the digests, and its answer was lost."""
        copy.left.again()
        self._filling.go_on(copy)

    # -- the table

    def _ask(self, copies: list[Copy]) -> None:
        """Ask the leader to put these followers into the in-sync sets. From now on only the table decides."""
        changes = []
        for copy in copies:
            row = self._member.slots.row(copy.attempt.slot)
            copy.asked = with_copy(row, copy.holder, self._zones(), self._wanted, self._member.slow)
            copy.said_ms = self._member.ports.now_ms()
            changes.append(copy.asked)
        if changes:
            self._member.request_slots(tuple(changes))

    def follow(self, own: Holder | None) -> None:
        """The slot table or the view has changed; `own` is this process in the view. What this node has lost with the
        slots must have been given up before."""
        table, present = self._member.slots, self._member.membership.holders()
        added: dict[str, list[int]] = {}
        for slot in list(self.copies):
            row = table.row(slot)
            for copy in list(self.copies[slot]):
                mine = own is not None and row.primary == own and row.epoch == copy.attempt.epoch
                listed = copy.holder in row.in_sync
                if not mine or present.get(copy.holder.node) != copy.holder or (copy.phase == IN_SYNC and not listed):
                    self._forget(slot, copy)
                    self._commits.rivals.append((slot, copy.holder))
                elif listed and copy.phase != IN_SYNC:
                    copy.phase = IN_SYNC
                    self._fills.remove(copy)
                    self._env.event("slot.copied", slot=slot, target=copy.holder.node, bytes=copy.bytes)
                    added.setdefault(copy.holder.node, []).append(slot)
        for node, slots in added.items():
            self._env.log("info", f"{node} has a copy of the slots {' '.join(ranges(slots))} now")
        fed = {copy.holder.node for copies in self.copies.values() for copy in copies}
        self._late.forget_all_but(fed)
        for node in self._commits.forget_all_but(fed):
            self._member.links.void(node, Lane.REPLICA)
        self._filling.forget_all_but(fed)
        rivals = self._commits.rivals
        self._commits.rivals = [(slot, holder) for slot, holder in rivals if _may_get(table.row(slot), holder)]
        for node, upto in self._commits.follow(table.index):
            self._filling.acked(node, upto)
        self._settle()
        self._looked_ms = 0.0

    def tick(self) -> None:
        """Begin copies that are missing, and repeat what was not answered. Call it often."""
        now_ms = self._member.ports.now_ms()
        asking = []
        self._end_hopeless_fills()
        for copy in list(self._fills):
            node, slot = copy.holder.node, copy.attempt.slot
            if copy.over:
                continue  # another copy of this turn had to read, and could not
            if not copy.counts and self._member.links.waiting_bytes(node, Lane.REPLICA) > BEHIND_BYTES:
                self._env.log("warning", f"{node} is too slow for a copy of slot {slot}: it is tried again")
                self._give_up(copy)
            elif now_ms - copy.said_ms >= REPEAT_MS:
                if copy.phase in (BEGUN, COUNTED):
                    if self._commits.has(node, copy.said):  # the follower has it, and its answer was lost
                        self._say(copy)
                elif copy.phase == ASKED:
                    asking.append(copy)
                elif copy.left.waits and not copy.sent:
                    self._compare_again(copy)
        self._ask(asking)
        if now_ms - self._looked_ms >= LOOK_MS:
            self._looked_ms = now_ms
            self._look(now_ms)

    def _end_hopeless_fills(self) -> None:
        """Give up the copies that are being made at nodes that take none any more, and those at nodes whose disk has
        become slow, if their slots need them no more. They would take the places of others; a node whose disk is full
        may not even follow the table, and never answer."""
        fills = [copy for copy in self._fills if copy.phase < ASKED]
        if not fills:
            return
        able, slow = self._zones(), self._member.slow
        needed = {**self.lacking(), **self.preferred} if slow else {}
        for copy in fills:
            node = copy.holder.node
            if node not in able or (node in slow and needed.get(copy.attempt.slot) != node):
                self._give_up(copy)

    def _look(self, now_ms: float) -> None:
        """Begin the copies that are missing, those of slots with one holder first."""
        member = self._member
        own, membership = member.own_holder, member.membership
        if own is None or self._wanted < 2 or not member.leased() or own.node not in membership.view.serving:
            return
        zones, wanted = self._zones(), self.lacking()
        table, present = membership.slots, membership.holders()
        for slot, node in self.preferred.items():
            if table.row(slot).primary == own and node in zones and present[node] not in table.row(slot).in_sync:
                wanted[slot] = node
        filling, not_before_ms = self.filling, self._not_before_ms
        idle = [slot for slot in wanted if slot not in filling and slot not in self._closed]
        due = [slot for slot in idle if now_ms >= not_before_ms.get(slot, 0.0)]
        leaving = self._leaving() if due else ()
        for slot in sorted(due, key=lambda slot: (len(table.row(slot).in_sync), slot)):
            if len(self._fills) >= FILLS:
                return
            if slot not in leaving:
                self._begin(table.row(slot), present[wanted[slot]])

    def _zones(self) -> dict[str, str]:
        """The nodes that can have copies, and their zones, this node included. A node with a full disk, or one that
        leaves, takes none."""
        membership, full, own = self._member.membership, self._member.full, self._member.me.node
        able = [node for node in membership.view.serving if node not in full or node == own]
        return {node: zone_of(membership.members[node]) for node in able}

    def _begin(self, row: SlotRow, holder: Holder) -> None:
        attempt = CopyAttempt(row.slot, row.epoch, self._env.numbers.unique())
        copy = Copy(attempt, holder)
        self.copies.setdefault(row.slot, []).append(copy)
        self._fills.append(copy)
        self._say(copy)

    def lacking(self) -> dict[int, str]:
        """Return slot -> the node that has to get a copy of it, for the slots of this node that lack one."""
        own = self._member.own_holder
        member = self._member
        return {} if own is None else followers(member.slots, own, self._zones(), self._wanted, member.slow)

    @property
    def filling(self) -> set[int]:
        """The slots with a copy that is not in sync yet."""
        return {copy.attempt.slot for copy in self._fills}


def _by_slot(batch: Batch, slots: Container[int]) -> dict[int, list[bytes | None]]:
    """For each of these slots that the batch changes: key, value, key, value, in the order of the batch."""
    found: dict[int, list[bytes | None]] = {}
    by_prefix: dict[bytes, list[bytes | None]] = {}
    for prefix in dict.fromkeys([key[:2] for key in batch]):
        if prefix[0] in SLOT_KINDS and prefix[1] in slots:
            by_prefix[prefix] = found.setdefault(prefix[1], [])
    if by_prefix:
        for item in batch.items():
            changes = by_prefix.get(item[0][:2])
            if changes is not None:
                changes += item
    return found


def _may_get(row: SlotRow, holder: Holder) -> bool:
    """True if the slot has no primary, and the node of this holder gets it if it enters first."""
    return row.primary is None and (holder.node, holder.disk) in [(each.node, each.disk) for each in row.in_sync]
