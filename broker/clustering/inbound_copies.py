"""What this node takes of the publishes of other nodes: a copy that is void is skipped, one that is too early is held.

A copy is void if its sender sent it under an earlier entry into the view (H-14). It is too early if this node has not
applied the view of that entry yet; then the sender sends it again.
"""

from __future__ import annotations

from ...cluster.links.ports import Refuse
from ...cluster.membership.view import View
from ...cluster.node import ClusterNode
from ..node import Node
from ..queues.message import Message
from ..routing.ack_context import AckContext
from .forward_codec import split_head
from .forward_receiver import ForwardReceiver
from .forward_sender import ForwardSender


class InboundCopies:
    """The checks in front of the two receivers: of copies that origins send, and of copies that other nodes relay."""

    def __init__(
        self,
        node: Node,
        member: ClusterNode,
        receivers: tuple[ForwardReceiver, ForwardReceiver],
        senders: tuple[ForwardSender, ForwardSender],
    ) -> None:
        self._node = node
        self._member = member
        self._receiver, self._relays = receivers
        self._sender, self._relay_sender = senders
        self._over: dict[str, int] = {}
        self._present: dict[str, int] = {}
        self._ticked = False
        self._kept = False
        """True while a copy is delivered that is never void: its origin may have ended, and no node sends it again."""
        self._receiver.pass_on = self._relays.pass_on = self._pass_on

    def view_applied(self, before: View, after: View) -> None:
        """Note which incarnations have left: their copies are void."""
        self._present.clear()
        for gone in before.incarnations:
            if gone not in after.incarnations and gone.node != self._node.name:
                self._over[gone.node] = max(self._over.get(gone.node, 0), gone.entered_in_view)

    def deliver(self, node: str, seq: int, payload: bytes) -> None:
        """Take the next publish of a node (H-07, H-14, H-44). Raises `Refuse`, `MalformedForward`."""
        head, body = split_head(payload)
        since = head.since
        self._kept = not since
        if self._present.get(node) != since:
            present = self._member.view.incarnation(node)
            if since and (
                since <= self._over.get(node, 0) or (present is not None and since < present.entered_in_view)
            ):
                self._receiver.skip(node, seq)
                return
            if present is None or since > present.entered_in_view:
                raise Refuse(f"{node} is not in the view {self._member.view.id} since {since}")
            self._present[node] = since  # until the next view, a copy of the same entry needs no other check
        if not self._ticked:
            self._ticked = True
            self._node.env.tick()
            self._node.env.after_turn(self._turn_over)
        self._receiver.deliver(node, seq, head, body)

    def _turn_over(self) -> None:
        self._ticked = False

    def deliver_relayed(self, node: str, seq: int, payload: bytes) -> None:
        """Take the next publish that a node relays for its origin; it is never void. Raises `Refuse`,
        `MalformedForward`."""
        if self._member.view.incarnation(node) is None:
            raise Refuse(f"{node} is not in the view {self._member.view.id}")
        self._node.env.tick()
        head, body = split_head(payload)
        self._kept = not head.since
        self._relays.deliver(node, seq, head, body)

    def _pass_on(self, message: Message, text: str, sender: str, context: AckContext) -> bool:
        """As `PassOn`: give a message that no group member here can get back to the node that chose this node."""
        origin = self._sender.origins.home(message.origin.node)
        if origin == self._node.name:
            return self._sender.returned(message, text, sender, self._kept)
        if self._kept or sender != origin or self._member.view.incarnation(origin) is None:
            return False
        self._relay_sender.give_back(message, text, context)
        return True
