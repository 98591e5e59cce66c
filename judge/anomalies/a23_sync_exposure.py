"""A23 sync-exposure: what the loss of power of one machine could have taken, although it was acknowledged.

The number is that of the acknowledged entries of durable queues, for each boot, that were in the memory of one
machine alone: the durability (which is the kind) is not `sync`, and no other node had a copy. With `sync` an entry
counts as safe only after fsync, so nothing is exposed. When the system writes its memory to the disk is not in the
log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..findings import Finding, Subject
from ..message import Message

ID = "A23"
Place = tuple[str, int, str]
"""Node, boot and durability."""


def judge(message: Message) -> Iterator[Place]:
    """Returns where an acknowledged message was exposed, once for each session."""
    if message.answer is None:
        return
    for each in message.safe.values():
        if each.alone:
            node, boot, _ = each.row
            yield node, boot, each.durability


def counted(places: Iterable[tuple[Place, int]]) -> Iterator[Finding]:
    """Report how many entries were exposed, by place."""
    for (node, boot, durability), count in places:
        subject = Subject(node, detail=f"boot {boot}")
        text = f"{node}, boot {boot}: a loss of power could have taken {count} acknowledged entries of queues"
        yield Finding(ID, durability, "metric", subject, 0, text, value=count)
