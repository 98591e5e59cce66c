"""A5 qos2-violation: a message with QoS 2 was sent to a session in a way that makes the application get it twice.

A receiver recognises a repeated message by its packet id, until PUBREL. So it must be sent again with the same packet
id, and after the receiver's answer only with DUP.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..findings import Finding, Subject, of_message
from ..message import Message
from ..world import World
from .a04_duplicate import answered_between, granted_qos

ID = "A5"
KIND = "sent twice"


def judge(message: Message, world: World) -> Iterator[Finding]:
    """Judge what was sent to each session; at most one finding for each, with all sendings."""
    publish = message.publish
    for key, sent in message.sendings.items():
        if len(sent) == 1 or publish is None or message.was_retained_for(key[0]):
            continue
        if granted_qos(message, publish, sent[-1], world) != 2:
            continue
        if any(
            each.packet_id != sent[0].packet_id or (not each.dup and answered_between(message, key, sent[0], each))
            for each in sent[1:]
        ):
            what = publish.stamp, publish.topic, publish.qos
            subject = Subject.of(*key, message.id)
            yield of_message(ID, KIND, "fatal", subject, what, tuple(each.row for each in sent))
