"""The calls that a broker node makes to its cluster, and the answers of a node without a cluster.

`Node` starts with `Standalone`. A node that belongs to a cluster gets an implementation that knows the other nodes
(`clustering.adapter`). Nothing here knows how nodes talk to each other.
"""

from __future__ import annotations

from typing import Protocol

from .queues.message import Message
from .routing.ack_context import AckContext
from .routing.remote import RemoteMembers, RemoteTarget
from .routing.remote_table import NOWHERE, RemoteMatch
from .routing.subscriptions import Subscription


class Pausable(Protocol):
    """A client connection that the cluster may ask not to read for a while."""

    mountpoint: str
    client_id: str

    def unpause(self, reason: str) -> None:
        """Read again, unless the connection is paused for another reason too."""
        ...


class ClusterMember(Protocol):
    """The part of a session that the cluster looks at."""

    mountpoint: str
    durable: bool
    subscriptions: dict[str, Subscription]

    @property
    def online(self) -> bool:
        """A client is connected."""
        ...


class ClusterPort(Protocol):
    """The calls of a broker node to its cluster. All return at once; none raises.

    A method that takes an `AckContext` adds to it the conditions that the answer to this packet waits for.
    """

    def has_lease(self) -> bool:
        """True if this node has a lease now. The answer is never older than the call, unlike the node's view state.

        The node asks before it publishes a will or retains a message, because a process may have been stopped since
        the view state was last set.
        """
        ...

    def may_acknowledge(self, connection: object, operations: int, frames: list[bytes]) -> bool:
        """True if acknowledgements of these operations (bits) may leave this client connection, in these frames.

        Called at the end of the turn, after routing: match first, test the lease after, then acknowledge (H-04). After
        False the cluster ends the connection in a later turn; until then nothing leaves it.
        """
        ...

    def is_present(self, node: str) -> bool:
        """True if this other node is in the view."""
        ...

    def remote_matches(self, mountpoint: str, topic: str) -> RemoteMatch:
        """Which other nodes have subscribers for this topic. The router keeps the answer until the cluster says that
        a route changed."""
        ...

    def publishing(self) -> None:
        """A message of QoS 1 or 2 is about to be routed; from a client only while the node is restricted."""
        ...

    def forward(
        self,
        message: Message,
        targets: tuple[RemoteTarget, ...],
        members: list[RemoteMembers],
        context: AckContext,
    ) -> None:
        """Send the message to these nodes, and to these members of shared subscriptions on other nodes.

        A message of QoS 1 or 2 arrives unless this node loses its lease before the publisher has an answer.
        """
        ...

    def retain(self, mountpoint: str, topic: str, message: Message | None, context: AckContext) -> bool:
        """Store the retained message of a topic (None: delete it) for the whole cluster. False if the node is to store
        it by itself, as a node alone does."""
        ...

    def confirm_deleted(self, mountpoint: str, topic: str, context: AckContext) -> None:
        """A client deletes the retained message of a topic that has none here. Other nodes may still have one."""
        ...

    def subscribed(self, subscription: Subscription, replaced: Subscription | None, context: AckContext) -> None:
        """A subscription was added, in place of `replaced` if there was one."""
        ...

    def unsubscribed(self, subscription: Subscription) -> None:
        """A subscription was removed."""
        ...

    def presence_changed(self, session: ClusterMember) -> None:
        """A session with shared subscriptions got or lost its client connection."""
        ...

    def congested(self, mountpoint: str, client_id: str) -> str:
        """The name of a node that takes this client's messages more slowly than the client publishes; "" if none."""
        ...

    def when_relieved(self, node: str, connection: Pausable) -> None:
        """Call `connection.unpause("cluster")` once that node takes more. A connection that is gone is not kept."""
        ...

    def handshake_opened(self, boot: int, counter: int) -> None:
        """A client began a QoS 2 handshake; its message has this boot and counter."""
        ...

    def handshake_closed(self, boot: int, counter: int) -> None:
        """The handshake is over: this node never sends the message again."""
        ...

    def came_back(self, message: Message, text: str) -> bool:
        """True if a session here has this QoS 2 message of our own for the `$share` filter, in place of a member on
        another node that was to have it."""
        ...

    def handed_over(self, message: Message, text: str) -> None:
        """A session gives a QoS 2 message that it had for this `$share` filter to another member."""
        ...


class Standalone:
    """A node without a cluster: it answers without waiting for other nodes, and sends them nothing."""

    def has_lease(self) -> bool:
        """As `ClusterPort.has_lease`: always."""
        return True

    def may_acknowledge(self, connection: object, operations: int, frames: list[bytes]) -> bool:
        """As `ClusterPort.may_acknowledge`: always."""
        return True

    def is_present(self, node: str) -> bool:
        """As `ClusterPort.is_present`: there is no other node."""
        return False

    def remote_matches(self, mountpoint: str, topic: str) -> RemoteMatch:
        """As `ClusterPort.remote_matches`: none."""
        return NOWHERE

    def publishing(self) -> None:
        """As `ClusterPort.publishing`."""

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
        """As `ClusterPort.retain`: the node stores it."""
        return False

    def confirm_deleted(self, mountpoint: str, topic: str, context: AckContext) -> None:
        """As `ClusterPort.confirm_deleted`."""

    def subscribed(self, subscription: Subscription, replaced: Subscription | None, context: AckContext) -> None:
        """As `ClusterPort.subscribed`."""

    def unsubscribed(self, subscription: Subscription) -> None:
        """As `ClusterPort.unsubscribed`."""

    def presence_changed(self, session: ClusterMember) -> None:
        """As `ClusterPort.presence_changed`."""

    def congested(self, mountpoint: str, client_id: str) -> str:
        """As `ClusterPort.congested`: none."""
        return ""

    def when_relieved(self, node: str, connection: Pausable) -> None:
        """As `ClusterPort.when_relieved`: never called, because `congested` names no node."""
        raise AssertionError("a node without a cluster has no slow peers")

    def handshake_opened(self, boot: int, counter: int) -> None:
        """As `ClusterPort.handshake_opened`."""

    def handshake_closed(self, boot: int, counter: int) -> None:
        """As `ClusterPort.handshake_closed`."""

    def came_back(self, message: Message, text: str) -> bool:
        """As `ClusterPort.came_back`: never."""
        return False

    def handed_over(self, message: Message, text: str) -> None:
        """As `ClusterPort.handed_over`."""
