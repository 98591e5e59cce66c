"""One node of a cluster: joins Raft, membership, the replicated map and links into one object.

A node without a log is *standalone*: it serves clients without any of this. It becomes a member when it joins another
node, or founds a cluster when another node joins it. From then on its applied view and its lease decide what it may do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from .identity import Incarnation
from .links.hello import PeerInfo
from .links.links import Links
from .links.ports import Lane, LinkPorts, SetAside, Timer, Unreadable
from .membership.admission import JOIN, LEAVE, CallAnswer, encode_call, objection
from .membership.boot import TAKEN_OUT, BootRegistrar
from .membership.commands import RecoverSlots, SetSlots, encode_command
from .membership.consensus import Consensus
from .membership.events import (
    BarriersAllowed,
    Booted,
    Joined,
    Left,
    MembershipEvent,
    Refused,
    SlotsChanged,
    SlotsDoubtful,
    SlotsLost,
    ViewChanged,
    WentStale,
)
from .membership.inbox import KINDS, MembershipInbox
from .membership.join_leave import JoinLeaveService
from .membership.lease_service import LeaseService
from .membership.messages import Goodbye, encode_lease
from .membership.peer_addresses import STRANGERS_MOST, PeerAddresses
from .membership.rejoin import Rejoin
from .membership.reporting import Reporting
from .membership.state_machine import MembershipState
from .membership.view import View
from .ports import ClusterEvents, Datagram, Identity, Ports, Settings
from .raft.messages import Saved, bootstrap, empty
from .raft.stable import RaftStable
from .replicated_map.map import ReplicatedMap
from .replicated_map.messages import Contradiction, MalformedMapMessage
from .replicated_map.namespaces import Namespace
from .replicated_map.ports import MapPorts
from .slots.table import Holder, SlotRow, SlotTable

LEFT = b"L"
"""Key in the store of Raft: this node has left the cluster for good."""
LEFT_SAYS = "this node has left the cluster"
CLUSTERED = b"C"
"""Key in the store of Raft: this node is a member. The value has the addresses of the first members known to it."""
_NO_MEMBERS = MembershipState()
"""The membership of a standalone node: no log changes it."""


class ClusterNode:
    """One node of a cluster. Call `open` once; then it runs its own timer until `close`."""

    def __init__(
        self,
        me: Identity,
        ports: Ports,
        settings: Settings,
        namespaces: dict[bytes, Namespace],
        listener: ClusterEvents,
    ) -> None:
        self.me = me
        self.ports = ports
        self.settings = settings
        self.listener = listener
        self.consensus: Consensus | None = None
        self.lease_service: LeaseService | None = None
        self._stable = RaftStable(ports.meta)
        self._was: tuple[bool, bool] | None = (True, True)
        self._was_member = self._gone = False
        self._addresses = PeerAddresses(me.node)
        self._timer: Timer | None = None
        self._slow = False
        self._ticked_ms = 0.0
        self.closed = False
        self._goodbye: Goodbye | None = None
        self.on_left: Callable[[], None] = _nothing
        self.on_tick: Callable[[], None] = _nothing
        self.registrar = BootRegistrar(self)
        self.reporting = Reporting(self)
        hello = PeerInfo(
            me.node, me.boot, me.disk, me.process, me.cluster_id, me.address, earlier=self.registrar.earlier
        )
        link_ports = LinkPorts(
            ports.transport, ports.now_ms, ports.later, ports.soon, ports.rng, ports.log, self.registrar.stream_refused,
            self._set_aside, ports.stamp, ports.observe,
        )  # fmt: skip
        self.links = Links(hello, link_ports, self, settings.links)
        metadata_ports = MapPorts(
            ports.store,
            lambda peer, data: self.links.send(peer, Lane.METADATA, data),
            lambda peer, data: self.links.datagram(peer, Datagram.METADATA, data),
            ports.soon,
            ports.now_ms,
            ports.cluster_ms,
            ports.rng,
            lambda: self.view.id,
        )
        self.metadata = ReplicatedMap(me.node, me.boot, metadata_ports, namespaces)
        self.metadata.on_change = listener.metadata_changed
        self.metadata.reports.unreadable = self._unreadable
        self.rejoin = Rejoin(listener, self.metadata.exchange, self.metadata.barrier, self._exchanged)
        self.join_leave = JoinLeaveService(self)
        self._inbox = MembershipInbox(self)

    # -- state

    @property
    def clustered(self) -> bool:
        """True if this node is, or was, a member of a cluster."""
        return self.consensus is not None

    @property
    def membership(self) -> MembershipState:
        """Members and view, as applied here."""
        return _NO_MEMBERS if self.consensus is None else self.consensus.membership

    @property
    def view(self) -> View:
        """The applied view; the empty one while standalone."""
        return self.membership.view

    @property
    def slots(self) -> SlotTable:
        """The applied slot table; while standalone the empty one, although this node then owns all slots."""
        return self.membership.slots

    @property
    def incarnation(self) -> Incarnation | None:
        """This process in the applied view."""
        return None if self.lease_service is None else self.lease_service.holder.incarnation

    @property
    def own_holder(self) -> Holder | None:
        """This process as a holder of slots; None while it is not in the applied view."""
        own = self.incarnation
        return None if own is None else Holder(own.node, self.me.disk, own.entered_in_view)

    @property
    def full(self) -> tuple[str, ...]:
        """The nodes whose disk is full, or that are about to leave, as this node's last lease says."""
        return () if self.lease_service is None else self.lease_service.holder.full

    @property
    def slow(self) -> Mapping[str, int]:
        """As `LeaseHolder.slow`."""
        return {} if self.lease_service is None else self.lease_service.holder.slow

    @property
    def standalone(self) -> bool:
        """True if this node needs no other node for its acknowledgements: it is in no cluster, or its only member.

        The node knows that it is the only member once it has read its log.
        """
        disks = [row.disk for row in self.membership.members.values()]
        only = disks == [self.me.disk] if disks else not self._addresses.seeds
        return self.consensus is None or (self.consensus.read and only)

    def leased(self) -> bool:
        """Whether this node may acknowledge now: it has a lease, or is standalone and knows cluster time. Reads the
        clocks."""
        if self.lease_service is None or self.lease_service.valid():
            return True
        return self.standalone and self.ports.time_known()

    @property
    def whole(self) -> bool:
        """Whether all members serve, by the applied view."""
        return self.membership.whole or self.standalone

    # -- life

    def open(self) -> None:
        """Load the replicated map, and become a member if the disk has a log."""
        self.metadata.load()
        if (known := self.ports.meta.get(CLUSTERED)) is not None:
            self._addresses.joined_through(msgspec.msgpack.decode(known, type=dict[str, str]))
            self._was = None  # a member begins without a lease: report the first state to the listener
            self._begin()
            if self.ports.meta.get(LEFT) is not None:
                self._gone = True
                self.registrar.broken(LEFT_SAYS, TAKEN_OUT)

    def found(self) -> None:
        """Found a cluster of this node alone, which others can join."""
        self._start_log(bootstrap(self.peer))

    def adopt(self, answer: CallAnswer) -> None:
        """Become a member of the cluster that answered `join`."""
        self.me = msgspec.structs.replace(self.me, cluster_id=answer.cluster_id)
        self.links.adopt(answer.cluster_id)
        self._addresses.joined_through(dict(answer.members))
        self.ports.ask_time()
        self._start_log(empty())

    def _start_log(self, saved: Saved) -> None:
        # commits are in order: no later write becomes durable before this one
        self.ports.meta.put(CLUSTERED, msgspec.msgpack.encode(self._addresses.seeds))
        self._stable.begin(saved, _nothing)
        self._begin()

    @property
    def peer(self) -> str:
        """This node in Raft."""
        return f"{self.me.node}/{self.me.disk}"

    def _begin(self) -> None:
        ports, me = self.ports, self.me
        self.consensus = consensus = Consensus(
            self.peer, self._stable, self.settings.raft, ports.rng, ports.now_ms, self._send_raft
        )
        self.lease_service = LeaseService(
            me.node, me.boot, me.process, consensus, ports.store, self.settings.views, ports.now_ms, ports.wall_ms,
            ports.cluster_ms, self._ask_lease, self._answer_lease, ports.follow, ports.time_known,
        )  # fmt: skip
        consensus.on_applied = self._applied
        consensus.on_broken = self.registrar.stopped
        self.metadata.hold(not self.membership.barriers_allowed)
        self._set_peers()
        self.look()
        self._tick()

    def goodbye(self) -> bool:
        """The process is about to stop: ask the leader for a view without it, so that the others need not wait.

        From now on it acknowledges nothing. `has_left_view` is True once the applied view is without it. Returns False
        if it need not wait: it is in no view with others.
        """
        consensus, lease_service = self.consensus, self.lease_service
        if consensus is None or lease_service is None or self.closed or self.standalone or self.incarnation is None:
            return False
        self._goodbye = lease_service.goodbye()
        self._say_goodbye()
        return True

    @property
    def has_left_view(self) -> bool:
        """True after `goodbye`, once the applied view is without this process."""
        return self._goodbye is not None and self.incarnation is None

    def _say_goodbye(self) -> None:
        consensus, lease_service, goodbye = self.consensus, self.lease_service, self._goodbye
        if goodbye is None or consensus is None or lease_service is None or self.has_left_view:
            return
        if consensus.leads:
            lease_service.accept_goodbye(goodbye)
        elif consensus.leader is not None:
            self.links.datagram(consensus.leader, Datagram.GOODBYE, encode_lease(goodbye))

    def close(self) -> None:
        """Stop: close all links and send nothing more."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self.consensus is not None:
            self.consensus.closed = True
        self.links.close()

    def _tick(self) -> None:
        if self.closed or self.consensus is None or self.lease_service is None:
            return
        try:
            self.consensus.tick()
            self.registrar.tick()
            self.lease_service.tick((self.settings.calm_tick_s if self._slow else self.settings.tick_s) * 1000)
            self.rejoin.tick()
            self.metadata.tick(int(self.ports.now_ms()))
            self.join_leave.tick()
            self._say_goodbye()
            self.look()
            self.reporting.tick()
            self.links.tick()
            self.on_tick()
        finally:  # a member without ticks would be out of the view until its next start
            self._ticked_ms = self.ports.now_ms()
            self._slow = self.calm()
            self._timer = self.ports.later(self._pause_s(), self._tick)

    def _tick_early(self) -> None:
        """This follower handled a message of Raft while calm: tick now, if half of `calm_tick_s` has passed."""
        if self._timer is not None and self.ports.now_ms() - self._ticked_ms >= self.settings.calm_tick_s * 500:
            self._timer.cancel()
            self._tick()

    def _pause_s(self) -> float:
        """Returns the seconds until the next tick. While the node is calm, the next tick is at the next Raft deadline,
        and at most `calm_tick_s` away."""
        if not self._slow or self.consensus is None:
            return self.settings.tick_s
        due_s = (self.consensus.raft.next_deadline_ms - self._ticked_ms) / 1000
        return max(0.001, min(self.settings.calm_tick_s, due_s))

    def calm(self) -> bool:
        """Whether nothing depends on the next tick: all members serve and were heard lately, most of the lease is left,
        no node is joining and no request waits. In every other state the node ticks at the full rate."""
        consensus, lease_service = self.consensus, self.lease_service
        if consensus is None or lease_service is None or self._was != (True, True) or self._goodbye is not None:
            return False
        if self.rejoin.active or self.join_leave.waits or consensus.leader is None or not lease_service.calm():
            return False
        oldest = self.ports.now_ms() - self.settings.views.hearing_ms / 2
        heard = [self.links.heard_ms(name) for name in self.view.nodes if name != self.me.node]
        return all(at is not None and at >= oldest for at in heard)

    def look(self) -> bool:
        """Returns whether this node may acknowledge now. Calls `lease_changed` first if lease or view have changed."""
        if self._goodbye is not None:
            return False
        now = (self.leased(), self.whole)
        self.reporting.look(now[0])
        if now != self._was:
            self._was = now
            self.listener.lease_changed()
        return now[0]

    # -- the log

    def _applied(self, happened: tuple[MembershipEvent, ...]) -> None:
        assert self.lease_service is not None
        self._was_member = self._was_member or self.me.disk in [row.disk for row in self.membership.members.values()]
        self.lease_service.applied(happened)
        for each in happened:
            if isinstance(each, ViewChanged):
                self._view_changed(each.before, each.after)
            elif isinstance(each, Joined | Left | Booted | WentStale):
                self._member_changed(each)
            elif isinstance(each, BarriersAllowed):
                self.metadata.hold(not each.barriers_allowed)
            elif isinstance(each, SlotsLost | SlotsDoubtful | SlotsChanged):
                self.reporting.slots(each)
                if isinstance(each, SlotsChanged):
                    self.listener.slots_changed()
            elif isinstance(each, Refused):
                self.registrar.refused(each)
        self.join_leave.applied(happened)
        self.look()

    def _view_changed(self, before: View, after: View) -> None:
        ports = self.ports
        former, present = set(before.incarnations), set(after.incarnations)
        for gone in sorted(former - present):
            ports.event("mem.down", target=gone.node, view=after.id)
        for entered in sorted(present - former):
            ports.event("mem.up", target=entered.node, view=after.id)
        self._set_peers()
        self.listener.view_applied(before, after)
        if missed := " or ".join(self.membership.missed):
            ports.log("warning", f"no node serves before {missed} is back or removed: no other node has all writes")
        self.links.try_again()  # refused items may belong to this view
        self._enter()

    def _enter(self) -> None:
        assert self.lease_service is not None
        holder = self.lease_service.holder
        required = tuple(
            Incarnation(row.node, row.boot, row.entered_in_view) for row in self.view.required(self.me.node)
        )
        self.rejoin.view(holder.incarnation, holder.serving, required, self.view.id, bool(self.view.serving))

    def _exchanged(self, incarnation: Incarnation, entered_in_view: int) -> None:
        assert self.lease_service is not None
        self.lease_service.holder.exchanged(incarnation, entered_in_view)

    def _member_changed(self, happening: Joined | Left | Booted | WentStale) -> None:
        node = happening.node
        self._addresses.logged(node)
        self._set_peers()
        if node == self.me.node:
            # A new member reads in the log that an earlier node with its name left: that entry is about another disk.
            if isinstance(happening, Left) and self._was_member:
                self.left()
        elif isinstance(happening, Left) or (isinstance(happening, Joined) and happening.emptied):
            self.links.forget(node)
            self.listener.replaced(node)
        elif isinstance(happening, WentStale):
            self.links.hang_up(node)

    def left(self) -> None:
        """This node is no longer a member. It stays out until it gets a new data directory.

        It learns this from the log, or from the answer to `leave` if the others have closed its streams before.
        """
        if self._gone:
            return
        self._gone = True
        self.ports.meta.put(LEFT, b"")
        self.registrar.problem = LEFT_SAYS
        self.ports.log("warning", f"{self.me.node} has left the cluster")
        self.on_left()

    def hint(self, node: str, address: str) -> None:
        """Discovery found a member at an address that the log does not have: dial it there."""
        self._addresses.hint(node, address)
        self._set_peers()

    def _forget_strangers(self) -> None:
        """Forget the peers ahead of the log that have gone. A real one dials again, and is known again."""
        gone = self._addresses.forget(self.links.hears)
        if gone:
            self._set_peers()
            for node in gone:
                self.links.release(node)

    def _set_peers(self) -> None:
        me = self.me.node
        rows = self.membership.members.values()
        own = self.membership.members.get(me)
        if own is not None and own.disk == self.me.disk:
            self.links.joined(own.joined)
        self.links.set_peers(self._addresses.of(self.membership))
        # Tombstones wait for every member that is not stale (H-16). Until this start is logged, members may be missing.
        kept = sorted([row.node for row in rows if row.node != me and not row.stale])
        self.metadata.set_members(kept if self.registrar.known() else None)
        self.metadata.set_peers([each for each in self.view.incarnations if each.node != me])

    # -- messages

    def _send_raft(self, node: str, data: bytes) -> None:
        self.links.datagram(node, Datagram.RAFT, data)

    def _ask_lease(self, leader: str, data: bytes) -> None:
        if leader == self.me.node:
            assert self.lease_service is not None
            self.lease_service.request(data)
        else:
            self.links.datagram(leader, Datagram.LEASE_REQUEST, data)

    def _answer_lease(self, node: str, data: bytes) -> None:
        if node == self.me.node:
            assert self.lease_service is not None
            self.lease_service.reply(data)
            self.look()
        else:
            self.links.datagram(node, Datagram.LEASE_REPLY, data)

    def datagram(self, node: str, kind: int, data: bytes) -> None:
        """Links: a datagram of a peer arrived. Raises the error of its kind's decoder."""
        if self.consensus is None or self.lease_service is None or self.closed:
            return
        if kind in KINDS:
            self._inbox.received(node, kind, data)
            if kind == Datagram.RAFT:
                self.lease_service.piggyback()
                if self._slow and not self.consensus.leads:
                    self._tick_early()
        elif kind == Datagram.LEASE_REPLY:
            self.lease_service.reply(data)
            self.look()
        elif kind == Datagram.METADATA:
            self.metadata.receive(node, data)
        elif kind == Datagram.BOOT_REFUSED and self.consensus.leader in (node, None):
            self.registrar.refusal_received(data)
        elif kind == Datagram.SLOT_MOVE:
            self.listener.slot_message(node, data)
        elif kind == Datagram.SLOT_COPY:
            self.listener.copy_message(node, data)

    def request_slots(self, changes: tuple[SlotRow, ...], leaving: bool = False) -> None:
        """Ask the leader to change rows of slots of which this node is primary; with `leaving`, of which this node is a
        follower that takes itself out. The request may be lost."""
        leader = None if self.consensus is None else self.consensus.leader
        command = SetSlots(changes, self.me.node if leaving else "")
        if leader == self.me.node:
            self._inbox.slots_requested(leader, command)
        elif leader is not None:
            self.links.datagram(leader, Datagram.SET_SLOTS, encode_command(command))

    def recover_slots(self, changes: tuple[SlotRow, ...]) -> None:
        """Ask the leader to give slots without primary to other nodes, for an operator. The request may be lost."""
        leader = None if self.consensus is None else self.consensus.leader
        command = RecoverSlots(changes, self.me.node)
        if leader == self.me.node:
            self._inbox.recovery_requested(command)
        elif leader is not None:
            self.links.datagram(leader, Datagram.SET_SLOTS, encode_command(command))

    # -- events of the links

    def check(self, hello: PeerInfo) -> str | None:
        """Links: returns the reason to refuse a peer's stream; None to accept it."""
        if self.consensus is None:
            return f"{self.me.node} is not in a cluster"
        if hello.cluster_id != self.me.cluster_id:
            return f"{hello.node} belongs to the cluster {hello.cluster_id}, not to {self.me.cluster_id}"
        if self._addresses.is_ahead(hello, self.membership):
            self._forget_strangers()
            if not self._addresses.trust(hello):
                return f"{self.me.node} waits for {STRANGERS_MOST} other nodes that its log does not name yet"
            self.ports.soon(self._set_peers)
            return None
        if not self.membership.members and hello.node in self._addresses.seeds:
            return None
        return objection(self.membership, hello)

    def applied(self) -> int:
        """Links: returns how far this node has followed the slot table."""
        return self.listener.applied()

    def watermark(self, node: str, disk: str, boot: int, lane: int) -> int:
        """Links: returns the last number taken of a peer's lane; the peer continues with the next one.

        For other lanes than PUBLISH that is 0. Nothing of REPLICA outlives its process: a follower that restarts has
        left the in-sync sets, and asks for everything anew.
        """
        return self.listener.watermark(node, boot) if lane == Lane.PUBLISH else 0

    def deliver(self, node: str, lane: int, seq: int, payload: bytes) -> None:
        """Links: take the next item of a peer's lane. Raises `Refuse`, `Unreadable`."""
        if lane == Lane.PUBLISH:
            self.listener.deliver(node, seq, payload)
        elif lane == Lane.METADATA:
            try:
                self.metadata.receive(node, payload)
            except Contradiction:
                raise
            except MalformedMapMessage as error:
                raise Unreadable(str(error)) from error
            self.links.ack(node, Lane.METADATA, seq)
        elif lane == Lane.REPLICA:
            self.listener.replica(node, seq, payload)
        elif lane == Lane.APPEND:
            self.listener.deliver_relayed(node, seq, payload)

    def acked(self, node: str, lane: int, upto: int) -> None:
        """Links: a peer has acknowledged this node's items up to a number."""
        if lane == Lane.PUBLISH:
            self.listener.acked(node, upto)
        elif lane == Lane.REPLICA:
            self.listener.replicas_acked(node, upto)
        elif lane == Lane.APPEND:
            self.listener.relays_acked(node, upto)

    def acked_early(self, node: str, lane: int, seqs: list[int]) -> None:
        """Links: a peer has acknowledged these items of this node, although an earlier item is still open."""
        if lane == Lane.PUBLISH:
            self.listener.acked_early(node, seqs)

    def _set_aside(self, item: SetAside) -> None:
        """Links: an item of a peer cannot be decoded, and they have logged it. Add a row to the event log."""
        self._dropped(item.node, f"item {item.seq} of lane {item.lane.name}: {item.reason}", bytes=item.size)

    def _unreadable(self, node: str, problem: str) -> None:
        """The map could not decode keys in a message of a peer, and applied the other keys: log `problem`."""
        self.ports.log("error", f"{problem}; this key is skipped")
        self._dropped(node, problem)

    def _dropped(self, node: str, detail: str, **facts: int) -> None:
        self.ports.event("fwd.drop", target=self.me.node, reason="unreadable", source=node, detail=detail, **facts)

    def up(self, node: str, hello: PeerInfo) -> None:
        """Links: the stream to a peer is open."""
        self.ports.log("info", f"link to {node} at {hello.address} is up")
        self.metadata.met(node)

    def down(self, node: str, reason: str) -> None:
        """Links: the stream to a peer is closed."""
        self.ports.log("info", f"link to {node} is down: {reason}")

    def heard(self, node: str) -> None:
        """Links: a frame arrived on the stream from a peer. The next lease request names the peer as heard."""
        if self.lease_service is not None:
            self.lease_service.holder.heard(node, self.ports.now_ms())

    def relieved(self, node: str) -> None:
        """Links: `Links.slow` no longer names the peer."""
        self.listener.relieved(node)

    def room(self, node: str) -> None:
        """Links: `Links.full` no longer names the peer."""
        self.listener.room(node)

    # -- calls

    def answer_call(self, method: str, request: bytes, reply: Callable[[bytes], None]) -> None:
        """Handle a single call of another node: call `reply` once, perhaps later. Raises `MalformedCall`."""
        if method == JOIN:
            self.join_leave.join(request, reply)
        elif method == LEAVE:
            self.join_leave.leave(request, reply)
        else:
            reply(encode_call(CallAnswer(f"{self.me.node} does not know the call {method}")))


def _nothing() -> None:
    """Default of a callback."""
