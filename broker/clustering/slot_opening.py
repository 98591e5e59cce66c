"""Opens the slots that this node has got, gives up those that it has lost, and deletes what is left of both.

    got     a move or a copy is complete, and the slot table names this node as primary: the sessions continue here
    lost    this node was primary, was cut off or paused, and a node with a copy is primary now (H-46)
    kept    rows of a slot of which this node is to get a copy: they are compared with those of the primary
    left    other rows of a slot that is elsewhere, or of an attempt that came to nothing: they are deleted

A mark on disk says for which slots this process, or an earlier one, has yet to decide (`SlotSessions.marks`).

A node may get a hundred slots at once, when another one fails. It opens some in each turn. Until then a slot is sealed:
messages for it wait, at this node and at others, and so do the CONNECTs of its clients.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from itertools import islice

from ...cluster.identity import SLOTS
from ...cluster.membership.state_machine import zone_of
from ...cluster.node import ClusterNode
from ...cluster.slots.replicas import wanted_followers
from ...cluster.slots.table import SlotRow, ranges
from ...mqtt.topics import parse_shared
from ...storage import keys
from ...storage.engine import Passing, StorageError
from ..node import Node
from ..routing.remote import COPIED, MOVING, Elsewhere
from ..sessions.slot_sessions import ARRIVING, KEPT, MOVES
from .slot_follower import Traffic
from .slot_leftovers import SlotLeftovers

SAY_MS = 1_000
"""How long deletions are gathered for one line of the log."""
WORK, FULL = 16, 8
"""How much one turn opens: a slot without sessions is 1, and takes 0.2 ms. One with sessions is `FULL`: it takes one or
two milliseconds, and more if it has thousands of sessions."""
PAUSE_MS = 1_000
"""How long to wait for the disk if it returns none of the slots."""
ANNOUNCED = 200
"""Subscriptions of a slot that one turn announces."""


class SlotOpening:
    """The slots that come to one node and leave it. `lost` has the slots that it has lost a moment ago, and whose
    sessions may still write; `unopened` those that it has got and opens in later turns, with the error of the disk that
    has prevented it. `opened` is called when clients can reach some of them."""

    def __init__(self, node: Node, member: ClusterNode, traffic: Traffic, opened: Callable[[], None]) -> None:
        self._node = node
        self._member = member
        self._traffic = traffic
        self._mine = set(range(SLOTS))
        self.lost: set[int] = set()
        self.unopened: dict[int, str] = {}
        self._opened = opened
        self.leftovers = SlotLeftovers(node, member.metadata.get, self._is_own, self._cleared)
        self._announcing: dict[int, Iterator[tuple[str, str, str | None]]] = {}
        """Slot -> its subscriptions whose routes are written in later turns, some in each turn."""
        self._deleted: list[int] = []
        """Slots that the next line of the log names."""

    # -- lost

    def give_up(self) -> bool:
        """The slot table has changed: give up the sessions of the slots that another node has got meanwhile. True if
        there are such slots: their next primary may lack what no client has been answered yet (H-55).

        A process that has just started has the rows of all slots of the last one. It decides about them when it enters
        a view: before that its table may be older than the one of its last process.
        """
        table, own, node = self._member.slots, self._member.own_holder, self._node
        if own is None and not self._traffic.gate.entered:
            return False
        present = table.slots_by_primary.get(self._member.me.node, ())
        gone = [slot for slot in self._mine.difference(present) if self._is_elsewhere(table.row(slot))]
        self._mine.difference_update(gone)
        if own is not None:
            self._mine.update(
                [slot for slot in table.slots_by_primary.get(own.node, ()) if table.row(slot).primary == own]
            )
        taken = [slot for slot in gone if slot not in node.slot_sessions.marks]
        taken = sorted(set(taken) - set(node.sessions.empty(taken)))
        waiting = [slot for slot in taken if self._names_this_disk(table.row(slot))]
        for slot in taken:
            node.slot_sessions.lose(slot)
            self._traffic.drop_slot(slot, lost=True)
            self.lost.add(slot)
            if slot not in waiting:
                node.env.event("slot.taken", slot=slot, target=table.row(slot).home)
        if taken:
            self._choose_members_again(taken)
            self._traffic.advertiser.recount()
            self._say_taken([slot for slot in taken if slot not in waiting])
        if waiting:
            others = sorted({holder.node for slot in waiting for holder in table.row(slot).in_sync} - {node.name})
            node.env.log(
                "warning",
                f"this disk may lack the last changes of the slots {' '.join(ranges(waiting))}. They wait for "
                f"{' and '.join(others)}; if these are lost for good: vmq-admin slot recover",
            )
        # a session of an empty slot may have ended a moment ago, and its end may wait for the follower
        return bool(taken) or (own is None and bool(gone))

    def _say_taken(self, taken: list[int]) -> None:
        if taken:
            self._node.env.log(
                "warning",
                f"other nodes have got the slots {' '.join(ranges(taken))} while this node was out of the view. Their "
                "sessions continue there with all that was acknowledged, unless slot.loss_possible named the slots "
                "there. The rows here are deleted",
            )

    def _choose_members_again(self, taken: list[int]) -> None:
        """Members of groups in these slots may lack messages that other sessions here have published. The sessions of
        the slots themselves must be gone by now."""
        for session in self._node.sessions.in_memory():
            if session.inbound.records:
                for slot in taken:
                    session.inbound.lose_slot(slot)

    def _is_own(self, slot: int) -> bool:
        """Whether the slot table names this process as the primary of the slot."""
        own = self._member.own_holder
        return own is not None and self._member.slots.row(slot).primary == own

    def _is_elsewhere(self, row: SlotRow) -> bool:
        if row.primary is not None:
            return row.primary.node != self._member.me.node
        # a holder that is in the view, and yet not the primary, lacks changes that another holder may have
        return self._member.own_holder is not None or not self._names_this_disk(row)

    def _names_this_disk(self, row: SlotRow) -> bool:
        """True if the in-sync set has this disk, whatever the entrance of its node."""
        me = self._member.me
        return (me.node, me.disk) in [(holder.node, holder.disk) for holder in row.in_sync]

    def perhaps_lost(self, slot: int) -> bool:
        """True if another node may have got a slot from the last process of this node: this process has been in no view
        yet, which would tell (H-54). With one copy of each slot only an empty one leaves without a mark on the disk."""
        if self._traffic.gate.entered:
            return False
        return self._node.env.options.queue_replicas > 1 or bool(self._node.sessions.empty([slot]))

    # -- got

    def open(self, slots: list[int], moved: bool) -> None:
        """This node has become the primary of these slots, and has their rows: continue their sessions. `moved`: the
        former primary has given the slot away; else it has left the view."""
        if not slots:
            return
        env = self._node.env
        names = " ".join(ranges(slots))
        if moved:
            env.log("notice", f"slot {names} is at this node now, with its durable sessions")
        else:
            env.log(
                "warning", f"this node takes over the slots {names}, of which it has a copy: their primary has left"
            )
        begins = not self.unopened
        self.unopened.update(dict.fromkeys(slots, ""))
        self._traffic.gate.sealed.update(slots)
        if begins:
            self._open_some()

    def _open_some(self) -> None:
        env, traffic = self._node.env, self._traffic
        some = self._next()
        read = [slot for slot in some if self._read(slot)]
        traffic.gate.barrier = env.store.open_commit
        for slot in read:
            del self.unopened[slot]
            traffic.gate.sealed.discard(slot)
            if not self._is_own(slot):
                continue  # another table has come meanwhile
            self.reopen(slot)
            self.lost.discard(slot)
            env.event("slot.arrive", slot=slot)
            self._begin_announcing(slot)
        if self.unopened and read:
            env.after_turn(self._go_on)
        elif self.unopened:
            env.timers.at(env.now + PAUSE_MS, self._go_on)

    def _read(self, slot: int) -> bool:
        """Read what the slot has taken. Without that a message would come again, so the slot stays closed: returns
        False, and the other slots come first."""
        try:
            if self._is_own(slot):
                self._traffic.receiver.load_slots((slot,))
        except StorageError as error:
            if self.unopened.pop(slot) != str(error):
                self._node.env.log("error", f"slot {slot} is not opened as long as the disk cannot be read: {error}")
            self.unopened[slot] = str(error)
            return False
        return True

    def _next(self) -> list[int]:
        """Return the slots that this turn opens."""
        some, work = list[int](), 0
        for slot in self.unopened:
            some.append(slot)
            work += 1 if self._node.sessions.empty([slot]) else FULL
            if work >= WORK:
                break
        return some

    def _go_on(self) -> None:
        if self._node.env.store.state == "closed" or not self.unopened:
            return
        self._node.env.tick()
        self._open_some()
        self._opened()

    def reopen(self, slot: int) -> None:
        """The sessions of this slot run here, from their rows."""
        self._node.slot_sessions.open(slot)

    def settle(self, busy: Container[int]) -> None:
        """Decide about the slots with marks, but for those that are still `busy`: open those of this node, and keep or
        delete the rows of the others.

        Rows that were kept are older than those of another node. If the slot comes without them, as an empty one does,
        they are deleted.
        """
        own = self._member.own_holder
        if own is None:
            return
        got = []
        marks, zones = self._node.slot_sessions.marks, self._zones()
        for slot in [slot for slot in marks if slot not in busy]:
            if slot in self.leftovers or slot in self.unopened:
                continue
            row, mark = self._member.slots.row(slot), marks[slot]
            named = self._names_this_disk(row)
            if mark != KEPT and self._is_own(slot):
                if mark == ARRIVING:
                    text = f"slot {slot} was lost while it came here: some of its sessions are missing"
                    self._node.env.log("error", text)
                got.append(slot)
            elif not named and self._is_wanted(row, zones):
                self._keep(slot, mark)
            elif mark == KEPT or not named:
                if mark != KEPT:  # a kill may leave some rows, and the slot may come back as an empty one
                    self._node.slot_sessions.mark(slot, KEPT)
                self.leftovers.start(slot)
        self.open(got, False)

    def _zones(self) -> dict[str, str]:
        """The nodes that serve, and this one, with their zones."""
        member = self._member
        members, me = member.membership.members, member.me.node
        return {node: zone_of(members[node]) for node in (*member.view.serving, me) if node in members}

    def _is_wanted(self, row: SlotRow, zones: dict[str, str]) -> bool:
        """True if the primary of the slot makes a copy of it at this node, as soon as the node serves. A slot without
        primary must not stay closed here: this node may have to register its clean clients."""
        copies, me = self._node.options.queue_replicas, self._member.me.node
        if copies < 2 or row.primary is None:
            return False
        return me in wanted_followers(row.slot, row.primary.node, zones, copies)

    def _keep(self, slot: int, mark: bytes) -> None:
        """Keep the rows of a slot for its next copy. What its sessions wrote last is dropped until then."""
        if mark != KEPT:
            store = self._node.env.store
            self._node.slot_sessions.mark(slot, KEPT)
            store.when_landed(store.open_commit, lambda: self.lost.discard(slot))

    def _cleared(self, slot: int) -> None:
        self.lost.discard(slot)
        env = self._node.env
        if not self._deleted:
            env.timers.at(env.now + SAY_MS, self._say_deleted)
        self._deleted.append(slot)
        if self._is_own(slot):
            self._opened()  # it has come as an empty one, and clients wait for it

    def _say_deleted(self) -> None:
        """One line for all slots of a while: a node that returns may have over a hundred."""
        deleted, self._deleted = self._deleted, []
        names = " ".join(ranges(sorted(deleted)))
        self._node.env.log("info", f"the former rows of the slots {names} are deleted")

    def place(self) -> None:
        """Tell the router where the sessions of slots are whose subscriptions this node has."""
        router, homes = self._node.router, self._node.gateways.locator.homes()
        for slot, where in list(router.elsewhere.items()):
            if where is COPIED:
                continue
            home = homes[slot]
            known = home.node not in ("", self._node.name, MOVING)
            router.place(slot, Elsewhere(home.node, not home.present) if known else MOVES)

    # -- routes of a slot that has come

    def _subscriptions(self, slot: int) -> Iterator[tuple[str, str, str | None]]:
        """Yield mountpoint, filter and group of each subscription of the slot. Raises `StorageError`."""
        start, stop = keys.slot_range(b"b", slot)
        while found := self._node.env.store.keys(start, stop, ANNOUNCED):
            for key in found:
                client, text = keys.parse_subscription_key(key)
                group, text = parse_shared(text)
                yield keys.mountpoint_of(client), text, group
            start = found[-1] + b"\x00"

    def _begin_announcing(self, slot: int) -> None:
        if self._is_own(slot):
            self._announcing[slot] = self._subscriptions(slot)
            if len(self._announcing) == 1:
                self._node.env.background(self._announce)

    def _announce(self) -> None:
        """Write the routes of this node for some of the subscriptions of a slot."""
        if not self._announcing or self._node.env.store.state == "closed":
            return
        env = self._node.env
        slot, subscriptions = next(iter(self._announcing.items()))
        try:
            some = list(islice(subscriptions, ANNOUNCED))
        except StorageError as error:
            env.log("error", f"the subscriptions of slot {slot} cannot be announced: {error}")
            some = []
            if isinstance(error, Passing):
                env.timers.at(env.now + PAUSE_MS, lambda: self._begin_announcing(slot))
        for mountpoint, text, group in some:
            self._traffic.advertiser.announce(mountpoint, text, group, slot)
        if not some:
            del self._announcing[slot]
        if self._announcing:
            env.background(self._announce)
