"""Ends clean sessions that missed messages while their node was out of the view (H-18).

No node keeps messages for clean sessions of an absent node. So a node that accepts a publish while another member is
absent writes the view id into the replicated map. When the absent node comes back and finds such an entry, it ends its
clean sessions. It also ends a session that *was* subscribed, because its client may have sent UNSUBSCRIBE in between.
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
    """One node's part: it notes that it accepts publishes which absent members miss (`publishing`, `published`). When
    it was absent itself, it ends its clean sessions before it serves again (`informed`)."""

    def __init__(self, node: Node, member: ClusterNode) -> None:
        self._node = node
        self._member = member
        self._published_in = -1
        self._out_since_view = 0
        self._unheard = False
        self._unsubscribed: WeakSet[Session] = WeakSet()

    def publishing(self) -> None:
        """Note a publish that is being routed, if members may be absent. After its acknowledgement it would be too
        late: an absent member may be back by then, and it reads the notes before it serves."""
        if self._node.policy.view_state is not ViewState.WHOLE:
            self.published()

    def published(self) -> None:
        """Note that this node accepts a publish that an absent member does not get."""
        view_id = self._member.view.id
        if self._published_in != view_id:
            self._published_in = view_id
            self._member.metadata.put(PUBLISHED + self._node.name.encode(), view_id.to_bytes(8, "big"))

    def unsubscribed(self, session: Session) -> None:
        """Note that a clean session has lost a subscription while this node has no lease: it may have missed messages
        before."""
        if not session.durable and not self._member.leased():
            self._unsubscribed.add(session)

    def leased(self) -> None:
        """This node has a lease: it was not absent, or `informed` has ended the sessions. Forget the noted sessions."""
        self._unsubscribed.clear()

    def view_applied(self, before: View, after: View) -> None:
        """A view is applied: note whether this node was absent, and whether it may lack the notes of another node."""
        mine = self._node.name
        if self._out_since_view:
            # a node that left during this node's absence may be the only one with its notes
            kept = after.incarnations
            self._unheard |= any(
                each.node in before.serving and each.node != mine and each not in kept for each in before.incarnations
            )
        if before.incarnation(mine) is not None and after.incarnation(mine) is None:
            self._out_since_view = self._out_since_view or before.id + 1
        if self._out_since_view and after.id > before.id + 1:
            self._unheard = True  # a snapshot skips views: this node does not know which nodes left in them

    def informed(self) -> None:
        """This node has the notes of its absence: end the clean sessions that may have missed a publish."""
        left, self._out_since_view = self._out_since_view, 0
        unheard, self._unheard = self._unheard, False
        were, self._unsubscribed = self._unsubscribed, WeakSet()
        if left and (unheard or self._anything_published(left)):
            self._node.env.tick()
            for session in self._node.sessions.in_memory():
                connection = session.connection
                if connection is not None and not session.durable and (session.subscriptions or session in were):
                    connection.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, MISSED)

    def _anything_published(self, view_id: int) -> bool:
        published = self._member.metadata.scan(PUBLISHED)
        return any(int.from_bytes(value, "big") >= view_id for _, value in published)
