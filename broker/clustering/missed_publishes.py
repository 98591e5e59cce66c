"""Ends clean sessions that missed messages while their node was out of the view (H-18).

No node keeps messages for clean sessions of an absent node. So a node that accepts a publish which such a node does not
get notes the view id; and a node that comes back ends its clean sessions if any publish was accepted meanwhile. It also
ends a session that *was* subscribed, because its client may have sent UNSUBSCRIBE in between.
"""

from __future__ import annotations

from weakref import WeakSet

from ...cluster.membership.view import View
from ...cluster.node import ClusterNode
from ...mqtt.reasons import ReasonCode
from ...netsplit.policy import ViewState
from ..node import Node
from ..sessions.session import Session

PUBLISHED = b"p"
"""Key `p node`: the last view with a member missing in which that node accepted a publish."""

MISSED = "the node was cut off from its cluster: messages were missed"


class MissedPublishes:
    """For one member: `publishing` and `published` before it is out, `informed` before it serves again."""

    def __init__(self, node: Node, member: ClusterNode) -> None:
        self._node = node
        self._member = member
        self._published_in = -1
        self._out_since_view = 0
        self._unheard = False
        self._unsubscribed: WeakSet[Session] = WeakSet()

    def publishing(self) -> None:
        """A publish is being routed, and members that are away do not get it. It may be acknowledged when they are
        back: too late to say so, for they ask before they serve."""
        if self._node.policy.view_state is not ViewState.WHOLE:
            self.published()

    def published(self) -> None:
        """A publish was accepted that a member which is out of the view does not get."""
        view_id = self._member.view.id
        if self._published_in != view_id:
            self._published_in = view_id
            self._member.metadata.put(PUBLISHED + self._node.name.encode(), view_id.to_bytes(8, "big"))

    def unsubscribed(self, session: Session) -> None:
        """A session has one subscription less. Until then it may have missed something, if this node is out."""
        if not session.durable and not self._member.leased():
            self._unsubscribed.add(session)

    def leased(self) -> None:
        """This node has a lease: it was not out, or is informed."""
        self._unsubscribed.clear()

    def view_applied(self, before: View, after: View) -> None:
        """Another view is in force."""
        mine = self._node.name
        if self._out_since_view:
            # what one accepted that went while this node was out of the view, perhaps it alone knew
            kept = after.incarnations
            self._unheard |= any(
                each.node in before.serving and each.node != mine and each not in kept for each in before.incarnations
            )
        if before.incarnation(mine) is not None and after.incarnation(mine) is None:
            self._out_since_view = self._out_since_view or before.id + 1
        if self._out_since_view and after.id > before.id + 1:
            self._unheard = True  # a snapshot skips views: nodes that left in them are not known

    def informed(self) -> None:
        """What happened while this node was away is known: clean sessions that missed a publish end."""
        left, self._out_since_view = self._out_since_view, 0
        unheard, self._unheard = self._unheard, False
        were, self._unsubscribed = self._unsubscribed, WeakSet()
        if left and (unheard or self._anything_published(left)):
            self._node.env.tick()
            for session in self._node.sessions:
                connection = session.connection
                if connection is not None and not session.durable and (session.subscriptions or session in were):
                    connection.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, MISSED)

    def _anything_published(self, view_id: int) -> bool:
        published = self._member.metadata.scan(PUBLISHED)
        return any(int.from_bytes(value, "big") >= view_id for _, value in published)
