"""A21 minority-ack: a node acknowledged messages while it had no lease.

- `policy`: it said so in `right`: policy `on` allows it. One finding for each node and time without a lease; the number
  is that of the acknowledgements;
- `lease`: it had said that it lost its lease, and acknowledged by the right of one. This is never allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..findings import Finding, Subject, of_message
from ..message import Message
from ..world import World

ID = "A21"
Place = tuple[str, int]
"""A node, and the stamp at which a time without a lease began."""


def judge(message: Message, world: World) -> Iterator[Finding | Place]:
    """Judge the acknowledgement of a message. Yields a finding, or where an allowed one is to be counted."""
    publish, answer = message.publish, message.answer
    if publish is None or answer is None:
        return
    node = answer.node
    if answer.right == "policy":
        alone = world.partitions.span_without_lease(node, answer.stamp)
        yield node, 0 if alone is None else alone[0]
    elif answer.right == "lease" and world.partitions.span_after_a_lost_lease(node, answer.stamp) is not None:
        subject = Subject(node, message.mountpoint, publish.client, message=message.id)
        what = publish.stamp, publish.topic, publish.qos
        yield of_message(ID, "lease", "fatal", subject, what, (publish.row, answer.row))


def counted(places: Iterable[tuple[Place, int]]) -> Iterator[Finding]:
    """Report how many were allowed, by place."""
    for (node, begin), count in places:
        subject = Subject(node, detail=f"since {begin}")
        text = f"{node} acknowledged {count} messages without a lease"
        yield Finding(ID, "policy", "info", subject, begin, text, value=count)
