"""The target's side of messages from other nodes: into the queues once, acknowledged when they are safe (P6).

The number up to which the lane of an origin was taken is written in the batch of the queue entries, so that no
message is taken again after a restart; except a message that was relayed and not acknowledged: it is noted, too, and
comes again. A QoS 2 message can come twice under its mid, on another lane, because its origin was restarted in the
middle of a handshake; its mid is remembered until the origin says that it is over (H-12).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from ...cluster.links.ports import Refuse
from ...storage import keys
from ..routing.ack_context import AckContext
from ..routing.pending_acks import PendingAcks
from ..routing.plans import PlanCache
from ..routing.router import AFTER_COMMIT
from .forward_codec import ForwardedMessage, OpenMids, decode_forward, decode_open_mids, is_open_mids

if TYPE_CHECKING:
    from ..node import Node
    from ..queues.message import Message


PLAIN = ""
"""The part of a message that is for ordinary subscriptions; the others are named by their `$share` filters."""


PassOn = Callable[["Message", str, str, AckContext], bool]
"""The port to the origin of a QoS 2 message that the named node sent for a `$share` filter without a member here: True
if the origin gives the message to another member, or has done so. The same for an own message that comes back."""


class Acknowledge(Protocol):
    """The port to the links: tells this boot of an origin how far its lane is done with."""

    def __call__(self, origin: str, seq: int, boot: int) -> None:
        """All items up to `seq` of the lane are done."""
        ...


AckEarly = Callable[[str, list[int], int], None]
"""The port to the links: these numbers of the lane of this boot of an origin are done with, not all before them."""

EARLY_MS = 250
"""When the disk takes nothing for so long, what does not wait for it is acknowledged alone."""


class _Lane(msgspec.Struct):
    """One origin: its boot, how far its lane was taken, and (number, commit, pending acks) that are not yet answered.

    `owed` are the numbers, also on disk, of messages that were taken and relayed, and not yet acknowledged.
    """

    boot: int
    taken: int
    waiting: deque[tuple[int, int, PendingAcks | None]]
    registered: int = 0
    scheduled: bool = False
    owed: dict[int, None] = {}
    free: list[int] = []
    """Numbers that wait only for the numbers before them."""
    stuck: bool = False
    armed: bool = False


class DedupEntry(msgspec.Struct):
    """A QoS 2 message that may come again: which parts of it were taken, and whether that is on disk; which of them
    were relayed, and the acknowledgements of other nodes that are still missing."""

    parts: list[str]
    stored: bool
    relayed: list[str] = []
    pending: PendingAcks | None = None


class ForwardReceiver:
    """All that other nodes send here as origins."""

    def __init__(
        self, node: Node, acknowledge: Acknowledge, serving: Callable[[], bool], direct: ForwardReceiver | None = None
    ) -> None:
        """`serving`: this node has caught up with the others. With `direct`, which takes the messages that origins send
        themselves, this one takes relayed messages.

        It acknowledges as soon as its disk has the message, and does not wait for messages that it relays. So two
        nodes that relay to each other never wait for each other (H-15).
        """
        self._node = node
        self.pass_on: PassOn = _nobody
        self._acknowledge = acknowledge
        self.ack_early: AckEarly = _not_early
        self._serving = serving
        self._relays = direct is not None
        self._lanes: dict[str, _Lane] = {}
        self._seen: dict[str, dict[tuple[int, int], DedupEntry]] = {} if direct is None else direct._seen

    def load(self) -> None:
        """Bring back watermarks and open QoS 2 mids from the store."""
        store = self._node.env.store
        for key, value in store.scan(b"w", b"x"):
            name, boot, seq = keys.parse_watermark_key(key)
            lane = self._lanes.get(name)
            if lane is None or lane.boot < boot:
                lane = self._lanes[name] = _Lane(boot, 0, deque())
            if seq:
                lane.owed[seq] = None
            else:
                lane.taken = int.from_bytes(value, "big")
        for key, value in store.scan(b"x", b"y"):
            name, boot, counter = keys.parse_seen_key(key)
            self._seen.setdefault(name, {})[boot, counter] = DedupEntry(value.decode().split("\0"), True)

    def watermark(self, origin: str, boot: int) -> int:
        """How far the lane of this boot of the origin was taken, durably where it matters; 0 for a new boot."""
        lane = self._lanes.get(origin)
        if lane is None or lane.boot < boot:
            self._clear(origin, lane)
            lane = self._lanes[origin] = _Lane(boot, 0, deque())
        return min([lane.taken, *[seq - 1 for seq in lane.owed]])

    def _clear(self, origin: str, lane: _Lane | None) -> None:
        if lane is not None:
            self._node.env.store.delete(keys.watermark_key(origin, lane.boot))
            for seq in list(lane.owed):
                self._relayed(origin, lane, seq)

    def forget(self, origin: str, before: int) -> None:
        """All boots of the origin before this one have left the cluster for good."""
        store = self._node.env.store
        lane = self._lanes.get(origin)
        if lane is not None and lane.boot < before:
            del self._lanes[origin]
            self._clear(origin, lane)
        seen = self._seen.get(origin, {})
        for mid in [mid for mid in seen if mid[0] < before]:
            if seen.pop(mid).stored:
                store.delete(keys.seen_key(origin, *mid))

    def skip(self, origin: str, seq: int) -> None:
        """The next item of an origin's lane needs no work: it is finished, or void because the origin sent it before it
        left the view (H-14)."""
        lane = self._lanes[origin]
        lane.taken = max(lane.taken, seq)
        self._answer(origin, lane, seq, 0, None)

    def deliver(self, origin: str, seq: int, payload: bytes) -> None:
        """Take the next message of an origin's lane. Raises `MalformedForward` before anything is taken, and `Refuse`
        if it is for a group member that ended with an earlier process: this process does not know the other members
        before it serves, and the origin selects another one when it hears of the restart."""
        node, lane = self._node, self._lanes[origin]
        if seq <= lane.taken and seq not in lane.owed:
            self._answer(origin, lane, seq, 0, None)  # it comes again behind an item that a restart left unacknowledged
            return
        if is_open_mids(payload) and not self._relays:
            self.settle_open(origin, decode_open_mids(payload))
            self.skip(origin, seq)
            return
        forwarded = decode_forward(payload, node.env.origins)
        message = forwarded.message
        node.env.events.observe(forwarded.hlc)
        plans = node.router.plans(message.mountpoint)
        if forwarded.groups and not self._serving() and not node.router.has_members(message, plans, forwarded.groups):
            raise Refuse(f"{node.name} does not serve yet, and has no member of {', '.join(forwarded.groups)}")
        if node.env.events.messages:
            node.env.event("fwd.recv", mid=message.mid, source=origin, topic=message.topic)
        if origin in self._seen:
            self.settle(origin, forwarded.qos2_stable)
        context = AckContext()
        if message.qos < 2:
            wait = node.router.deliver(message, plans, forwarded.plain, forwarded.groups, context) == AFTER_COMMIT
        else:
            # a relayed message has the mid of the node that accepted it
            mid = (message.origin.boot, message.counter)
            wait = self._deliver_once(origin, message.origin.node, mid, forwarded, plans, context)
        lane.taken = max(lane.taken, seq)
        pending = context.take()
        if self._relays:
            pending = None  # and after a restart it may come again: only QoS 2 has to know
        else:
            if pending is not None and pending.open:
                lane.owed[seq] = None
                node.env.store.put(keys.owed_key(origin, lane.boot, seq), b"")
            elif seq in lane.owed:
                self._relayed(origin, lane, seq)
            if wait:
                node.env.store.put(keys.watermark_key(origin, lane.boot), lane.taken.to_bytes(8, "big"))
        self._answer(origin, lane, seq, node.env.store.open_commit if wait else 0, pending)

    def took(self, message: Message, part: str) -> bool:
        """Whether a session here has this part of a QoS 2 message that another node was to have."""
        seen = self._known(message)
        return seen is not None and part in seen.parts and part not in seen.relayed

    def _known(self, message: Message) -> DedupEntry | None:
        return self._seen.get(message.origin.node, {}).get((message.origin.boot, message.counter))

    def _deliver_once(
        self,
        sender: str,
        origin: str,
        mid: tuple[int, int],
        forwarded: ForwardedMessage,
        plans: PlanCache,
        context: AckContext,
    ) -> bool:
        """Give each part of a QoS 2 message to its sessions once. True if the disk has to have it first.

        The parts are the ordinary subscriptions and each group: one that chose another node before can choose this one,
        which has had the message for the others.
        """
        node = self._node
        seen = self._seen.setdefault(origin, {})
        known = seen.get(mid) or DedupEntry([], False)
        plain = forwarded.plain and PLAIN not in known.parts
        groups = tuple([text for text in forwarded.groups if text not in known.parts])
        if known.pending is not None and known.pending.open:
            context.pending = known.pending  # earlier relays of it are not acknowledged yet
        message = forwarded.message
        missing = [each for each in groups if not node.router.has_members(message, plans, (each,))]
        own = message.origin.node == node.name
        passed = [each for each in (groups if own else missing) if self.pass_on(message, each, sender, context)]
        groups = tuple([each for each in groups if each not in passed])
        known = seen.get(mid) or known  # an own message may have been given to a session here
        if not plain and not groups:
            return known.stored  # taken before, and perhaps not yet safe
        relayed = [each for each in missing if each not in passed]
        relayed += [each for each in known.relayed if each not in groups]
        wait = node.router.deliver(message, plans, plain, groups, context) == AFTER_COMMIT or known.stored
        seen[mid] = DedupEntry([*known.parts, *([PLAIN] if plain else ()), *groups], wait, relayed, context.pending)
        if wait:
            self._note(origin, mid, seen[mid])
        return wait

    def given(self, message: Message, part: str, wait: bool) -> None:
        """A session here got this part of a QoS 2 message after all, the node that had been chosen being gone; with
        `wait` the open batch has it."""
        origin, mid = message.origin.node, (message.origin.boot, message.counter)
        known = self._seen.setdefault(origin, {}).setdefault(mid, DedupEntry([], False))
        known.parts = [*[each for each in known.parts if each != part], part]
        known.relayed = [each for each in known.relayed if each != part]
        known.stored = known.stored or wait
        if wait:
            self._note(origin, mid, known)

    def handed_over(self, message: Message, part: str) -> None:
        """The session that got this part of a QoS 2 message has left it to one that may last, perhaps on another node:
        where only clean sessions had it, a restart has to know from now on, too."""
        known = self._known(message)
        if known is not None and part in known.parts and not known.stored:
            known.stored = True
            self._note(message.origin.node, (message.origin.boot, message.counter), known)

    def _note(self, origin: str, mid: tuple[int, int], seen: DedupEntry) -> None:
        # a restart forgets relayed parts, and the group's message comes again
        parts = [each for each in seen.parts if each not in seen.relayed]
        self._node.env.store.put(keys.seen_key(origin, *mid), "\0".join(parts).encode())

    def _relayed(self, origin: str, lane: _Lane, seq: int) -> None:
        """Nothing is owed for this number any more."""
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
        """Forget the mids of which the origin says that their handshakes are over, whatever older one is open."""
        kept = set(known.mids)
        for mid in [mid for mid in self._seen.get(origin, ()) if known.first <= mid < known.end and mid not in kept]:
            self.settle_one(origin, mid)

    def settle_one(self, origin: str, mid: tuple[int, int]) -> None:
        """Forget a mid that the origin will never send again, if it is known here."""
        seen = self._seen.get(origin, {}).pop(mid, None)
        if seen is not None and seen.stored:
            self._node.env.store.delete(keys.seen_key(origin, *mid))

    def _answer(self, origin: str, lane: _Lane, seq: int, commit: int, pending: PendingAcks | None) -> None:
        if lane.waiting:
            _, before, earlier = lane.waiting[-1]
            if not commit and pending is None and (lane.owed or before > self._node.env.store.committed):
                self._only_behind(origin, lane, seq)
            commit = max(commit, before)
            if commit == before and pending is None and earlier is None:
                lane.waiting.pop()  # one answer for both
                if lane.scheduled:
                    lane.waiting.append((seq, commit, None))
                    return
        lane.waiting.append((seq, commit, pending))
        if pending is not None and pending.open:
            pending.waiter = lambda: self._advance(origin, lane)
        if commit > lane.registered:
            lane.registered = commit
            self._node.env.store.when_committed(commit, lambda: self._advance(origin, lane))
        elif not lane.scheduled and (not commit or commit <= self._node.env.store.committed):
            lane.scheduled = True
            self._node.env.after_turn(lambda: self._turn_over(origin, lane))

    def _only_behind(self, origin: str, lane: _Lane, seq: int) -> None:
        """This number is done with, and waits for the disk only because something before it does."""
        lane.free.append(seq)
        if not lane.stuck:
            self._arm(origin, lane)
        elif len(lane.free) == 1:
            self._node.env.after_turn(lambda: self._early(origin, lane))

    def _arm(self, origin: str, lane: _Lane) -> None:
        """Look again after a while whether the lane gets on."""
        if lane.free and not lane.armed:
            lane.armed = True
            oldest = lane.free[0]
            self._node.env.timers.at(self._node.env.now + EARLY_MS, lambda: self._still_behind(origin, lane, oldest))

    def _still_behind(self, origin: str, lane: _Lane, oldest: int) -> None:
        """If the lane got no further, the disk is full or hangs: items that need no disk do not wait for it now."""
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
        """Tell the origin how far all is safe, in order."""
        committed = self._node.env.store.committed
        done = 0
        waiting = lane.waiting
        while waiting:
            seq, commit, pending = waiting[0]
            if commit > committed or (pending is not None and pending.open):
                break
            done = seq
            waiting.popleft()
        if done:
            lane.stuck = False
            if lane.free:
                lane.free = [each for each in lane.free if each > done]
        # an item that became void since a restart did not come again, or was answered with a later one
        for seq in [each for each in lane.owed if each <= done]:
            self._relayed(origin, lane, seq)
        if done and self._lanes.get(origin) is lane:
            self._acknowledge(origin, done, lane.boot)


def _not_early(origin: str, seqs: list[int], boot: int) -> None:
    """The origin waits until everything before is done with, too."""


def _nobody(message: Message, part: str, sender: str, context: AckContext) -> bool:
    return False
