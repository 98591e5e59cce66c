"""A3 unexpected: a message was sent that was never accepted, or to a session without a matching subscription.

- `never accepted`: no node accepted, made, routed or queued it, and the log has the boot that its id names, from the
  begin to the sending. Its node wrote the rows of messages until then, and its id does not say that logs leave it out:
  earlier versions of Strogoff write rows about such a message, and it has no row of its PUBLISH;
- `no subscription`: between the PUBLISH and the sending no subscription of the session matched. Only sessions whose
  begin the log has are judged: the others may have subscribed before. A subscription counts until UNSUBACK has left:
  before, a kill may undo the UNSUBSCRIBE. Not judged is a sending of a node that stood still while another node got the
  session: it does not know that the client has unsubscribed there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...cluster.identity import left_out
from ..findings import Finding, Subject, of_message
from ..message import Message, Publish, Sent
from ..world import World

ID = "A3"


def judge(message: Message, world: World) -> Iterator[Finding]:
    """Judge each sending of a message; at most one finding for each session."""
    publish = message.publish
    found = set()
    for sent in message.sent:
        if sent.key in found:
            continue
        kind = _kind(message, publish, sent, world)
        if kind:
            found.add(sent.key)
            subject = Subject.of(*sent.key, message.id)
            what = (sent.stamp, "", 0) if publish is None else (publish.stamp, publish.topic, publish.qos)
            sure = _is_sure(message, sent, world)
            yield replace(of_message(ID, kind, "fatal", subject, what, (sent.row,)), sure=sure)


def _kind(message: Message, publish: Publish | None, sent: Sent, world: World) -> str:
    if publish is None:
        node, boot, counter = message.id
        if left_out(counter) or world.writing.silent_before(node, sent.stamp):
            return ""
        if message.made or world.lives.begins_inside(node, boot) or world.lives.known_up_to(node) < sent.stamp:
            return ""
        return "never accepted"
    if sent.session is None or not sent.session.known:
        return ""
    if not world.knows_past(sent.session, sent.stamp) or sent.session.home_at(sent.stamp).node != sent.row[0]:
        return ""
    for holders in world.subscriptions.matching(message.mountpoint, publish.topic):
        if any(holders.perhaps_of(sent.key, publish.stamp, sent.stamp)):
            return ""
    return "no subscription"


def _is_sure(message: Message, sent: Sent, world: World) -> bool:
    """Whether no rows are lost that may have had the PUBLISH, or the subscription."""
    nodes = [message.id[0]]
    if message.publish is not None and sent.session is not None:
        nodes = [home.node for home in sent.session.homes]
    return world.lives.lost_after(nodes, -1) >= sent.stamp
