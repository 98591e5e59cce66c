"""A9 recovered: a message with QoS 1 or 2 was delivered, although its publisher has no acknowledgement.

This is allowed: the publisher does not know the fate of the message, and may send it again. A message that is still
being answered at the end of the log looks the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..findings import Finding, Subject, of_message
from ..message import Message
from ..world import World

ID = "A9"


def judge(message: Message, world: World) -> Iterator[Finding]:
    """Judge a message; one finding, whoever got it."""
    publish = message.publish
    if publish is None or not publish.qos or message.answer is not None or not message.sent:
        return
    sent = message.sent[0]
    if world.lives.known_up_to(publish.node) >= sent.stamp:
        subject = Subject.of(sent.owner, sent.key[1], message.id)
        what = publish.stamp, publish.topic, publish.qos
        yield of_message(ID, "unacknowledged", "info", subject, what, (publish.row, sent.row))
