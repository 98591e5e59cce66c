"""A16 retained-stale: a new subscription got an older retained message than one that was acknowledged long before.

A node set another retained message of the topic, or removed it, after the delivered one had been acknowledged, and
its publisher had the acknowledgement 10 s before the delivery (`stale`). Two that were set at the same time have no
order. Not judged if the node of either had no lease in that time; not sure if it lost power without fsync. A message
with QoS 0 has no acknowledgement: it never makes another one stale. That a subscriber got none at all is not judged:
the log has neither the retain handling of a subscription nor the rights of a client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ..findings import Finding, Subject, of_message
from ..message import Message
from ..rows import LOGICAL_BITS, MessageId, Owner, RowId
from ..world import World

ID = "A16"
LAG: Final = 10_000 << LOGICAL_BITS
"""How long a node may not know of a retained message, 10 s."""


@dataclass(frozen=True, slots=True)
class Retained:
    """A retained message: it was set at a stamp, and acknowledged (-1: not); or `brought` to a session."""

    mountpoint: str
    topic: str
    message: MessageId
    set_at: int
    acked: int
    row: RowId
    brought: tuple[Owner, int] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Returns the key by which they are judged together."""
        return self.mountpoint, self.topic

    @property
    def due(self) -> tuple[int, bool]:
        """Returns the order in which they are judged: when each node must know it, or when it was brought."""
        return (self.acked + LAG, False) if self.brought is None else (self.brought[1], True)


def of_message_rows(message: Message) -> Iterator[Retained]:
    """Returns what one message is for its topic: it was set, and brought to sessions."""
    publish, stored, answer = message.publish, message.retained, message.answer
    if publish is None:
        return
    set_at = publish.stamp if stored is None else stored.stamp
    acked = -1 if stored is None or answer is None or not publish.qos else answer.stamp
    row = publish.row if stored is None else stored.row
    if stored is not None:
        yield Retained(message.mountpoint, publish.topic, message.id, set_at, acked, row)
    for owner, each in message.brought.items():
        yield Retained(
            message.mountpoint, publish.topic, message.id, set_at, acked, each.row, brought=(owner, each.stamp)
        )


def judge(steps: Iterable[Retained], world: World) -> Iterator[Finding]:
    """Judge all retained messages of one topic, in the order of `due`."""
    newest: Retained | None = None
    for each in steps:
        if each.brought is None:
            if each.acked >= 0 and (newest is None or each.set_at >= newest.set_at):
                newest = each
        elif newest is not None:
            yield from _brought(each, *each.brought, newest, world)


def _brought(step: Retained, owner: Owner, stamp: int, newest: Retained, world: World) -> Iterator[Finding]:
    known = step.acked if step.acked >= 0 else step.set_at + LAG
    if newest.set_at <= known:
        return
    nodes = newest.row[0], step.row[0]
    if not world.partitions.anybody_without_lease(nodes, newest.set_at, stamp):
        session = world.session_at(owner, stamp)
        subject = Subject.of(owner, 0 if session is None else session.number, step.message)
        found = of_message(ID, "stale", "error", subject, (stamp, step.topic, 1), (newest.row, step.row))
        yield replace(found, sure=not world.may_be_undone(nodes, newest.set_at, stamp))
