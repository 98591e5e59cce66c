"""A5 qos2-violation: a message with QoS 2 was sent to a session in a way that makes the application get it twice.

A receiver recognises a repeated message by its packet id, until PUBREL. So it must be sent again with the same packet
id, and after the receiver's answer only with DUP. What it does not recognise is a further delivery: a session may have
several as a member of groups (`judge/shares.py`). A loss of power without fsync may undo the packet id: then the
finding is not sure. So it is if a node that accepted the message lost its power in between: it may have lost the end of
the publisher's handshake, and the next message with that packet id gets the id of this one. What was sent with QoS 1,
before or after the client changed its subscription, is A4 `duplicate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..findings import Finding
from ..message import Message, Sent
from ..sessions import SessionKey
from ..shares import times_owed
from ..world import World
from .a04_duplicate import answered_between, finding_of, granted_qos, repeated

ID = "A5"
KIND = "sent twice"


def judge(message: Message, world: World) -> Iterator[Finding]:
    """Judge what was sent to each session; at most one finding for each, with all sendings."""
    for key, every in repeated(message):
        sent = [each for each in every if granted_qos(message, each, world) == 2]
        if len(sent) > 1 and _deliveries(message, key, sent) > times_owed(message, key[0], sent[0], world):
            nodes = {each.row[0] for each in sent} | {node for node, kind in message.steps if kind == "pub.recv"}
            undone = world.may_be_undone(nodes, sent[0].stamp, sent[-1].stamp)
            yield replace(finding_of(ID, KIND, "fatal", message, key), sure=not undone)


def _deliveries(message: Message, key: SessionKey, sent: Sequence[Sent]) -> int:
    """Returns how often the application gets the message."""
    times = 0
    first: dict[int, Sent] = {}
    for each in sent:
        before = first.setdefault(each.packet_id, each)
        times += before is each or (not each.dup and answered_between(message, key, before, each))
    return times
