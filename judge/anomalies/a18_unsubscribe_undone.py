"""A18 unsubscribe-undone: a session was sent a message that it had unsubscribed from before the PUBLISH.

It is an A3 `no subscription` whose session once had a matching subscription (`delivered`): the subscription may have
come back when states were merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..findings import Finding, Subject, of_message
from ..message import Message
from ..world import World

ID = "A18"


def judge(message: Message, unexpected: Finding, world: World) -> Iterator[Finding]:
    """Judge a finding of A3."""
    publish, subject = message.publish, unexpected.subject
    if publish is None or unexpected.kind != "no subscription":
        return
    session = (subject.node, subject.mountpoint, subject.client), subject.session
    for holders in world.subscriptions.matching(message.mountpoint, publish.topic):
        if any(held.gone <= publish.stamp for held in holders.held.get(session, ())):
            what = publish.stamp, publish.topic, publish.qos
            found = of_message(ID, "delivered", "error", Subject.of(*session, message.id), what, unexpected.rows)
            yield replace(found, sure=unexpected.sure)
            return
