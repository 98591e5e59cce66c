"""The origin's side of messages for other nodes: one copy per node, and the nodes that have not acknowledged theirs.

Only the node that accepted a PUBLISH decides when it is done (H-07). A copy stays pending until one of these events:

- its node acknowledges it;
- a view without its node is applied, and the copy was only for clean sessions there, which have ended;
- a shared subscription had chosen its node, and the message goes to another member.

A copy for durable sessions of an absent node stays pending until the node is back or has left for good. So does a
QoS 2 message of a shared subscription if a durable session may have it. No copy ends by time.

A copy names the slots of its durable sessions. If one of them moves to another node, the copy is for the other slots
only, and that node gets a copy for this one, under the same routing number (H-44). Copies for a slot that is just
moving away from this node wait, as copies for the node `MOVING`, until the slot has a node again (H-45).

While the lane to a node is full, copies wait in `WaitingCopies`, and publishers take turns to enter the lane. The
body of a copy is encoded when its message is accepted, and still correct when it is sent later. `qos2_stable` is below
all waiting mids and those that may go to another node, because these QoS 2 mids count as open (`opened`): neither a
copy that overtakes one nor a list of open mids says that it is over. And when the copy is sent, more writes of the
replicated map have gone before it, never fewer. The head is made when the copy enters the lane, because publishers that
take turns change the order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...cluster.identity import slot_of, slot_of_origin
from ...netsplit.policy import ViewState
from ..cluster_port import NO_MEMBERS, Pausable
from ..queues.message import Message, Mid
from ..routing.ack_context import AckContext
from ..routing.pending_acks import PendingAcks, complete_all
from ..routing.remote import MOVING, RemoteMembers, RemoteTarget
from ..routing.router import AFTER_COMMIT
from .forward_codec import OpenMids, encode_forward, head_with_slots, head_without_slots
from .message_origins import MessageOrigins
from .open_handshakes import HandshakesByOrigin
from .outstanding_forward import COPY_BYTES, OutstandingForward, PublishLanes
from .slow_nodes import SlowNodes
from .unproven_answers import UnprovenAnswers
from .waiting_copies import WaitingCopies

if TYPE_CHECKING:
    from ..node import Node
    from .forward_receiver import ForwardReceiver


def _nobody_here(copy: OutstandingForward) -> None:
    """Default of `here`."""
    raise AssertionError(f"slots {copy.slots} have moved to a node that has no slots")


class ForwardSender:
    """The copies that this node sends to other nodes."""

    def __init__(
        self,
        node: Node,
        lanes: PublishLanes,
        direct: ForwardSender | None = None,
        receiving: ForwardReceiver | None = None,
    ) -> None:
        """`direct` is None for the sender of this node's own messages. A sender that gets that one as `direct` sends
        the messages that this node relays, on other lanes. `receiving` remembers the messages that a session here has.
        """
        self._node = node
        self._lanes = lanes
        self._receiving: ForwardReceiver | None = receiving if direct is None else direct._receiving
        self._under_way: dict[str, deque[OutstandingForward]] = {}
        self._waiting: WaitingCopies[OutstandingForward] = WaitingCopies(node, lanes)
        own = HandshakesByOrigin(node.name, node.env.numbers, lambda slot: node.env.cluster.slot_epoch(slot))
        self.handshakes: HandshakesByOrigin = own if direct is None else direct.handshakes
        self.origins: MessageOrigins = MessageOrigins(node.name) if direct is None else direct.origins
        self._is_origin = direct is None
        self.since = 0
        """The view in which this node entered: all nodes treat its copies of an earlier view as void (H-14)."""
        self._number = 0
        self.answers = UnprovenAnswers()
        self.here: Callable[[OutstandingForward], None] = _nobody_here
        """Called with a copy that has no lane: its slots have moved to this node."""
        self.slow = SlowNodes(lanes)

    @property
    def copies(self) -> int:
        """Copies that are not acknowledged yet."""
        return sum(len(each) for each in self._under_way.values()) + len(self._waiting)

    # -- out

    def forward(
        self,
        message: Message,
        targets: tuple[RemoteTarget, ...],
        members: list[RemoteMembers],
        context: AckContext,
    ) -> None:
        """Send the message to each target, and to the nodes of the members that were chosen for shared subscriptions.

        For QoS 1 and 2 the answer to the publisher waits for all of these nodes (`context`).
        """
        node = self._node
        pending: PendingAcks | None = None
        relayed = message.origin is not node.env.origin and self._relayed(message)
        policy = node.policy
        waits = not policy.restricted or context.pending or relayed or policy.view_state is not ViewState.MINORITY
        if message.qos and context.answered and waits:
            pending = context.need()
        # never void: a relayed copy, because another origin waits for it; a copy that no publisher waits for or repeats
        kept = message.qos > 0 and (pending is None or relayed)
        chosen: dict[str, list[RemoteMembers]] = {}
        for member in members:
            chosen.setdefault(member.node, []).append(member)
        stable = self._stable(message)
        plain_body = b""
        for target in targets:
            name = target.node
            if not message.qos and (target.absent or name in self._lanes.slow):
                self._drop(message, target)
                continue
            groups: Sequence[RemoteMembers] = ()
            if chosen and name in chosen:
                groups = chosen.pop(name)
                body = encode_forward(message, tuple([each.text for each in groups]), stable)
            elif plain_body:
                body = plain_body
            else:
                body = plain_body = encode_forward(message, (), stable)
            copy = OutstandingForward(0, message, pending, target.live, target.slots, groups, kept)
            self._send(name, body, copy)
            if target.slots or groups:
                self._for_disk(name, copy, target.absent)
        for name, groups in chosen.items():
            body = encode_forward(message, tuple([each.text for each in groups]), stable)
            copy = OutstandingForward(0, message, pending, False, (), groups, kept)
            self._send(name, body, copy)
            self._for_disk(name, copy, False)
        node.env.counters.router_matches_remote += len(targets) + len(chosen)

    def give_back(self, message: Message, text: str, context: AckContext) -> None:
        """Tell the origin of a QoS 2 message that this node has no member of the group any more. Only the origin knows
        which node has the message (H-07, H-09). If the origin has left the view, its copy is void anyway."""
        pending = context.need()
        body = encode_forward(message, (text,), self._stable(message))
        # not `kept`: so its head tells the origin that it is no message that this node relays
        self._send(self.origins.home(message.origin.node), body, OutstandingForward(0, message, pending, False, (), ()))

    def _send(self, name: str, body: bytes, copy: OutstandingForward) -> None:
        if copy.pending is not None:
            copy.pending.open += 1
        if name == MOVING:
            self._wait(name, body, copy)
            self._open(copy)
            return
        if name in self._lanes.full and (name in self._waiting.queues or self._node.env.cluster.is_present(name)):
            # no copy overtakes a waiting one; a copy for an absent node enters the lane, which has a bound for these
            self._wait(name, body, copy)
        else:
            self._put(name, body, copy)
        if name in self._lanes.slow:
            self.slow.hit(name, copy.message.publisher)
        if copy.message.qos == 2:
            self._open(copy)
            if self._is_origin and not self._relayed(copy.message):
                self._tell_open(name, copy.message.origin.node)

    def _wait(self, name: str, body: bytes, copy: OutstandingForward) -> None:
        message = copy.message
        self._waiting.put(name, (message.mountpoint, message.publisher), body, copy)
        if message.qos == 2:
            self.opened(message.mid)

    def _put(self, name: str, body: bytes, copy: OutstandingForward) -> None:
        """Number the copy, and give it to the lane."""
        slots, since = copy.slots, 0 if copy.kept else self.since
        if slots or copy.groups or slot_of_origin(copy.message.origin.node) >= 0:
            if slots and not copy.number:
                self._number += 1
                copy.number = self._number
            again = copy.again or copy.message.again
            head = head_with_slots(since, copy.live, slots, copy.number, self.answers.table, again)
        else:
            head = head_without_slots(since, copy.live)
        copy.seq = self._lanes.send(name, head + body)
        copies = self._under_way.get(name)
        if copies is None:
            copies = self._under_way[name] = deque()
        copies.append(copy)
        if self._node.env.events.messages:
            self._node.env.event("fwd.send", mid=copy.message.mid, target=name, topic=copy.message.topic)

    def room(self, name: str) -> None:
        """Send waiting copies, publishers in turn: the lane to the node has room again, or its link is down."""
        while name in self._waiting.queues and name not in self._lanes.full:
            for body, copy in self._waiting.take(name):
                self._enter(name, body, copy)
        self._waiting.relieve(name)

    def _enter(self, name: str, body: bytes, copy: OutstandingForward) -> None:
        """Move a copy from the waiting room to the lane."""
        self._put(name, body, copy)
        self._waits_no_more(copy)

    def _waits_no_more(self, copy: OutstandingForward) -> None:
        if copy.message.qos == 2:
            self.closed(copy.message.mid)

    def _for_disk(self, name: str, copy: OutstandingForward, absent: bool) -> None:
        """Count a copy that waits for the node's disk."""
        if copy.durable or any(member.lasting for member in copy.groups):
            copy.disk_bytes = len(copy.message.payload) + COPY_BYTES
            self.slow.waits_for_disk(name, copy.disk_bytes, copy.message.publisher, absent)

    def _drop(self, message: Message, target: RemoteTarget) -> None:
        """Drop a QoS 0 message for a slow or absent node: nobody acknowledged it."""
        reason = "absent" if target.absent else "cluster_congested"
        self._node.env.counters.drop(reason)
        facts = {"target": target.node, "mid": message.mid, "topic": message.topic, "qos": message.qos}
        self._node.env.event("fwd.drop", reason=reason, **facts)

    def _relayed(self, message: Message) -> bool:
        """True if another node is the origin. It had chosen this node for a group member that has ended."""
        return not self.origins.is_own(message.origin.node)

    def _stable(self, message: Message) -> tuple[int, int]:
        """The mid below which the origin of this message never sends a mid again; of a relayed message, this node."""
        return self.handshakes.of(self._node.name if self._relayed(message) else message.origin.node).stable()

    def congested(self, mountpoint: str, publisher: str) -> str:
        """Return a slow node that a message of this client was for since the last call, or a node for which too many
        bytes of this client wait; "" if none. Other clients are not paused."""
        if self._waiting.queues and (name := self._waiting.crowded_by((mountpoint, publisher))):
            return name
        return self.slow.hit_by(publisher)

    def pause(self, name: str, connection: Pausable) -> None:
        """Unpause this connection later: when fewer bytes of its client wait, or when the node is not slow any more."""
        if not self._waiting.pause(name, connection):
            self.slow.pause(name, connection)

    # -- done

    def acked(self, name: str, upto: int, leased: bool = True, index: int = 0, boot: int = 0) -> None:
        """The node has all copies up to this number, as durably as its sessions need: end these copies.

        `index` is that of the slot table which start `boot` of the node followed then. It may prove nothing yet: see
        `UnprovenAnswers`. If this node must enter another view, all copies are void.
        """
        if self.answers.counts(name, upto, [], index, leased, boot):
            self._acked(name, upto)

    def _acked(self, name: str, upto: int) -> None:
        copies, done = self._under_way.get(name), []
        while copies and copies[0].seq <= upto:
            done.append(copies.popleft())
        self._finish(name, done)

    def acked_early(self, name: str, seqs: list[int], leased: bool = True, index: int = 0, boot: int = 0) -> None:
        """The node has these copies, as durably as its sessions need, although earlier ones are not finished."""
        if self.answers.counts(name, 0, seqs, index, leased, boot):
            self._acked_early(name, seqs)

    def _acked_early(self, name: str, seqs: list[int]) -> None:
        early, copies = set(seqs), self._under_way.get(name, ())
        self._under_way[name] = deque([copy for copy in copies if copy.seq not in early])
        self._finish(name, [copy for copy in copies if copy.seq in early])

    def _finish(self, name: str, copies: list[OutstandingForward]) -> None:
        """The node has these copies."""
        size = 0
        for copy in copies:
            size += copy.disk_bytes
            if copy.opens:
                self._over(copy)
            if self._node.env.events.messages:
                self._node.env.event("fwd.ack", mid=copy.message.mid, target=name)
        complete_all([copy.pending for copy in copies if copy.pending is not None])
        if size:
            self.slow.on_disk(name, size)

    def proven(self) -> None:
        """Apply the answers that were noted and count now: the lease is there, or their copies are void."""
        for name, answer in self.answers.proven():
            self._acked(name, answer.upto)
            self._acked_early(name, answer.early)

    # -- slots that move

    def follow(self, index: int, moves: Mapping[int, tuple[str, str]]) -> None:
        """This node follows the slot table of this index. `moves`: slot -> its former and its present node.

        What the former node has not acknowledged goes to the present one: first the copies that were in the lane, in
        the order of their numbers, then those that waited for it, both before any newer copy. Nobody waits for QoS 0.
        """
        self.follow_table(index)
        for former in dict.fromkeys([each[0] for each in moves.values()]):
            present = {slot: node for slot, (before, node) in moves.items() if before == former}
            over = [copy for copy in list(self._under_way.get(former, ())) if self._divide(copy, present, self._put)]
            if over:
                self._lanes.void(former, [copy.seq for copy in over])
                ended = set(map(id, over))
                self._under_way[former] = deque([each for each in self._under_way[former] if id(each) not in ended])
            for body, copy in self._waiting.take_all(former):
                if self._divide(copy, present, self._send_divided):
                    self._waits_no_more(copy)
                    over.append(copy)
                else:
                    self._waiting.put(former, (copy.message.mountpoint, copy.message.publisher), body, copy)
            self._count_again(former)
            for copy in over:
                self._over(copy)
            complete_all([copy.pending for copy in over if copy.pending is not None])
            if not self._node.env.cluster.is_present(former):
                self._end(former, partial(self._lacks_members, present))

    def follow_table(self, index: int) -> None:
        """This node follows the slot table of this index: later copies say so."""
        self.answers.table = index

    def unpark(self, present: Mapping[int, str]) -> None:
        """Send what waited for slots that were moving. `present`: slot -> its node, for those that do not move now."""
        over = []
        for body, copy in self._waiting.take_all(MOVING):
            self._divide(copy, present, self._send_divided)
            if copy.groups:  # the member that was chosen may be anywhere now
                self._choose_again(copy)
                copy.groups = ()
            if copy.slots:
                self._waiting.put(MOVING, (copy.message.mountpoint, copy.message.publisher), body, copy)
            else:
                self._over(copy)
                self._waits_no_more(copy)
                over.append(copy)
        self._count_again(MOVING)
        complete_all([copy.pending for copy in over if copy.pending is not None])

    @property
    def parked(self) -> bool:
        """True if copies wait for a slot that is moving."""
        return MOVING in self._waiting.queues

    def _divide(
        self,
        copy: OutstandingForward,
        present: Mapping[int, str],
        send: Callable[[str, bytes, OutstandingForward], None],
    ) -> bool:
        """Take out of a copy the slots that are at other nodes now, and send these a copy for them. Returns True if the
        copy is for nobody any more."""
        gone = [slot for slot in copy.slots if slot in present]
        if not gone:
            return False
        copy.slots = tuple([slot for slot in copy.slots if slot not in present])
        message, pending = copy.message, copy.pending
        for name in dict.fromkeys([present[slot] for slot in gone]) if message.qos else ():
            slots = tuple([slot for slot in gone if present[slot] == name])
            again = OutstandingForward(0, message, pending, False, slots, (), copy.kept, number=copy.number)
            again.again = bool(copy.seq)  # it was in the lane, so the former node may have delivered it
            if name == self._node.name:
                self.here(again)
                continue
            self._open(again)
            if pending is not None:
                pending.open += 1
            send(name, encode_forward(message, (), self._stable(message)), again)
            self._for_disk(name, again, not self._node.env.cluster.is_present(name))
        return not (copy.slots or copy.live or copy.groups)

    def _send_divided(self, name: str, body: bytes, copy: OutstandingForward) -> None:
        """Send a copy whose pending ack is counted already."""
        if copy.pending is not None:
            copy.pending.open -= 1
        self._send(name, body, copy)

    def publishes_of(self, slot: int) -> str:
        """Return a node that has not acknowledged a message of a client in this slot; "" if there is none.

        What waits for a slot that is moving does not count."""
        for name in dict.fromkeys([*self._under_way, *self._waiting.queues]):
            for copy in self._copies_for(name) if name != MOVING else ():
                message = copy.message
                if copy.message.qos and slot_of(message.mountpoint, message.publisher) == slot:
                    return name
        return ""

    def away(self, name: str) -> bool:
        """A view without the node's incarnation is applied: end the copies for its clean sessions, which have ended.

        True if these sessions missed a message that its publisher gets or got acknowledged.
        """
        ended = self._end(name, lambda copy: not (copy.durable or self._may_be_given(copy)))
        self.slow.relieved(name)
        return any(copy.live and copy.message.qos for copy in ended)

    def _end(self, name: str, over: Callable[[OutstandingForward], bool]) -> list[OutstandingForward]:
        """End the copies for an absent node of which `over` is true. Other members of their groups get the messages."""
        kept: deque[OutstandingForward] = deque()
        ended: list[OutstandingForward] = []
        for copy in self._under_way.get(name, ()):
            (ended if over(copy) else kept).append(copy)
        self._under_way[name] = kept
        self._lanes.void(name, [copy.seq for copy in ended])
        for body, copy in self._waiting.take_all(name):
            if over(copy):  # it has no number in the lane yet
                self._waits_no_more(copy)
                ended.append(copy)
            else:
                self._enter(name, body, copy)
        self._count_again(name)
        for copy in ended:
            self._choose_again(copy)
            self._over(copy)
            if copy.pending is not None:
                copy.pending.complete()
        return ended

    def _count_again(self, name: str) -> None:
        """Count what waits for a node's disk, after some of its copies have ended. Its paused publishers may be read
        again now: perhaps nothing will ever be sent there again, so no later acknowledgement would do that."""
        self.slow.still_wait(name, sum([copy.disk_bytes for copy in self._copies_for(name)]))

    def _copies_for(self, name: str) -> Iterator[OutstandingForward]:
        """Iterate over the copies in a node's lane, then over those that wait for the lane."""
        yield from self._under_way.get(name, ())
        yield from self._waiting.copies(name)

    def _lacks_members(self, moved: Mapping[int, str], copy: OutstandingForward) -> bool:
        return copy.lacks_members(moved) and not self._may_be_given(copy)

    def _may_be_given(self, copy: OutstandingForward) -> bool:
        """True if a durable session may have the QoS 2 message: then no other member gets it [MQTT5-4.8.2-5].
        This holds even if that member has unsubscribed since: its node reports if it does not have the message.

        If slots have copies, another node may have taken that member over, and the node itself will never have it
        again. Then another member is chosen: the group may get a QoS 2 message twice, but does not lose it."""
        router = self._node.router
        copied = self._node.options.queue_replicas > 1
        return copy.message.qos == 2 and any(
            (member.lasting and not copied) or router.lasts(copy.message, member) for member in copy.groups
        )

    def _choose_again(self, copy: OutstandingForward) -> None:
        """Give the message to another member of each of its shared subscriptions, under the same mid."""
        for member in copy.groups:
            if copy.message.qos == 2 and self._node.env.cluster.came_back(copy.message, member.text):
                continue  # the selected node relayed it to a session here, and ended before it could report that
            self._give_to_another(copy.message, member, copy.pending)

    def _give_to_another(
        self, message: Message, gone: RemoteMembers, pending: PendingAcks | None, drawn: str | None = None
    ) -> None:
        """Give the message to another member of the group. The new choice is on disk before the copy leaves, so a
        publisher that continues its handshake reaches the same node again.

        `drawn` is the choice that is already on disk, if any.
        """
        node = self._node
        group = node.router.select_again(message, gone, drawn)
        elsewhere = group.node
        record = pending.reselected if pending is not None else None
        if record is not None and elsewhere not in (None, drawn) and record(gone, elsewhere, NO_MEMBERS):
            assert pending is not None and elsewhere is not None
            self._when_safe(message, gone, elsewhere, pending)
            return
        routed = node.router.route_group(message, group, AckContext(pending, pending is not None))
        if record is not None and elsewhere is None:
            record(gone, None, node.router.slots_of_members)
        if message.qos == 2 and not node.router.remote_members and self._receiving is not None:
            self._receiving.given(message, gone.text, routed == AFTER_COMMIT)
        if routed == AFTER_COMMIT and pending is not None:
            node.env.store.when_committed(node.env.store.open_commit, pending.add().complete)

    def returned(self, message: Message, text: str, name: str, relayed: bool) -> bool:
        """The selected node has no member of the group any more: give the QoS 2 message to another member. True if a
        member gets it now, or will get it with the next step of the publisher's handshake. If it is `relayed`, there is
        no such step (H-09): it has come here over several nodes, if this node has not selected that one."""
        mid = message.mid
        for copy in self._copies_for(name):
            gone = next((each for each in copy.groups if each.text == text), None)
            if gone is not None and copy.message.mid == mid:
                self._give_to_another(copy.message, gone, copy.pending)
                copy.groups = [each for each in copy.groups if each is not gone]
                if not copy.for_others:
                    self._over(copy)
                return True
        known = self.handshakes.of(message.origin.node)
        return not relayed and (message.origin.boot == known.boot or mid[1:] in known.open)

    def _when_safe(self, message: Message, gone: RemoteMembers, drawn: str, pending: PendingAcks) -> None:
        mid = message.mid

        def safe() -> None:
            self._node.env.tick()
            self._give_to_another(message, gone, pending, drawn)
            self.closed(mid)
            pending.complete()

        pending.add()
        self.opened(mid)
        self._node.env.store.when_committed(self._node.env.store.open_commit, safe)

    def gone(self, name: str) -> None:
        """End all copies for a node whose sessions are lost: it has left for good, or is back with another disk."""
        copies = self._under_way.pop(name, deque())
        for _, copy in self._waiting.take_all(name):
            self._waits_no_more(copy)
            copies.append(copy)
        self._count_again(name)
        for copy in copies:
            self._choose_again(copy)
            self._over(copy)
            if copy.pending is not None:
                copy.pending.complete()
        self.slow.relieved(name)

    def passing_on(self, up: Callable[[str], bool]) -> bool:
        """True while a reachable node has not acknowledged a message that no publisher would repeat (a will, a message
        that an ended session handed over)."""
        names = {**self._under_way, **self._waiting.queues}
        return any(copy.kept for name in names if up(name) for copy in self._copies_for(name))

    def void_all(self) -> None:
        """This node left the view: cancel each copy that its target has not acknowledged. The publisher has no
        acknowledgement either, and repeats the message (H-14).

        Pending acks stay open, because the caller closes their connections. Copies marked `kept` are not cancelled.
        """
        for name in {**self._under_way, **self._waiting.queues}:
            copies = self._under_way.get(name, deque())
            void = [copy for copy in copies if not copy.kept]
            self._under_way[name] = deque([copy for copy in copies if copy.kept])
            waiting = self._waiting.take_all(name)
            self._lanes.void(name, [copy.seq for copy in void])
            for body, copy in waiting:
                if copy.kept:
                    self._enter(name, body, copy)
                else:
                    self._waits_no_more(copy)
                    void.append(copy)
            self._count_again(name)
            for copy in void:
                self._over(copy)
                if copy.pending is not None:
                    copy.pending.waiter = None  # break a reference cycle
        for name in list(self._under_way):
            self.slow.relieved(name)

    # -- inbound QoS 2

    def opened(self, mid: Mid) -> None:
        """An inbound QoS 2 handshake begins under this mid: receivers must remember the mid until it is closed.

        Also called for a copy that may be sent again, even if the publisher never continues its handshake.
        """
        self.handshakes.of(mid[0]).opened(*mid[1:])

    def closed(self, mid: Mid) -> None:
        """The handshake is over: no copy of this mid will be sent again.

        This node forgets nothing if another one speaks for the mid by now. That node may send the message again (H-47).
        """
        known = self.handshakes.of(mid[0])
        if known.closed(*mid[1:]) and self._receiving is not None and self.origins.is_own(mid[0]):
            self._receiving.settle_one(mid[0], mid[1:])
            self._receiving.settle(mid[0], known.stable())

    def _tell_open(self, name: str, origin: str) -> None:
        """Send the node a list of the open handshakes, if it needs one."""
        known = self.handshakes.of(origin)
        told = known.list_for(name, origin if slot_of_origin(origin) >= 0 else "")
        if told is None:
            return
        end, items = told
        for item in items:
            self._lanes.send(name, head_without_slots(0, False) + item)
        if self._receiving is not None:
            self._receiving.settle_open(origin, OpenMids((0, 0), end, list(known.open)))

    def _open(self, copy: OutstandingForward) -> None:
        """Hold the mid of a copy open that may be sent to another node, even after the end of its handshake: without a
        lease the publisher may have its answer before."""
        if copy.for_others and not copy.opens and copy.message.qos == 2 and not self._relayed(copy.message):
            copy.opens = True
            self.opened(copy.message.mid)

    def _over(self, copy: OutstandingForward) -> None:
        """A copy has ended, and goes to no other node: stop holding its mid open."""
        if copy.opens:
            copy.opens = False
            self.closed(copy.message.mid)
