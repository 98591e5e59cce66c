"""The target's side of messages from other nodes: put each into the queues once, acknowledge it when it is safe (P6).

The batch of the queue entries also has the number up to which the origin's lane was taken, so a restart takes no
message twice. The exception is a message that this node relayed and that is not acknowledged yet: its number is stored
as well, and the origin sends it again. A QoS 2 message can arrive twice under one mid, on different lanes, because its
origin restarted in the middle of a handshake; so can a will from two primaries of its slot. This node remembers the mid
until the origin says that it is over (H-12, H-50).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from ...cluster.identity import SLOTS, slot_of_origin, slot_origin
from ...cluster.links.ports import Refuse
from ...storage import keys
from ..routing.ack_context import AckContext
from ..routing.pending_acks import PendingAcks
from ..routing.plans import PlanCache
from ..routing.router import AFTER_COMMIT, NO_SLOT
from ..routing.waking import FOR_A_LANE
from .forward_codec import (
    ForwardedMessage,
    Head,
    MalformedForward,
    OpenMids,
    decode_forward,
    decode_open_mids,
    is_open_mids,
)
from .message_origins import MessageOrigins
from .slot_gate import SlotGate

if TYPE_CHECKING:
    from ..node import Node
    from ..queues.message import Message, Mid


LIVE = ""
"""The name of the part of a message for clean sessions. `$share` filters name the other parts."""


PassOn = Callable[["Message", str, str, AckContext], bool]
"""The port to the origin of a QoS 2 message. Called with the message, a `$share` filter without a member here, and the
node that sent the message. True if the origin gives the message to another member, or has done so. Also called for an
own message that another node sends back."""


class Acknowledge(Protocol):
    """The port to the links: tells this boot of an origin how far its lane is finished."""

    def __call__(self, origin: str, seq: int, boot: int) -> None:
        """Acknowledge all items of the lane up to `seq`."""
        ...


AckEarly = Callable[[str, list[int], int], None]
"""The port to the links: acknowledge these numbers of an origin's lane although earlier ones are not finished. Called
with origin, numbers and the origin's boot."""

EARLY_MS = 250
"""If a lane makes no progress for this time, the items that are finished are acknowledged before earlier ones."""


_Item = tuple[int, PendingAcks | None]
"""The number of an item, and the acknowledgements that other nodes owe for it."""


class _Lane(msgspec.Struct):
    """The lane of one origin: its boot, the last number taken, and what is not finished.

    `answered` is the last item that this process has taken or skipped, and `done` the last acknowledged with all before
    it. `writing` has the items that the disk does not have yet, by commit, and `relays` those that other nodes do not
    have yet. `owed` are the numbers of messages that this node took and relayed, and that are not acknowledged yet.
    They are also on disk.
    """

    boot: int
    taken: int
    answered: int = 0
    done: int = 0
    writing: deque[tuple[int, list[_Item]]] = msgspec.field(default_factory=deque)
    relays: deque[tuple[int, PendingAcks]] = msgspec.field(default_factory=deque)
    scheduled: bool = False
    owed: dict[int, None] = {}
    free: list[int] = []
    """Numbers that wait only for the numbers before them."""
    prepared: int = 0
    """The last number that waited for the sessions in its plan: it does not wait again."""
    stuck: bool = False
    armed: bool = False


class DedupEntry(msgspec.Struct):
    """A QoS 2 message that may come again. `parts` are the parts that this node took; `stored` says whether that is on
    disk. `slots` are the slots that took it, with rows on disk for those in `kept`. `relayed` parts went to other
    nodes, and `pending` are the acknowledgements that these nodes owe. `homes`: the slot of the durable session that
    got the part of a group."""

    parts: list[str]
    stored: bool
    slots: list[int] = []
    kept: list[int] = []
    relayed: list[str] = []
    pending: PendingAcks | None = None
    homes: dict[str, int] = {}


