"""The broker as the resident of its cluster member: what the other nodes' news mean for sessions and publishers.

views        who is away: routes and copies under way (`ForwardSender.away`), retained messages stay
leases       what may be promised: `Node.view_state`, and the guard in front of every promise (H-04)
entrances    what a node that was cut off gives up before it serves again (H-14, H-18)
metadata     routes of the others, retained messages, what operators set
publishes    from other nodes into the queues, and the acknowledgements of our own
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ...cluster.links.ports import Lane, Refuse
from ...cluster.membership.view import View
from ...cluster.node import ClusterNode
from ...cluster.replicated_map.namespaces import NAMESPACES, Namespace
from ...mqtt.reasons import ReasonCode
from ...netsplit.policy import ViewState
from ..connection.ack_queue import operations
from ..connection.connection import ClientConnection
from ..queues.message import Message
from ..routing.pending_acks import PendingAcks
from ..routing.remote import RemoteMembers, RemoteTarget
from ..routing.subscriptions import Subscription
from ..shared_config import CONFIG, SharedConfig
from .forward_receiver import ForwardReceiver
from .forward_sender import ForwardSender
from .incident_monitor import IncidentMonitor
from .missed_publishes import PUBLISHED, MissedPublishes
from .retained import RETAINED, SharedRetained
from .route_advertiser import RouteAdvertiser
from .routes import LASTING, MalformedRoute, Routes
from .routes import NAMESPACES as ROUTES

if TYPE_CHECKING:
    from ..connection.output_buffer import OutputBuffer
    from ..node import Node

CLUSTER_SPACES: dict[bytes, Namespace] = {**NAMESPACES, PUBLISHED: Namespace(durable=False, stamped=False)}

SETTLE_MS = 10_000
"""How long a member that starts waits for its first lease before it serves by the policy `on` without one: the worst
failover (4.5 s), and the exchanges that tell it the routes of the others."""

BARRIER_LIMIT_MS = 9500
"""How long SUBACK waits for the other nodes: detection, a lease and 5 s."""

NEVER_VOID = bytes(4)
"""In front of what has to arrive whatever becomes of its sender; see `forwarding.stamp`."""

NO_LEASE = "the node has lost its lease: send again"
BARRED = "the cluster does not take this node"


class ClusterAdapter:
    """`bind` the member first."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.routes = Routes(node.name, node.after_turn)
        self._member: ClusterNode
        self.forwarding: ForwardSender
        self.receiving: ForwardReceiver
        self.relaying: ForwardSender
        self.relayed: ForwardReceiver
        self.announcer: RouteAdvertiser
        self.missed: MissedPublishes
        self.watch: IncidentMonitor
        self.config: SharedConfig
        self.retained: SharedRetained
        self._entered_since = 0
        self._over: dict[str, int] = {}
        self._present: dict[str, bytes] = {}
        self._waits: list[tuple[PendingAcks, int]] = []
        self._ticked = False
        self._kept = False
        """The publish at hand is never void: its origin may be gone, and nobody sends it again."""

    def bind(self, member: ClusterNode) -> None:
        """Join node and member: from here on the node's ports lead to the others."""
        node = self._node
        self._member = member
        ack, serving = member.links.ack, self._serving
        self.receiving = ForwardReceiver(node, lambda origin, seq, boot: ack(origin, Lane.PUBLISH, seq, boot), serving)
        early = member.links.ack_early
        self.receiving.ack_early = lambda origin, seqs, boot: early(origin, Lane.PUBLISH, seqs, boot)
        self.forwarding = ForwardSender(node, _Lanes(member, Lane.PUBLISH), receiving=self.receiving)
        node.came_back, node.handed_over = self.receiving.took, self.receiving.handed_over
        self.relaying = ForwardSender(node, _Lanes(member, Lane.APPEND), self.forwarding)
        self.relayed = ForwardReceiver(
            node, lambda origin, seq, boot: ack(origin, Lane.APPEND, seq, boot), serving, self.receiving
        )
        self.receiving.pass_on = self.relayed.pass_on = self._pass_on
        self.announcer = RouteAdvertiser(
            node.name, lambda mountpoint: node.router.table(mountpoint), lambda: node.slots, member.metadata,
            node.after_turn,
        )  # fmt: skip
        self.watch = IncidentMonitor(node, member)
        self.config = SharedConfig(member.metadata)
        self.retained = SharedRetained(node, member.metadata, self._wait_for)
        self.missed = MissedPublishes(node, member)
        self.receiving.load()
        node.router.elsewhere = self.routes.match
        self.routes.changed.append(lambda mountpoint, text: node.router.plans(mountpoint).invalidate(text))
        node.forward = self._forward
        node.publishing = self.missed.publishing
        node.guard = self._guard
        node.leased = member.look
        member.registrar.on_broken = self._broken
        node.present = lambda name: member.view.incarnation(name) is not None
        node.congested = self.forwarding.congested
        node.when_relieved = self.forwarding.pause
        node.retain_elsewhere = self._keep
        node.subscribed = self._subscribed
        node.unsubscribed = self._unsubscribed
        node.presence = self.announcer.presence
        node.mid_opened = self.forwarding.opened
        node.mid_closed = self.forwarding.closed
        node.reopen_mids()
        node.settling = node.view_state is ViewState.MINORITY
        if node.settling:
            # by the monotonic clock: cluster time may be set to the leader's meanwhile
            member.ports.later(SETTLE_MS / 1000, self._waited)

    def _waited(self) -> None:
        """No lease came: whoever may be served without one is served by the routes that this node knows."""
        node = self._node
        if not node.settling or node.barred or self._member.closed:
            return
        node.settling = False
        if on := operations_on(node):
            node.log(
                "warning",
                f"no lease within {SETTLE_MS // 1000} s of the start: {' and '.join(on)} go on without one, as the "
                "policy on says. Clean sessions at other nodes, unknown here, miss what is published",
            )
        node.view_state = node.view_state  # what waits is looked at anew

    def load(self) -> None:
        """Bring what the map has on the disk into the node's tables, and retained messages that it kept alone into the
        map. Whose sessions last are owed what comes, also by nodes that restart while these are away (P1)."""
        node, metadata = self._node, self._member.metadata
        self._purge(self._member.view)
        for problem in self.routes.restore(metadata.scan(LASTING)):
            node.log("error", problem)
        self.retained.load()

    # -- what the node tells

    def _subscribed(self, subscription: Subscription, replaced: Subscription | None) -> None:
        counter = self.announcer.added(subscription, replaced)
        self._wait_for(counter)

    def _wait_for(self, counter: int | None) -> None:
        """The answer to the packet at hand waits until all nodes of the view have our write (P4).

        Without a lease it was accepted on what the node can reach, and waits for nobody.
        """
        node = self._node
        if not counter or not self._member.clustered or node.view_state is ViewState.MINORITY:
            return
        owed = node.owed = node.owed or PendingAcks()
        if self._waits and self._waits[-1][0] is owed:
            self._waits[-1] = (owed, counter)
            return
        self._waits.append((owed.owe(), counter))
        if len(self._waits) == 1:
            node.after_turn(self._begin_waits)

    def _keep(self, mountpoint: str, topic: str, message: Message | None) -> None:
        """A retained message goes to every node: who writes more than the slowest takes is not read meanwhile."""
        self.retained.keep(mountpoint, topic, message)
        if message is not None:
            for name in self._member.links.slow[Lane.METADATA]:
                if self._member.view.incarnation(name) is not None:
                    self.forwarding.hit(name, message.publisher)

    def _begin_waits(self) -> None:
        """One barrier and one timer for a packet, however many writes it made: 15 % less processor time for a SUBSCRIBE
        of 200 filters."""
        waits, self._waits = self._waits, []
        for owed, counter in waits:
            self._begin_wait(owed, counter)

    def _begin_wait(self, owed: PendingAcks, counter: int) -> None:
        handle = self._member.metadata.barrier(counter, lambda _: owed.discharge())
        if owed.open:
            timers = self._node.timers
            timers.at(self._node.now + BARRIER_LIMIT_MS, lambda: self._too_late(handle, owed, counter))

    def _too_late(self, handle: int, owed: PendingAcks, counter: int) -> None:
        if self._member.metadata.cancel(handle):
            owed.fail(lambda again: self._begin_wait(again, counter))

    def _unsubscribed(self, subscription: Subscription) -> None:
        if subscription.session.ending:
            self.announcer.ended(subscription)
            return
        self.missed.unsubscribed(subscription.session)
        self.announcer.removed(subscription)

    def _guard(self, front: OutputBuffer, promised: int, out: list[bytes]) -> bool:
        """Whether promises may leave: not without a lease, unless the policy asks for no lease (H-04)."""
        member, node = self._member, self._node
        if not node.barred and (not member.clustered or member.leased()):
            return True
        assert isinstance(front, ClientConnection)
        answered = operations(out, promised)
        if node.promises_without_lease(front, promised):
            self.watch.count("merged", answered)
            return True
        given_up = front.unanswered()

        def give_up() -> None:
            reason = self._no_lease()  # first, for it notices the loss, and the incident with it
            self.watch.count("voided", answered)
            self.watch.count("voided", given_up)
            front.give_up(promised, reason)

        node.after_turn(give_up)
        return False

    def _no_lease(self) -> str:
        """What a client is told whose answer may not leave."""
        self._member.look()
        because = self._member.reporting.because
        return f"the node has lost its lease ({because}): send again" if because else NO_LEASE

    def _forward(self, message: Message, targets: tuple[RemoteTarget, ...], members: list[RemoteMembers]) -> None:
        if message.retain:
            self._member.metadata.tell()
        own = message.origin is self._node.origin or message.origin.node == self._node.name
        (self.forwarding if own else self.relaying).forward(message, targets, members)

    def _pass_on(self, message: Message, text: str, sender: str) -> bool:
        """What nobody here can have goes back to who has chosen this node, if it is there; as `PassOn`."""
        origin = message.origin.node
        if origin == self._node.name:
            return self.forwarding.returned(message, text, sender)
        if self._kept or sender != origin or self._member.view.incarnation(origin) is None:
            return False
        self.relaying.give_back(message, text)
        return True

    # -- views

    def view_applied(self, before: View, after: View) -> None:
        """Another view is in force."""
        mine = self._node.name
        self._present.clear()
        self.missed.view_applied(before, after)
        for gone in before.incarnations:
            if gone not in after.incarnations and gone.node != mine:
                self._over[gone.node] = max(self._over.get(gone.node, 0), gone.entered_in_view)
                self.routes.drop_live(gone.node, gone.entered_in_view)
                self.relaying.away(gone.node)
                if self.forwarding.away(gone.node):
                    self.missed.published()
        if before.incarnation(mine) is not None and after.incarnation(mine) is None:
            self.announcer.stop()
        for row in after.rows:
            if row.node == mine:
                continue
            self.routes.entered(row.node, row.entered_in_view)
            if row.serving:  # a snapshot may skip its entrance
                self.routes.drop(row.node, row.entered_in_view - 1)
        self._purge(after)
        self.watch.changed()

    def _purge(self, view: View) -> None:
        """Routes of writers that serve again under a later boot, or are no members any more, are nobody's; so are those
        of a disk that was replaced, although the new one has not served yet.

        Routes may come here before the log does: of a start that is not applied here nothing is known (H-04).
        """
        members, boots = self._member.membership.members, self._member.membership.boots
        for each in members.values():
            self.routes.drop(each.node, each.joined_view)

        def gone(node: str, boot: int) -> bool:
            row = view.row(node)
            over = node not in members or (row is not None and row.serving and boot < row.boot)
            return over and boot <= boots.get(node, 0)

        for space in ROUTES:
            self._member.metadata.purge(gone, space)

    def lease_changed(self) -> None:
        """The lease or the view says something else than before."""
        member = self._member
        if self._node.barred or not member.leased():
            state = ViewState.MINORITY
        else:
            state = ViewState.WHOLE if member.whole else ViewState.MAJORITY
        self._node.tick()
        if state is not ViewState.MINORITY:
            self.forwarding.proven()
            self.missed.leased()
        self.watch.begin()
        self.watch.changed()
        if state is not ViewState.MINORITY:
            self._node.settling = False
        if state is not self._node.view_state:
            self._node.view_state = state

    def replaced(self, node: str) -> None:
        """A node has left for good, or came back empty: nothing of its sessions is left."""
        row = self._member.membership.members.get(node)
        if row is None:
            self.routes.drop(node, self._member.view.id)
        self._purge(self._member.view)
        self.forwarding.gone(node)
        self.relaying.gone(node)
        # the log is read again after a restart: who came after the one that is gone is not meant
        self.receiving.forget(node, self._member.membership.boots[node] + (row is None))

    def _broken(self) -> None:
        """The cluster does not take this start: from an old copy of a disk also `on` serves nobody (H-01)."""
        self.bar(BARRED)

    def bar(self, reason: str) -> None:
        """Serve nobody, whatever the policy says, until `unbar`; clients that are there are told the reason."""
        node = self._node
        node.barred = True
        node.view_state = ViewState.MINORITY
        for front in list(node.fronts.values()):
            front.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, reason)

    def unbar(self) -> None:
        """Serve again what lease and policy allow."""
        self._node.barred = False
        self.lease_changed()

    # -- entering

    def rejoin(self, since: int) -> None:
        """This node enters a view. What it had not acknowledged before is void, and its publishers connect anew."""
        node = self._node
        node.tick()
        if self._entered_since:
            self.forwarding.void_all()
            self.forwarding.proven()
            for front in list(node.fronts.values()):
                if front.owes_answers():
                    self.watch.count("voided", front.unanswered())
                    front.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, self._no_lease())
            for session in node.slots:
                session.void_owed()
        self._entered_since = self.forwarding.since = since

    def announce(self, since: int, announced: Callable[[int], None]) -> None:
        """Write all routes; then say up to which number."""
        self.announcer.start(since, lambda counter: announced(counter or 0))

    def informed(self) -> None:
        """What happened while this node was away is known: clean sessions that missed a publish have ended."""
        self._purge(self._member.view)
        self.missed.informed()

    # -- metadata and publishes

    def metadata_changed(self, key: bytes, value: bytes | None) -> None:
        """Another node changed the value of a key."""
        if key[:1] in ROUTES:
            try:
                self.routes.change(key, value)
            except MalformedRoute as error:  # every node has it: it must stop none
                self._node.log("error", str(error))
        elif key[:1] == RETAINED:
            self.retained.changed(key, value)
        elif key[:1] == CONFIG:
            self.config.changed(key, value)

    def _serving(self) -> bool:
        lease_service = self._member.lease_service
        return lease_service is not None and lease_service.holder.serving

    def watermark(self, node: str, boot: int) -> int:
        """How far the publishes of this boot of a node were taken."""
        self.relayed.watermark(node, boot)
        return self.receiving.watermark(node, boot)

    def deliver(self, node: str, seq: int, payload: bytes) -> None:
        """The next publish of a node. One of an entrance that is over is void; one of an entrance that is not applied
        here comes again (H-07, H-14). Raises `Refuse`, `MalformedForward`."""
        stamp = payload[:4]
        self._kept = stamp == NEVER_VOID
        if self._present.get(node) != stamp:
            since = int.from_bytes(stamp, "big")
            present = self._member.view.incarnation(node)
            if since and (
                since <= self._over.get(node, 0) or (present is not None and since < present.entered_in_view)
            ):
                self.receiving.skip(node, seq)
                return
            if present is None or since > present.entered_in_view:
                raise Refuse(f"{node} is not in the view {self._member.view.id} since {since}")
            self._present[node] = stamp  # until the next view, what has the same stamp needs no other look
        if not self._ticked:
            self._ticked = True
            self._node.tick()
            self._node.after_turn(self._turn_over)
        self.receiving.deliver(node, seq, payload[4:])

    def _turn_over(self) -> None:
        self._ticked = False

    def acked(self, node: str, upto: int) -> None:
        """A node has our publishes up to this number."""
        self._node.tick()
        self.forwarding.acked(node, upto, self._member.look())

    def acked_early(self, node: str, seqs: list[int]) -> None:
        """A node has these publishes of ours, although not all before them."""
        self._node.tick()
        self.forwarding.acked_early(node, seqs, self._member.look())

    def deliver_relayed(self, node: str, seq: int, payload: bytes) -> None:
        """The next publish of others that a node relays: never void. Raises `Refuse`, `MalformedForward`."""
        if self._member.view.incarnation(node) is None:
            raise Refuse(f"{node} is not in the view {self._member.view.id}")
        self._node.tick()
        self.relayed.deliver(node, seq, payload[4:])

    def relays_acked(self, node: str, upto: int) -> None:
        """A node has what we relayed to it up to this number."""
        self._node.tick()
        self.relaying.acked(node, upto)

    def relieved(self, node: str) -> None:
        """Less waits for a node than before."""
        self.forwarding.relieved(node)

    def room(self, node: str) -> None:
        """The lane of publishes to a node takes more."""
        self._node.tick()
        self.forwarding.room(node)


def operations_on(node: Node) -> list[str]:
    """The operations that the configuration allows without a lease."""
    names = ("register", "publish", "subscribe", "unsubscribe")
    return [name for name in names if getattr(node.options, f"allow_{name}_during_netsplit") == "on"]


class _Lanes:
    """The links' lanes of publishes."""

    def __init__(self, member: ClusterNode, lane: Lane) -> None:
        self._links = member.links
        self._send = member.links.send
        self._lane = lane
        self.slow: Collection[str] = member.links.slow[lane]
        self.slow_map: Collection[str] = member.links.slow[Lane.METADATA]
        # relays take no turns: their publishers are other nodes'
        self.full: Collection[str] = member.links.full if lane is Lane.PUBLISH else ()
        self.window_bytes = member.links.publish_window_bytes
        self.ahead_bytes = member.links.ahead_bytes
        self.behind_bytes = member.links.behind_bytes

    def send(self, node: str, payload: bytes) -> int:
        return self._send(node, self._lane, payload)

    def void(self, node: str, seqs: list[int] | None = None) -> None:
        self._links.void(node, self._lane, seqs)

    def beside(self, node: str, items: int, size_bytes: int) -> None:
        self._links.beside(node, self._lane, items, size_bytes)
