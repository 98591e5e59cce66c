"""Records the members of shared groups to which a node assigns messages. Assigned means: the member's queue got the
message."""

from __future__ import annotations

from typing import Any

from ..broker.node import Node
from ..broker.queues.message import Message
from ..broker.routing.shared import SharedGroup
from ..broker.routing.subscriptions import Subscription
from .history import History
from .workload.sender import key_of


def record_assignments(history: History, node: Node) -> None:
    """From now on record each shared message and its member in `History.assigned`."""
    router: Any = node.router
    push = router._push_member

    def pushing(message: Message, group: SharedGroup, member: Subscription, qos: int) -> bool:
        history.assigned.add((group.text, member.session.client_id, key_of(message.payload)))
        return bool(push(message, group, member, qos))

    router._push_member = pushing
