"""The calls that a broker node makes to its cluster, and the answers of a node without a cluster.

`Node` starts with `Standalone`; one whose disk belongs to a cluster goes on with `Starting`, until it gets an
implementation that knows the other nodes (`clustering.adapter`). The protocol between nodes is not visible here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from .queues.message import Message, Mid
from .routing.ack_context import AckContext
from .routing.remote import RemoteMembers, RemoteTarget
from .routing.remote_table import NOWHERE, RemoteMatch
from .routing.subscriptions import Subscription

NO_MEMBERS: Mapping[str, int] = MappingProxyType({})


class Pausable(Protocol):
    """A client connection whose reading pauses while another node is slow."""

    mountpoint: str
    client_id: str

    def unpause(self, reason: str) -> None:
        """Remove this reason to pause. Reading resumes when no other reason is left."""
        ...


class ClusterMember(Protocol):
    """The attributes of a session that the cluster reads."""

    mountpoint: str
    durable: bool
    subscriptions: dict[str, Subscription]

    @property
    def online(self) -> bool:
        """True while a client is connected."""
        ...


class ClusterPort(Protocol):
    """The calls of a broker node to its cluster. All return at once; none raises.

    A method with an `AckContext` adds to it the conditions on other nodes that the answer to this packet waits for.
    """

    def has_lease(self) -> bool:
        """True if this node has a lease at this moment. The call also updates `OperationPolicy.view_state`.

        The broker calls this before it publishes a will or retains a message. The view state alone may be out of date:
        the process may have been suspended since it was set.
        """
        ...

    def expiry_pause_ms(self) -> int:
        """How long in ms no session of this node may expire yet; 0 if one may expire now (H-43).

        The broker calls this when a session or its will is due, or a will in doubt. The time may grow meanwhile, so the
        broker asks again after it.
        """
        ...

    def failover_grace_s(self) -> int:
        """How long at least, in seconds, a session and its will wait whose client the cluster has disconnected (H-39).

        The session was made from its record, which says that a client was connected: its node has died.
        """
        ...

    def may_acknowledge(self, connection: object, operations: int, frames: list[bytes]) -> bool:
        """True if this client connection may send the frames, which acknowledge these operations (bits).

        The output buffer calls this at the end of the turn, after routing: match first, test the lease after, then
        acknowledge (H-04). After False the output buffer sends nothing more, and the cluster closes the connection in a
        later turn.
        """
        ...

    def right(self) -> str:
        """Return by which right this node acknowledges now: `own` (it is no cluster's), `lease`, or `policy` (the
        client's policy asks for no lease). For the event log, after `may_acknowledge`."""
        ...

    def is_present(self, node: str) -> bool:
        """True if the other node of this name is in the view."""
        ...

    def entrance_of(self, node: str) -> int:
        """The number of the view in which the process of another node entered; 0 if it is not in the view.

        A process that was out of the view, or has started again, has a higher number than before.
        """
        ...

    def slot_epoch(self, slot: int) -> int:
        """The epoch in which this node is the primary of the slot, from the table of slots; 0 without a cluster.

        Each new primary of a slot has a higher epoch than all before; an epoch has at most 31 bits.
        """
        ...

    def remote_matches(self, mountpoint: str, topic: str) -> RemoteMatch:
        """Return the other nodes that have subscribers for this topic.

        The router keeps the answer in its plan of the topic. When a route changes, the cluster invalidates the plan.
        """
        ...

    def publishing(self) -> None:
        """The caller is about to route a message of QoS 1 or 2.

        If this node does not see the whole cluster, members that are out of the view miss the message. The cluster
        records this, and such a member ends its clean sessions when it comes back (H-18). While the node sees the whole
        cluster the call has no effect, and callers may leave it out.
        """
        ...

    def forward(
        self,
        message: Message,
        targets: tuple[RemoteTarget, ...],
        members: list[RemoteMembers],
        context: AckContext,
    ) -> None:
        """The router sends a message to these nodes, and to these members of shared subscriptions on other nodes.

        The answer to a QoS 1 or 2 message waits until each of these nodes has its copy. It does not wait for clean
        sessions of a node that leaves the view, because they end. The message arrives, unless this node loses its lease
        before the publisher has an answer. A QoS 0 message may be dropped.
        """
        ...

    def retain(self, mountpoint: str, topic: str, message: Message | None, context: AckContext) -> bool:
        """The retained store has changed the retained message of a topic (None: deleted it): send it to all nodes.

        Returns True if the cluster stores the change; the answer waits until all nodes of the view have it (P4).
        Returns False if the caller must write the change into the node's own store.
        """
        ...

    def confirm_deleted(self, mountpoint: str, topic: str, context: AckContext) -> None:
        """A client deletes the retained message of a topic, and this node has none.

        Other nodes may still have one: the answer waits until no node of the view does.
        """
        ...

    def subscribed(self, subscription: Subscription, replaced: Subscription | None, context: AckContext) -> None:
        """A session has added a subscription, or has put it in place of `replaced`: announce its route.

        SUBACK waits until all nodes of the view have the route (P4).
        """
        ...

    def unsubscribed(self, subscription: Subscription) -> None:
        """A session has removed a subscription: withdraw the route if no other subscription needs it.

        No answer waits for this, so other nodes may forward messages for a moment longer.
        """
        ...

    def presence_changed(self, session: ClusterMember) -> None:
        """A session with shared subscriptions got or lost its connection: announce how many members are online."""
        ...

    def congested(self, mountpoint: str, client_id: str) -> str:
        """Return the name of a node that takes this client's messages more slowly than the client publishes, or "".

        The connection calls this after each chunk of PUBLISH packets. If there is such a node it stops reading.
        """
        ...

    def when_relieved(self, node: str, connection: Pausable) -> None:
        """Call `connection.unpause("cluster")` once the node that `congested` returned takes more messages.

        The cluster keeps only a weak reference to the connection.
        """
        ...

    def is_copied(self, slot: int) -> bool:
        """True if this node is the primary of a slot that other nodes have copies of, or are to have: what is in the
        slot outlives this node."""
        ...

    def continues(self, slot: int) -> bool:
        """True if another node continues the sessions of a slot of this node as soon as this node stops."""
        ...

    def mid_of_slot(self, slot: int, has_rows: bool) -> Mid | None:
        """A new mid for a QoS 2 message of a durable session in this slot, or for a will; None if the node's own
        numbers do. `has_rows` as in `identity.following`.

        Such a mid belongs to the slot: the next primary continues under it (H-47, H-50).
        """
        ...

    def handshake_opened(self, mid: Mid, members: Mapping[str, int] = NO_MEMBERS) -> None:
        """A client began a QoS 2 handshake as publisher, or a will is due; the message has this mid. `members`: those
        that got it from an earlier process of this node, as in `InboundRecord`.

        Nodes that receive a copy remember its mid until `handshake_closed`, to recognise the copy if it is sent again.
        """
        ...

    def handshake_closed(self, mid: Mid) -> None:
        """The handshake is over, and this node never sends the message again: other nodes may forget its mid."""
        ...

    def came_back(self, message: Message, text: str) -> bool:
        """True if a session on this node already has this QoS 2 message for the `$share` filter.

        The broker calls this before it repeats a message of its own that it has given to a member on another node. If
        that node had no member left, it may have sent the message back, and a session here may have it.
        """
        ...

    def take_own(self, message: Message, slots: list[int]) -> list[int]:
        """Return those of these slots that lack an own QoS 2 message, and note in the open batch that they have it.

        They were at other nodes when this node sent the message, and are here now; or a former primary has sent it.
        """
        ...

    def take_own_live(self, message: Message) -> bool:
        """True if the clean sessions of this node lack a QoS 2 message of a slot. From now on they have it: another
        node may get the slot, and send the message once more."""
        ...

    def handed_over(self, message: Message, text: str) -> None:
        """A session gives a QoS 2 message that it had for this `$share` filter to another member, under a new mid.

        The cluster records the old mid on disk, so that this node ignores a repeated copy after a restart, too.
        """
        ...

    def given(self, message: Message, text: str, wait: bool) -> None:
        """A member here got a message of a slot for this `$share` filter: from now on it `came_back`. `wait`: note that
        on disk, its queue entry is in the open batch; else only in memory, until another node takes the slot over."""
        ...


class Standalone:
    """A node without a cluster: it answers without waiting for other nodes, and sends them nothing."""

    def has_lease(self) -> bool:
        """As `ClusterPort.has_lease`: always True."""
        return True

    def expiry_pause_ms(self) -> int:
        """As `ClusterPort.expiry_pause_ms`: always 0."""
        return 0

    def failover_grace_s(self) -> int:
        """As `ClusterPort.failover_grace_s`: 0."""
        return 0

    def may_acknowledge(self, connection: object, operations: int, frames: list[bytes]) -> bool:
        """As `ClusterPort.may_acknowledge`: always True."""
        return True

    def right(self) -> str:
        """As `ClusterPort.right`: `own`."""
        return "own"

    def is_present(self, node: str) -> bool:
        """As `ClusterPort.is_present`: always False."""
        return False

    def entrance_of(self, node: str) -> int:
        """As `ClusterPort.entrance_of`: always 0."""
        return 0

    def slot_epoch(self, slot: int) -> int:
        """As `ClusterPort.slot_epoch`: always 0."""
        return 0

    def remote_matches(self, mountpoint: str, topic: str) -> RemoteMatch:
        """As `ClusterPort.remote_matches`: no other node."""
        return NOWHERE

    def publishing(self) -> None:
        """As `ClusterPort.publishing`: does nothing."""

    def forward(
        self,
        message: Message,
        targets: tuple[RemoteTarget, ...],
        members: list[RemoteMembers],
        context: AckContext,
    ) -> None:
        """As `ClusterPort.forward`: never called, because no plan names another node."""
        raise AssertionError("a node without a cluster has no remote targets")

    def retain(self, mountpoint: str, topic: str, message: Message | None, context: AckContext) -> bool:
        """As `ClusterPort.retain`: False, because the node stores its own retained messages."""
        return False

    def confirm_deleted(self, mountpoint: str, topic: str, context: AckContext) -> None:
        """As `ClusterPort.confirm_deleted`: does nothing."""

    def subscribed(self, subscription: Subscription, replaced: Subscription | None, context: AckContext) -> None:
        """As `ClusterPort.subscribed`: does nothing."""

    def unsubscribed(self, subscription: Subscription) -> None:
        """As `ClusterPort.unsubscribed`: does nothing."""

    def presence_changed(self, session: ClusterMember) -> None:
        """As `ClusterPort.presence_changed`: does nothing."""

    def congested(self, mountpoint: str, client_id: str) -> str:
        """As `ClusterPort.congested`: always ""."""
        return ""

    def when_relieved(self, node: str, connection: Pausable) -> None:
        """As `ClusterPort.when_relieved`: never called, because `congested` names no node."""
        raise AssertionError("a node without a cluster has no slow peers")

    def is_copied(self, slot: int) -> bool:
        """As `ClusterPort.is_copied`: always False."""
        return False

    def continues(self, slot: int) -> bool:
        """As `ClusterPort.continues`: always False."""
        return False

    def mid_of_slot(self, slot: int, has_rows: bool) -> Mid | None:
        """As `ClusterPort.mid_of_slot`: None."""
        return None

    def handshake_opened(self, mid: Mid, members: Mapping[str, int] = NO_MEMBERS) -> None:
        """As `ClusterPort.handshake_opened`: does nothing."""

    def handshake_closed(self, mid: Mid) -> None:
        """As `ClusterPort.handshake_closed`: does nothing."""

    def came_back(self, message: Message, text: str) -> bool:
        """As `ClusterPort.came_back`: always False."""
        return False

    def take_own(self, message: Message, slots: list[int]) -> list[int]:
        """As `ClusterPort.take_own`: none."""
        return []

    def take_own_live(self, message: Message) -> bool:
        """As `ClusterPort.take_own_live`: False."""
        return False

    def handed_over(self, message: Message, text: str) -> None:
        """As `ClusterPort.handed_over`: does nothing."""

    def given(self, message: Message, text: str, wait: bool) -> None:
        """As `ClusterPort.given`: does nothing."""


class Starting(Standalone):
    """A member of a cluster that has not read its log yet. It loads its sessions, and ends none of them: another node
    may have them now, and their clients could not come back (H-43)."""

    def __init__(self, grace_s: int) -> None:
        self._grace_s = grace_s

    def has_lease(self) -> bool:
        """As `ClusterPort.has_lease`: False."""
        return False

    def expiry_pause_ms(self) -> int:
        """As `ClusterPort.expiry_pause_ms`: the grace, as often as the broker asks."""
        return self._grace_s * 1000

    def failover_grace_s(self) -> int:
        """As `ClusterPort.failover_grace_s`: the grace."""
        return self._grace_s
