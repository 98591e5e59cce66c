"""Connects the broker node and its cluster node. It implements the ports of both, `ClusterPort` and `ClusterEvents`.

views        a node that left the view: its routes are dropped, copies for it end or wait (`ForwardSender.away`)
leases       decide `OperationPolicy.view_state`, and whether an acknowledgement may leave (H-04)
entering     a node that was cut off cancels its open forwards before it serves again (H-14, H-18)
metadata     routes of other nodes, retained messages, settings of operators
publishes    from other nodes into the queues here; acknowledgements for the copies that this node sent
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ...cluster.identity import slot_origin
from ...cluster.links.ports import Lane
from ...cluster.membership.view import View
from ...cluster.node import ClusterNode
from ...cluster.replicated_map.namespaces import NAMESPACES, Namespace
from ...cluster.slots.table import ranges
from ...mqtt.reasons import ReasonCode
from ...netsplit.policy import ViewState
from ..cluster_port import NO_MEMBERS, ClusterMember, Pausable
from ..connection.ack_queue import OPERATION_BITS, count_operations
from ..connection.connection import FAILOVER_GRACE_S, ClientConnection
from ..connection.refusal import give_up
from ..node import Node
from ..queues.message import Message, Mid
from ..routing.ack_context import AckContext
from ..routing.remote import MOVING, RemoteMembers, RemoteTarget
from ..routing.remote_table import RemoteMatch
from ..routing.subscriptions import Subscription
from ..shared_config import CONFIG, SharedConfig
from .cluster_slots import ClusterSlots
from .forward_receiver import ForwardReceiver
from .forward_sender import ForwardSender
from .inbound_copies import InboundCopies
from .incident_monitor import IncidentMonitor
from .lost_slots import cancel_forwards, close, slots_lost
from .missed_publishes import PUBLISHED, MissedPublishes
from .retained import RETAINED, SharedRetained, key_of
from .route_advertiser import Ports, RouteAdvertiser
from .routes import FORMER, LASTING, LIVE, MalformedRoute, Routes
from .routes import NAMESPACES as ROUTES
from .slot_follower import Traffic
from .slot_gate import SlotGate
from .write_waits import WriteWaits

CLUSTER_SPACES: dict[bytes, Namespace] = {**NAMESPACES, PUBLISHED: Namespace(durable=False, stamped=False)}

SETTLE_MS = 10_000
"""How long a starting member waits for its first lease. Then the policy `on` lets it serve without one. This covers
the worst failover (4.5 s) and the exchanges that bring the routes of the other nodes."""

NO_LEASE = "the node has lost its lease: send again"
BARRED = "the cluster does not take this node"  # the disk may be an old copy: not even `on` serves a client (H-01)


class ClusterAdapter:
    """The broker node as a member of a cluster. Call `bind` before any other method."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.routes = Routes(node.name, node.env.background)
        self._member: ClusterNode
        self.sender: ForwardSender
        self.receiver: ForwardReceiver
        self.relay_sender: ForwardSender
        self.relay_receiver: ForwardReceiver
        self.advertiser: RouteAdvertiser
        self.missed: MissedPublishes
        self.incidents: IncidentMonitor
        self.slots: ClusterSlots
        self.config: SharedConfig
        self.retained: SharedRetained
        self.waits: WriteWaits
        self.gate = SlotGate(node.env.store, self.routes.here_since, node.sessions.elsewhere)
        self.inbound: InboundCopies

    def bind(self, member: ClusterNode) -> None:
        """Connect the broker node to its cluster node: from now on its calls to the cluster reach other nodes."""
        node = self._node
        self._member = member
        ack, serving = member.links.ack, self._serving
        self.receiver = ForwardReceiver(
            node, lambda origin, seq, boot: ack(origin, Lane.PUBLISH, seq, boot), serving, self.gate
        )
        self.receiver.origins.home_of = home_of = lambda slot: node.gateways.locator.home_of(slot).node
        early = member.links.ack_early
        self.receiver.ack_early = lambda origin, seqs, boot: early(origin, Lane.PUBLISH, seqs, boot)
        self.sender = ForwardSender(node, _Lanes(member, Lane.PUBLISH), receiving=self.receiver)
        self.sender.origins.home_of = home_of
        self.relay_sender = ForwardSender(node, _Lanes(member, Lane.APPEND), self.sender)
        self.relay_receiver = ForwardReceiver(
            node, lambda origin, seq, boot: ack(origin, Lane.APPEND, seq, boot), serving, self.gate, self.receiver
        )
        self.receiver.try_again = self.relay_receiver.try_again = member.links.try_again
        self.inbound = InboundCopies(
            node, member, (self.receiver, self.relay_receiver), (self.sender, self.relay_sender)
        )
        self.advertiser = RouteAdvertiser(
            node.name,
            Ports(
                node.router.table, lambda: node.router.mountpoints, self.routes.owns,
                lambda slot: self.slots.is_primary(slot), member.metadata, lambda key: self.routes.change(key, None),
                node.env.background, node.env.store.when_all_safe,
            ),
        )  # fmt: skip
        traffic = Traffic(self.gate, self.receiver, self.sender, self.relay_sender, self.advertiser)
        self.slots = ClusterSlots(node, member, self.routes, traffic, lambda: slots_lost(node, self.incidents))
        node.slot_sessions.counts = self.advertiser
        self.incidents = IncidentMonitor(node, member)
        member.on_tick = self._tick
        self.config = SharedConfig(member.metadata)
        member.metadata.reports.acknowledges = node.env.observer.map_learned
        member.metadata.reports.compared = node.env.observer.maps_compared
        self.retained = SharedRetained(node, member)
        self.waits = WriteWaits(node, member, self.retained.delete_again)
        self.missed = MissedPublishes(node, member)
        self.receiver.load()
        self.routes.changed.append(lambda mountpoint, text: node.router.plans(mountpoint).invalidate(text))
        member.registrar.on_broken = lambda: self.bar(BARRED)
        node.env.cluster = self
        node.gateways.bind(member.links)
        member.links.tunnel_events = node.gateways
        node.relay_by(self.slots.locator)
        node.reopen_handshakes()
        node.policy.settling = node.policy.view_state is ViewState.MINORITY
        if node.policy.settling:
            # a timer of the monotonic clock, because the cluster time may be set to the leader's meanwhile
            member.ports.later(SETTLE_MS / 1000, self._waited)

    def _waited(self) -> None:
        """The wait for a first lease is over: serve what the policy `on` allows, with the routes that are known."""
        node = self._node
        if not node.policy.settling or node.policy.fenced or self._member.closed:
            return
        node.policy.settling = False
        if on := node.policy.operations_on:
            node.env.log(
                "warning",
                f"no lease within {SETTLE_MS // 1000} s of the start: this node now accepts {' and '.join(on)} without "
                "a lease, because the policy is on. It does not know the clean sessions at other nodes: they miss the "
                "messages that it accepts",
            )
        node.policy.view_state = node.policy.view_state  # the setter calls each function that waits for a change

    def load(self) -> None:
        """Load routes and retained messages from the map's disk, and put into it those that this node kept standalone.
        The loaded routes let a restarted node keep messages for durable sessions of absent nodes (P1)."""
        node, metadata = self._node, self._member.metadata
        self._purge(self._member.view)
        for problem in self.routes.restore(metadata.scan(LASTING)):
            node.env.log("error", problem)
        self.retained.load()

    # -- the port of the node (`ClusterPort`)

    def has_lease(self) -> bool:
        """As `ClusterPort.has_lease`."""
        return self._member.look()

    def expiry_pause_ms(self) -> int:
        """As `ClusterPort.expiry_pause_ms`: while this node has no lease, and `FAILOVER_GRACE_S` after that."""
        if not self._member.look():
            return FAILOVER_GRACE_S * 1000
        return max(0, self._node.policy.leased_since_ms + FAILOVER_GRACE_S * 1000 - self._node.env.now)

    def failover_grace_s(self) -> int:
        """As `ClusterPort.failover_grace_s`."""
        return FAILOVER_GRACE_S if self._member.clustered else 0

    def is_present(self, node: str) -> bool:
        """As `ClusterPort.is_present`."""
        return self._member.view.incarnation(node) is not None

    def entrance_of(self, node: str) -> int:
        """As `ClusterPort.entrance_of`."""
        row = self._member.view.row(node)
        return row.entered_in_view if row is not None else 0

    def slot_epoch(self, slot: int) -> int:
        """As `ClusterPort.slot_epoch`."""
        return self._node.gateways.locator.epoch_of(slot)

    def remote_matches(self, mountpoint: str, topic: str) -> RemoteMatch:
        """As `ClusterPort.remote_matches`."""
        return self.routes.match(mountpoint, topic)

    def publishing(self) -> None:
        """As `ClusterPort.publishing`."""
        self.missed.publishing()

    def presence_changed(self, session: ClusterMember) -> None:
        """As `ClusterPort.presence_changed`."""
        self.advertiser.presence(session)

    def congested(self, mountpoint: str, client_id: str) -> str:
        """As `ClusterPort.congested`."""
        return self.sender.congested(mountpoint, client_id)

    def when_relieved(self, node: str, connection: Pausable) -> None:
        """As `ClusterPort.when_relieved`."""
        self.sender.pause(node, connection)

    def is_copied(self, slot: int) -> bool:
        """As `ClusterPort.is_copied`."""
        return self.slots.is_copied(slot)

    def continues(self, slot: int) -> bool:
        """As `ClusterPort.continues`."""
        return self.slots.continues(slot)

    def mid_of_slot(self, slot: int, has_rows: bool) -> Mid | None:
        """As `ClusterPort.mid_of_slot`: only slots with copies have mids of their own."""
        if not self.slots.have_copies:
            return None
        epoch, counter = self.sender.handshakes.numbers(slot).next(has_rows)
        return slot_origin(slot), epoch, counter

    def handshake_opened(self, mid: Mid, members: Mapping[str, int] = NO_MEMBERS) -> None:
        """As `ClusterPort.handshake_opened`."""
        self.sender.opened(mid)
        self.receiver.members_had(mid, members)

    def handshake_closed(self, mid: Mid) -> None:
        """As `ClusterPort.handshake_closed`."""
        self.sender.closed(mid)

    def came_back(self, message: Message, text: str) -> bool:
        """As `ClusterPort.came_back`."""
        return self.receiver.took(message, text)

    def take_own(self, message: Message, slots: list[int]) -> list[int]:
        """As `ClusterPort.take_own`."""
        return self.receiver.take_own(message, slots)

    def take_own_live(self, message: Message) -> bool:
        """As `ClusterPort.take_own_live`."""
        return self.receiver.take_own_live(message)

    def handed_over(self, message: Message, text: str) -> None:
        """As `ClusterPort.handed_over`."""
        self.receiver.handed_over(message, text)

    def given(self, message: Message, text: str, wait: bool) -> None:
        """As `ClusterPort.given`."""
        self.receiver.given(message, text, wait)

    def subscribed(self, subscription: Subscription, replaced: Subscription | None, context: AckContext) -> None:
        """As `ClusterPort.subscribed`."""
        self.waits.begin(self.advertiser.added(subscription, replaced), context)

    def retain(self, mountpoint: str, topic: str, message: Message | None, context: AckContext) -> bool:
        """As `ClusterPort.retain`. While a node takes the map's writes too slowly, the client's socket is not read."""
        counter = self.retained.keep(mountpoint, topic, message)
        self.waits.begin(counter, context, key_of(mountpoint, topic) if message is None and context.answered else b"")
        if message is not None:
            for name in self._member.links.slow[Lane.METADATA]:
                if self._member.view.incarnation(name) is not None:
                    self.sender.slow.hit(name, message.publisher)
        return True

    def confirm_deleted(self, mountpoint: str, topic: str, context: AckContext) -> None:
        """As `ClusterPort.confirm_deleted`."""
        self.retain(mountpoint, topic, None, context)

    def unsubscribed(self, subscription: Subscription) -> None:
        """As `ClusterPort.unsubscribed`."""
        if subscription.session.ending:
            self.advertiser.ended(subscription)
            return
        self.missed.unsubscribed(subscription.session)
        self.advertiser.removed(subscription)

    def may_acknowledge(self, connection: object, operations: int, frames: list[bytes]) -> bool:
        """As `ClusterPort.may_acknowledge`: not without a lease, unless the policy asks for no lease (H-04)."""
        member, node = self._member, self._node
        if not node.policy.fenced and (not member.clustered or member.leased()):
            return True
        assert isinstance(connection, ClientConnection)
        answered = count_operations(frames, operations)
        names = [name for name, bit in OPERATION_BITS.items() if operations & bit]
        if node.policy.accepts_without_lease(names, connection.modifiers):
            self.incidents.count("merged", answered)
            return True
        given_up = connection.acks.unanswered()

        def end() -> None:
            reason = self._no_lease()  # first, because it notices the loss of the lease and opens the incident
            self.incidents.count("voided", answered)
            self.incidents.count("voided", given_up)
            give_up(connection, operations, reason)

        node.env.after_turn(end)
        return False

    def right(self) -> str:
        """As `ClusterPort.right`."""
        return "own" if not self._member.clustered else "lease" if self._member.leased() else "policy"

    def _no_lease(self) -> str:
        """Return the reason for a client whose answer this node may not send."""
        self._member.look()
        because = self._member.reporting.because
        return f"the node has lost its lease ({because}): send again" if because else NO_LEASE

    def forward(
        self,
        message: Message,
        targets: tuple[RemoteTarget, ...],
        members: list[RemoteMembers],
        context: AckContext,
    ) -> None:
        """As `ClusterPort.forward`."""
        if message.retain:
            self._member.metadata.tell()
        own = message.origin is self._node.env.origin or self.sender.origins.is_own(message.origin.node)
        (self.sender if own else self.relay_sender).forward(message, targets, members, context)

    # -- views

    def view_applied(self, before: View, after: View) -> None:
        """As `ClusterEvents.view_applied`."""
        mine = self._node.name
        self.inbound.view_applied(before, after)
        self.slots.follow()
        self.missed.view_applied(before, after)
        for gone in before.incarnations:
            if gone not in after.incarnations and gone.node != mine:
                self._node.gateways.left(gone.node)
                self.routes.drop_live(gone.node, gone.entered_in_view)
                self.relay_sender.away(gone.node)
                if self.sender.away(gone.node):
                    self.missed.published()
        self._node.gateways.view_changed(tuple([name for name in after.nodes if name != mine]))
        if before.incarnation(mine) is not None and after.incarnation(mine) is None:
            self.advertiser.stop()
        for row in after.rows:
            if row.node == mine:
                continue
            self.routes.entered(row.node, row.entered_in_view)
            if row.serving:  # a snapshot may skip the view in which the node entered
                self.routes.drop(row.node, row.entered_in_view - 1)
        self._purge(after)
        self._follow_table()
        self.incidents.changed()

    def _purge(self, view: View) -> None:
        """Remove the old routes to a node: it serves under a later boot, is not a member any more, or has another
        disk, even if it has not served with that one yet. Routes to slots stay: the primary of the slot removes them.

        Routes may arrive before the log entry about their node's start: routes of a later boot stay (H-04).
        """
        members, boots = self._member.membership.members, self._member.membership.boots
        for each in members.values():
            self.routes.drop(each.node, each.joined_view)

        def gone(node: str, boot: int) -> bool:
            row = view.row(node)
            over = node not in members or (row is not None and row.serving and boot < row.boot)
            return over and boot <= boots.get(node, 0)

        self._member.metadata.purge(gone, LIVE)
        self._member.metadata.purge(lambda node, boot: True, FORMER)

    def slots_changed(self) -> None:
        """As `ClusterEvents.slots_changed`."""
        self.slots.follow()
        self._follow_table()

    def slot_message(self, node: str, data: bytes) -> None:
        """As `ClusterEvents.slot_message`."""
        self.slots.received(node, data)

    def copy_message(self, node: str, data: bytes) -> None:
        """As `ClusterEvents.copy_message`."""
        self.slots.replicator.received(node, data)

    def replica(self, node: str, seq: int, payload: bytes) -> None:
        """As `ClusterEvents.replica`."""
        self._node.env.tick()
        self.slots.take(node, seq, payload)

    def replicas_acked(self, node: str, upto: int) -> None:
        """As `ClusterEvents.replicas_acked`."""
        self._node.env.tick()
        self.slots.replicator.acked(node, upto, self._member.links.applied_by(node))

    def _follow_table(self) -> None:
        self._node.gateways.table_changed()
        self.advertiser.try_again()
        self._node.env.after_turn(self.slots.tick)

    def _tick(self) -> None:
        self.incidents.tick()
        self.slots.tick()

    def lease_changed(self) -> None:
        """As `ClusterEvents.lease_changed`: set the view state of the node."""
        member = self._member
        if self._node.policy.fenced or not member.leased():
            state = ViewState.MINORITY
        else:
            state = ViewState.WHOLE if member.whole else ViewState.MAJORITY
        self._node.env.tick()
        member.metadata.leased(state is not ViewState.MINORITY)
        if state is not ViewState.MINORITY:
            self.missed.leased()
        self.incidents.begin()
        self.incidents.changed()
        if state is not ViewState.MINORITY:
            self._node.policy.settling = False
            self._node.env.after_turn(self._leased)
        if state is not self._node.policy.view_state:
            self._node.policy.view_state = state
            if state is ViewState.MINORITY:
                self._node.env.after_turn(self._node.deliver_stored)

    def _leased(self) -> None:
        """Go on with what waited for a lease. The turn in which this node got the lease is over.

        The lease may be over, too. Then `look` notes that, and this is called again after the next lease.
        """
        if self._member.look():
            self._node.env.tick()
            self.sender.proven()
            self._node.gateways.lease_is_back()
            self.advertiser.try_again()
            self._report_unreachable()

    def _report_unreachable(self) -> None:
        """Log which slots have sessions on this disk although they belong to other nodes: no client finds them."""
        others = {row.slot for row in self._member.slots.rows if row.primary and row.home != self._node.name}
        others.difference_update(self._node.slot_sessions.marks)
        lost = others.difference(self._node.sessions.empty(others))
        if lost:
            self._node.env.log(
                "error",
                f"this node has durable sessions of slots {' '.join(ranges(lost))}, which belong to other nodes: no "
                "client finds them. A version without slots, or a node that was alone, has made them",
            )

    def replaced(self, node: str) -> None:
        """As `ClusterEvents.replaced`: forget the node's routes, the copies for it, and its earlier boots."""
        row = self._member.membership.members.get(node)
        if row is None:
            self.routes.drop(node, self._member.view.id)
        self._purge(self._member.view)
        self.slots.follow()  # what waits for its former slots goes to their present primaries
        self.sender.gone(node)
        self.relay_sender.gone(node)
        # the log is read again after a restart: do not forget a later boot of this name
        self.receiver.forget(node, self._member.membership.boots[node] + (row is None))

    def bar(self, reason: str) -> None:
        """Serve no client, whatever the policy says, until `unbar`; connected clients get the reason."""
        node = self._node
        node.policy.fenced = True
        node.policy.view_state = ViewState.MINORITY
        node.sessions.lost.end_all()
        for connection in list(node.connections.values()):
            connection.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, reason)
        node.gateways.end_all("fenced")

    def unbar(self) -> None:
        """Serve clients again, as lease and policy allow."""
        self._node.policy.fenced = False
        self.lease_changed()

    # -- entering

    def rejoin(self, since: int) -> None:
        """This node enters the view `since`: cancel its unacknowledged publishes, and disconnect their publishers."""
        node = self._node
        node.env.tick()
        if self.sender.since:  # this process was in a view before
            self.sender.void_all()
            self.sender.proven()
            for connection in list(node.connections.values()):
                if connection.acks.owes_answers():
                    close(connection, self.incidents, self._no_lease())
            node.gateways.registration.local.void()
            cancel_forwards(node)
            node.wills.route_again()
        self.sender.since = self.relay_sender.since = since

    def announce(self, since: int, announced: Callable[[int], None]) -> None:
        """Write all routes; then call `announced` with the number of the last write."""
        self.advertiser.start(since, lambda counter: announced(counter or 0))

    def informed(self) -> None:
        """This node knows the writes of its absence: end the clean sessions that missed a publish."""
        self._purge(self._member.view)
        self.missed.informed()

    # -- metadata and publishes

    def metadata_changed(self, key: bytes, value: bytes | None) -> None:
        """As `ClusterEvents.metadata_changed`: update routes, retained messages or settings."""
        if key[:1] in ROUTES:
            try:
                if self.routes.change(key, value):
                    self.advertiser.check(key)
            except MalformedRoute as error:  # every node has this entry: it must not stop any of them
                self._node.env.log("error", str(error))
        elif key[:1] == RETAINED:
            self.retained.changed(key, value)
        elif key[:1] == CONFIG:
            self.config.changed(key, value)

    def _serving(self) -> bool:
        lease_service = self._member.lease_service
        return lease_service is not None and lease_service.holder.serving

    def applied(self) -> int:
        """As `ClusterEvents.applied`."""
        return self.gate.applied

    def watermark(self, node: str, boot: int) -> int:
        """As `ClusterEvents.watermark`."""
        self.slots.copies.opened(node, boot)
        self.relay_receiver.watermark(node, boot)
        return self.receiver.watermark(node, boot)

    def deliver(self, node: str, seq: int, payload: bytes) -> None:
        """As `ClusterEvents.deliver`."""
        self.inbound.deliver(node, seq, payload)

    def acked(self, node: str, upto: int) -> None:
        """As `ClusterEvents.acked`."""
        self._node.env.tick()
        self.sender.acked(node, upto, self._member.look(), *self._member.links.answered_by(node))

    def acked_early(self, node: str, seqs: list[int]) -> None:
        """As `ClusterEvents.acked_early`."""
        self._node.env.tick()
        self.sender.acked_early(node, seqs, self._member.look(), *self._member.links.answered_by(node))

    def deliver_relayed(self, node: str, seq: int, payload: bytes) -> None:
        """As `ClusterEvents.deliver_relayed`."""
        self.inbound.deliver_relayed(node, seq, payload)

    def relays_acked(self, node: str, upto: int) -> None:
        """As `ClusterEvents.relays_acked`."""
        self._node.env.tick()
        self.relay_sender.acked(node, upto)

    def relieved(self, node: str) -> None:
        """As `ClusterEvents.relieved`."""
        self.sender.slow.relieved(node)

    def room(self, node: str) -> None:
        """As `ClusterEvents.room`."""
        self._node.env.tick()
        self.sender.room(node)


class _Lanes:
    """The lanes of publishes of all links, as `PublishLanes`."""

    def __init__(self, member: ClusterNode, lane: Lane) -> None:
        self._links = member.links
        self._send = member.links.send
        self._lane = lane
        self.slow: Collection[str] = member.links.slow[lane]
        self.slow_map: Collection[str] = member.links.slow[Lane.METADATA]
        # publishers take no turns in relays: they are connected to other nodes
        self.full: Collection[str] = member.links.full if lane is Lane.PUBLISH else ()
        self.window_bytes = member.links.publish_window_bytes
        self.ahead_bytes = member.links.ahead_bytes
        self.behind_bytes = member.links.behind_bytes

    def send(self, node: str, payload: bytes) -> int:
        return self._send(node, self._lane, payload)

    def void(self, node: str, seqs: list[int] | None = None) -> None:
        self._links.void(node, self._lane, seqs)

    def beside(self, node: str, items: int, size_bytes: int) -> None:
        if node != MOVING:
            self._links.beside(node, self._lane, items, size_bytes)
