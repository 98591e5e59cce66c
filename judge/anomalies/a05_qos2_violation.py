"""A5 qos2-violation: a message with QoS 2 was sent to a session in a way that makes the application get it twice.

A receiver recognises a repeated message by its packet id, until PUBREL. So it must be sent again with the same packet
id, and after the receiver's answer only with DUP. A loss of power without fsync may undo the packet id: then the
finding is not sure. Not judged is what a member of a group gets from two nodes: the second one does not know which
member had the message (docs/promises.md#what-comes-later).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..findings import Finding
from ..message import Message
from ..world import World
from .a04_duplicate import answered_between, finding_of, repeated

ID = "A5"
KIND = "sent twice"


def judge(message: Message, world: World) -> Iterator[Finding]:
    """Judge what was sent to each session; at most one finding for each, with all sendings."""
    for key, sent, qos in repeated(message, world):
        queued = message.queued.get(key[0])
        if queued is not None and queued.group and len({each.row[0] for each in sent}) > 1:
            continue
        if qos == 2 and any(
            each.packet_id != sent[0].packet_id or (not each.dup and answered_between(message, key, sent[0], each))
            for each in sent[1:]
        ):
            undone = world.may_be_undone((each.row[0] for each in sent), sent[0].stamp, sent[-1].stamp)
            yield replace(finding_of(ID, KIND, "fatal", message, key), sure=not undone)