class ForwardReceiver:
    """Takes the messages that other nodes send to this one."""

    def __init__(
        self,
        node: Node,
        acknowledge: Acknowledge,
        serving: Callable[[], bool],
        gate: SlotGate,
        direct: ForwardReceiver | None = None,
    ) -> None:
        """`serving` says whether this node has caught up with the others. `direct` is None for the receiver of messages
        that origins send themselves. A receiver that gets that one as `direct` takes relayed messages.

        The receiver of relayed messages acknowledges as soon as its disk has the message. It does not wait until the
        messages that it relays itself are acknowledged. So two nodes that relay to each other never wait for each
        other (H-15). If this node relays a message a second time and dies before the next node has it, it is lost.
        """
        self._node = node
        self.pass_on: PassOn = _nobody
        self._acknowledge = acknowledge
        self.ack_early: AckEarly = _not_early
        self.try_again: Callable[[], None] = _nothing
        """The port to the links: ask for the items that were refused."""
        self._serving = serving
        self._gate = gate
        self.origins: MessageOrigins = MessageOrigins(node.name) if direct is None else direct.origins
        self._relays = direct is not None
        self._lanes: dict[str, _Lane] = {}
        self._seen: dict[str, dict[tuple[int, int], DedupEntry]] = {} if direct is None else direct._seen

    def load(self) -> None:
        """Load watermarks and open QoS 2 mids from the store."""
        store = self._node.env.store
        for key, value in store.scan(b"w", b"x"):
            name, boot, seq = keys.parse_watermark_key(key)
            lane = self._lanes.get(name)
            if lane is None or lane.boot < boot:
                lane = self._lanes[name] = _Lane(boot, 0)
            if seq:
                lane.owed[seq] = None
            else:
                lane.taken = int.from_bytes(value[:8], "big")
                self._gate.noted = max(self._gate.noted, int.from_bytes(value[8:], "big"))
        mids = [(*keys.parse_seen_key(key), value.decode().split("\0")) for key, value in store.scan(b"x", b"y")]
        for name, boot, counter, stored in sorted(mids):
            parts, homes = _parts_and_homes(stored)
            self._seen.setdefault(name, {})[boot, counter] = DedupEntry(parts, True, homes=homes)
        self.load_slots(range(SLOTS))

    def load_slots(self, slots: Iterable[int]) -> None:
        """Load from the store what these slots have taken from other nodes. Raises `StorageError`."""
        slots, found = tuple(slots), set[str]()
        self._gate.load(slots)
        for slot in slots:
            for key in self._node.env.store.keys(*keys.slot_range(b"a", slot)):
                _, name, boot, counter = keys.parse_seen_in_slot_key(key)
                entry = self._entry(name, boot, counter)
                entry.slots = [*[each for each in entry.slots if each != slot], slot]
                entry.kept = [*[each for each in entry.kept if each != slot], slot]
                found.add(name)
        for name in found:  # `settle` needs the order
            self._seen[name] = dict(sorted(self._seen[name].items()))

    def drop_slot(self, slot: int) -> None:
        """The slot has left this node: keep no record of the QoS 2 messages that it has taken."""
        for seen in self._seen.values():
            for entry in seen.values():
                if slot in entry.kept or slot in entry.slots:
                    entry.slots = [each for each in entry.slots if each != slot]
                    entry.kept = [each for each in entry.kept if each != slot]

    def lose_slot(self, slot: int) -> None:
        """As `drop_slot`, but another node has taken the slot over, and may lack what this node took last: the parts of
        groups that sessions of the slot got count as not taken (H-46). It also goes on with the slot's handshakes: the
        parts that members here got from this node are noted on disk (H-47)."""
        self.drop_slot(slot)
        for mid in self._seen.get(slot_origin(slot), {}):
            self.keep_members(slot_origin(slot), mid)
        for origin, seen in self._seen.items():
            for mid, entry in seen.items():
                if lost := [part for part, home in entry.homes.items() if home == slot]:
                    entry.parts = [part for part in entry.parts if part not in lost]
                    entry.homes = {part: home for part, home in entry.homes.items() if home != slot}
                    if entry.stored:
                        self._note(origin, mid, entry)

    def watermark(self, origin: str, boot: int) -> int:
        """Return the number up to which the lane of this boot of the origin was taken; 0 for a new boot.

        It stays below the first message that was relayed and is not acknowledged yet, so the origin repeats that one.
        """
        lane = self._lanes.get(origin)
        if lane is None or lane.boot < boot:
            self._clear(origin, lane)
            lane = self._lanes[origin] = _Lane(boot, 0)
        lane.done = min([lane.taken, *[seq - 1 for seq in lane.owed]])
        return lane.done

    def _clear(self, origin: str, lane: _Lane | None) -> None:
        if lane is not None:
            self._node.env.store.delete(keys.watermark_key(origin, lane.boot))
            for seq in list(lane.owed):
                self._relayed(origin, lane, seq)

    def forget(self, origin: str, before: int) -> None:
        """Forget the messages of the origin's boots before this one, which have left the cluster for good."""
        store = self._node.env.store
        lane = self._lanes.get(origin)
        if lane is not None and lane.boot < before:
            del self._lanes[origin]
            self._clear(origin, lane)
        for mid in [mid for mid in self._seen.get(origin, {}) if mid[0] < before]:
            self._forget(origin, mid, store.delete)
        self._gate.forget(origin, before)

    def skip(self, origin: str, seq: int) -> None:
        """Acknowledge the next item of an origin's lane without delivering it: it is no message, or it is void because
        the origin sent it before it left the view (H-14)."""
        lane = self._lanes[origin]
        lane.taken = max(lane.taken, seq)
        self._answer(origin, lane, seq, 0, None)

    def deliver(self, origin: str, seq: int, head: Head, payload: bytes) -> None:
        """Take the next message of an origin's lane. Raises `MalformedForward` before it takes anything.

        Raises `Refuse` if the message is for a group member that ended with an earlier process. This process does not
        know the other members before it serves; the origin selects one of them when it learns of the restart. Raises it
        also if this node cannot tell yet which slots it takes (`SlotGate.check`), or if it has to make many sessions
        first (`Waking`).
        """
        node, lane = self._node, self._lanes[origin]
        if seq <= lane.taken and seq not in lane.owed:
            self._answer(origin, lane, seq, 0, None)  # repeated because a restart left an earlier item unacknowledged
            return
        if is_open_mids(payload) and not self._relays:
            known = decode_open_mids(payload)
            if self._speaks_for(origin, known.origin or origin):
                self.settle_open(known.origin or origin, known)
            self.skip(origin, seq)
            return
        slots, live = head.slots, head.live
        if slots or head.table:
            self._gate.check(head)
        forwarded = decode_forward(payload, node.env.origins)
        if not (slots or live or forwarded.groups):
            raise MalformedForward("forwarded message: it has no receiver")
        message = forwarded.message
        message.again = head.again
        by_slot = slot_of_origin(message.origin.node) >= 0 and not self._relays
        if by_slot and not self._speaks_for(origin, message.origin.node):
            self.skip(origin, seq)  # its successor sends the message under the same mid
            return
        plans = node.router.plans(message.mountpoint)
        if lane.prepared != seq and node.router.waking.waits(
            plans, message.topic, lambda: self._prepared(lane, seq), FOR_A_LANE
        ):
            raise Refuse("the sessions that get it are not in memory yet")
        if forwarded.groups and not self._serving() and not node.router.has_members(message, plans, forwarded.groups):
            raise Refuse(f"{node.name} does not serve yet, and has no member of {', '.join(forwarded.groups)}")
        if node.env.events.messages:
            node.env.event("fwd.recv", mid=message.mid, source=origin, topic=message.topic)
        settled = message.origin.node if by_slot else origin
        if settled in self._seen:
            self.settle(settled, forwarded.qos2_stable)
        context = AckContext()
        if slots:
            slots = self._gate.fresh(origin, lane.boot, head)
        if not message.remembered:
            wait = node.router.deliver(message, plans, live, slots, forwarded.groups, context) == AFTER_COMMIT
        else:
            wait = self._deliver_once(origin, live, slots, forwarded, plans, context)
        if message.qos and slots:
            self._gate.note(origin, lane.boot, head, slots, wait)
        lane.taken = max(lane.taken, seq)
        pending = context.take()
        if self._relays:
            pending = None  # after a restart the message may come again: only QoS 2 needs a record of it
        else:
            if pending is not None and pending.open:
                lane.owed[seq] = None
                node.env.store.put(keys.owed_key(origin, lane.boot, seq), b"")
            elif seq in lane.owed:
                self._relayed(origin, lane, seq)
            if wait:
                value = lane.taken.to_bytes(8, "big") + self._gate.applied.to_bytes(8, "big")
                node.env.store.put(keys.watermark_key(origin, lane.boot), value)
        commit = node.env.store.open_commit if wait else self._gate.unsafe if head.slots else 0
        self._answer(origin, lane, seq, commit, pending)

    def _prepared(self, lane: _Lane, seq: int) -> None:
        """The sessions for this item were made: its sender may send it again."""
        lane.prepared = seq
        self.try_again()

    def _speaks_for(self, sender: str, origin: str) -> bool:
        """True if the sender of a copy is the node whose word counts for the mids of this origin: of a slot, the node
        that has the slot by the table that this node follows."""
        return slot_of_origin(origin) < 0 or self.origins.home(origin) == sender

    def took(self, message: Message, part: str) -> bool:
        """True if a session here has this part of a QoS 2 message, although the part was meant for another node."""
        seen = self._known(message)
        return seen is not None and part in seen.parts and part not in seen.relayed

    def _entry(self, origin: str, boot: int, counter: int) -> DedupEntry:
        """The record of a QoS 2 message; a new one if there is none."""
        return self._seen.setdefault(origin, {}).setdefault((boot, counter), DedupEntry([], False))

    def _known(self, message: Message) -> DedupEntry | None:
        return self._seen.get(message.origin.node, {}).get((message.origin.boot, message.counter))

    def _deliver_once(
        self,
        sender: str,
        live: bool,
        slots: tuple[int, ...],
        forwarded: ForwardedMessage,
        plans: PlanCache,
        context: AckContext,
    ) -> bool:
        """Give each part of a QoS 2 message to its sessions once. True if the disk must have it before the answer.

        One part is the clean sessions; each slot and each group is another part. If a node that was chosen for a group
        ends, the origin may choose this node for it, which already has the message for its other parts.
        """
        node = self._node
        # a relayed message has the mid of the node that accepted it
        origin, mid = forwarded.message.origin.node, (forwarded.message.origin.boot, forwarded.message.counter)
        seen = self._seen.setdefault(origin, {})
        known = seen.get(mid) or DedupEntry([], False)
        live = live and LIVE not in known.parts
        slots = tuple([slot for slot in slots if slot not in known.slots])
        # a part that this node has relayed comes back if the other node has no member of the group any more
        returned = known.relayed if self._relays else ()
        groups = tuple([text for text in forwarded.groups if text not in known.parts or text in returned])
        if known.pending is not None and known.pending.open:
            context.pending = known.pending  # earlier relays of it are not acknowledged yet
        message = forwarded.message
        missing = [each for each in groups if not node.router.has_members(message, plans, (each,))]
        own = self.origins.is_own(origin)
        passed = [each for each in (groups if own else missing) if self.pass_on(message, each, sender, context)]
        groups = tuple([each for each in groups if each not in passed])
        known = seen.get(mid) or known  # `pass_on` may have given an own message to a session here
        if not live and not slots and not groups:
            return known.stored or bool(known.kept)  # taken before, but perhaps not committed yet
        relayed = [each for each in missing if each not in passed]
        relayed += [each for each in known.relayed if each not in groups]
        wait = node.router.deliver(message, plans, live, slots, groups, context) == AFTER_COMMIT or known.stored
        parts = [*[each for each in known.parts if each not in groups], *([LIVE] if live else ()), *groups]
        entry = seen[mid] = DedupEntry(
            parts, known.stored, [*known.slots, *slots], known.kept, relayed, context.pending, dict(known.homes)
        )
        for text in groups:
            self._note_home(entry, text)
        if wait:
            self.keep(origin, mid, slots)
            if groups:
                entry.stored = True
                self._note(origin, mid, entry)
        return wait or bool(known.kept)

    def take_own(self, message: Message, slots: Iterable[int]) -> list[int]:
        """As `ClusterPort.take_own`."""
        mid = (message.origin.boot, message.counter)
        known = self._known(message)
        lacking = [slot for slot in slots if known is None or slot not in known.slots]
        self.keep(message.origin.node, mid, lacking)
        entry = self._seen[message.origin.node][mid] if lacking else None
        if entry is not None:
            entry.slots = [*entry.slots, *lacking]
        return lacking

    def take_own_live(self, message: Message) -> bool:
        """As `ClusterPort.take_own_live`."""
        known = self._entry(*message.mid)
        if LIVE in known.parts:
            return False
        known.parts = [*known.parts, LIVE]
        return True

    def keep(self, origin: str, mid: tuple[int, int], slots: Iterable[int]) -> None:
        """Store that these slots have this QoS 2 message, which its origin may send again."""
        entry = self._entry(origin, *mid)
        for slot in slots:
            if slot not in entry.kept:
                entry.kept = [*entry.kept, slot]
                self._node.env.store.put(keys.seen_in_slot_key(slot, origin, *mid), b"")

    def keep_members(self, origin: str, mid: tuple[int, int]) -> None:
        """Another node goes on with this handshake: note on disk the parts that members here got (H-47)."""
        entry = self._seen.get(origin, {}).get(mid)
        if entry is not None and entry.homes:
            entry.stored = True
            self._note(origin, mid, entry)

    def given(self, message: Message, part: str, wait: bool) -> None:
        """Note that a session here got this part of a QoS 2 message: on disk with `wait`, for then its queue entry is
        in the open batch; else in memory, until `lose_slot`."""
        origin, mid = message.origin.node, (message.origin.boot, message.counter)
        known = self._entry(*message.mid)
        known.parts = [*[each for each in known.parts if each != part], part]
        known.relayed = [each for each in known.relayed if each != part]
        known.stored = known.stored or wait
        self._note_home(known, part)
        if wait:
            self._note(origin, mid, known)

    def members_had(self, mid: Mid, members: Mapping[str, int]) -> None:
        """An open handshake of an earlier process was restored: its message is in the queues of these members here, for
        each `$share` filter the slot of one. That is on disk with the handshake. A slot that was leaving tells nothing:
        nobody knows whether its next primary has the message."""
        here = {part: home for part, home in members.items() if home not in self._node.sessions.elsewhere}
        if here:
            known = self._entry(*mid)
            known.parts = [*[each for each in known.parts if each not in here], *here]
            known.homes = {**known.homes, **here}

    def handed_over(self, message: Message, part: str) -> None:
        """Store that this part of a QoS 2 message was taken: its session hands it over to a session that may be
        durable, perhaps at another node. So far, if only clean sessions had the part, it was not on disk."""
        known = self._known(message)
        if known is not None and part in known.parts and not known.stored:
            known.stored = True
            self._note(message.origin.node, (message.origin.boot, message.counter), known)

    def _note_home(self, entry: DedupEntry, part: str) -> None:
        """The router has just given this part to a member of its group: note the member's slot if its session is
        durable."""
        slot = self._node.router.slots_of_members.get(part, NO_SLOT)
        entry.homes = {each: home for each, home in entry.homes.items() if each != part}
        if slot != NO_SLOT:
            entry.homes[part] = slot

    def _note(self, origin: str, mid: tuple[int, int], seen: DedupEntry) -> None:
        # relayed parts are not stored: after a restart the message for their groups is delivered again
        parts = [
            f"{seen.homes[each]} {each}" if each in seen.homes else each
            for each in seen.parts
            if each not in seen.relayed
        ]
        self._node.env.store.put(keys.seen_key(origin, *mid), "\0".join(parts).encode())

    def _relayed(self, origin: str, lane: _Lane, seq: int) -> None:
        """Remove a number from `owed`: its message is acknowledged or void."""
        del lane.owed[seq]
        self._node.env.store.delete(keys.owed_key(origin, lane.boot, seq))

    def settle(self, origin: str, stable: tuple[int, int]) -> None:
        """Forget the mids that the origin will never send again."""
        seen = self._seen.get(origin)
        while seen:
            mid = next(iter(seen))
            if mid >= stable:
                return
            self.settle_one(origin, mid)

    def settle_open(self, origin: str, known: OpenMids) -> None:
        """Forget the mids whose handshakes the origin reports as over, even if an older handshake is open."""
        kept = set(known.mids)
        for mid in [mid for mid in self._seen.get(origin, ()) if known.first <= mid < known.end and mid not in kept]:
            self.settle_one(origin, mid)

    def settle_one(self, origin: str, mid: tuple[int, int]) -> None:
        """Forget a mid that the origin will never send again, if it is known here."""
        self._forget(origin, mid, lambda key: self._node.env.store.write_later(key, None))

    def _forget(self, origin: str, mid: tuple[int, int], delete: Callable[[bytes], None]) -> None:
        seen = self._seen.get(origin, {}).pop(mid, None)
        if seen is None:
            return
        if seen.stored:
            delete(keys.seen_key(origin, *mid))
        for slot in seen.kept:
            delete(keys.seen_in_slot_key(slot, origin, *mid))

    def _answer(self, origin: str, lane: _Lane, seq: int, commit: int, pending: PendingAcks | None) -> None:
        """Acknowledge this item as soon as the commit is done, the other nodes have it, and all items before it are
        finished; or early."""
        if pending is not None and not pending.open:
            pending = None
        if not commit and pending is None and (lane.writing or lane.relays):
            self._only_behind(origin, lane, [seq])
        lane.answered = seq
        if pending is not None:
            lane.relays.append((seq, pending))
            pending.waiter = lambda: self._relay_over(origin, lane, seq, commit)
        writing = lane.writing
        if writing and commit <= writing[-1][0]:
            if commit:
                writing[-1][1].append((seq, pending))
        elif commit:
            writing.append((commit, [(seq, pending)]))
            self._node.env.store.when_committed(commit, lambda: self._advance(origin, lane))
        elif not lane.scheduled:
            lane.scheduled = True
            self._node.env.after_turn(lambda: self._turn_over(origin, lane))

    def _relay_over(self, origin: str, lane: _Lane, seq: int, commit: int) -> None:
        """The nodes to which this item was relayed have it."""
        self._advance(origin, lane)
        if lane.done < seq and commit <= self._node.env.store.committed:
            self._only_behind(origin, lane, [seq])

    def _only_behind(self, origin: str, lane: _Lane, seqs: list[int]) -> None:
        """Note numbers that are finished: they wait only for an earlier one, which waits for the disk or for a node."""
        lane.free += seqs
        if not lane.stuck:
            self._arm(origin, lane)
        elif len(lane.free) == len(seqs):
            self._node.env.after_turn(lambda: self._early(origin, lane))

    def _arm(self, origin: str, lane: _Lane) -> None:
        """Start a timer that checks whether the lane makes progress."""
        if lane.free and not lane.armed:
            lane.armed = True
            oldest = lane.free[0]
            self._node.env.timers.at(self._node.env.now + EARLY_MS, lambda: self._still_behind(origin, lane, oldest))

    def _still_behind(self, origin: str, lane: _Lane, oldest: int) -> None:
        """If the lane made no progress, the disk is full or hangs, or the node of a relay is absent: acknowledge the
        items that wait for neither."""
        lane.armed = False
        if lane.free and lane.free[0] == oldest:
            lane.stuck = True
            self._early(origin, lane)
        self._arm(origin, lane)

    def _early(self, origin: str, lane: _Lane) -> None:
        seqs, lane.free = lane.free, []
        if seqs and self._lanes.get(origin) is lane:
            self.ack_early(origin, seqs, lane.boot)

    def _turn_over(self, origin: str, lane: _Lane) -> None:
        lane.scheduled = False
        self._advance(origin, lane)

    def _advance(self, origin: str, lane: _Lane) -> None:
        """Tell the origin up to which number all items are safe. Those behind are told early."""
        committed = self._node.env.store.committed
        writing, relays = lane.writing, lane.relays
        safe: list[_Item] = []
        while writing and writing[0][0] <= committed:
            safe += writing.popleft()[1]
        while relays and not relays[0][1].open:
            relays.popleft()
        done = lane.answered
        if writing:
            done = min(done, writing[0][1][0][0] - 1)
        if relays:
            done = min(done, relays[0][0] - 1)
        if done > lane.done:
            lane.done = done
            lane.stuck = False
            if lane.free:
                lane.free = [each for each in lane.free if each > done]
            # an owed item that became void after a restart does not come again; a later number acknowledges it
            for seq in [each for each in lane.owed if each <= done]:
                self._relayed(origin, lane, seq)
            if self._lanes.get(origin) is lane:
                self._acknowledge(origin, done, lane.boot)
        behind = [seq for seq, pending in safe if seq > done and (pending is None or not pending.open)]
        if behind:
            self._only_behind(origin, lane, behind)


def _not_early(origin: str, seqs: list[int], boot: int) -> None:
    """Send nothing: the origin waits until all earlier items are finished too."""


def _nothing() -> None:
    """Wait until the links ask by themselves."""


def _nobody(message: Message, part: str, sender: str, context: AckContext) -> bool:
    return False


def _parts_and_homes(stored: list[str]) -> tuple[list[str], dict[str, int]]:
    """The parts in the row of a mid, and the slots of those that durable sessions got: these begin with the slot."""
    parts: list[str] = []
    homes: dict[str, int] = {}
    for each in stored:
        slot, _, part = each.partition(" ") if each[:1].isdigit() else ("", "", each)
        parts.append(part)
        if slot:
            homes[part] = int(slot)
    return parts, homes
