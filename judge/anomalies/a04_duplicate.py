"""A4 duplicate: a message with QoS 1 was sent to a session again, although the session had acknowledged it.

The standard allows it, so it is counted and breaks no promise. One of the sendings may have had QoS 2, if the client
changed its subscription. A message that the session got as a retained one may come once for each SUBSCRIBE, and one of
groups more than once (`judge/shares.py`): that is no duplicate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..findings import Finding, Severity, Subject, of_message
from ..message import Message, Sent
from ..sessions import SessionKey
from ..shares import times_owed
from ..world import World

ID = "A4"
KIND = "sent again after its acknowledgement"


def judge(message: Message, world: World) -> Iterator[Finding]:
    """Judge what was sent to each session; at most one finding for each, with all sendings."""
    for key, sent in repeated(message):
        again = sum(answered_between(message, key, *two) for two in pairwise(sent))
        exact = all(granted_qos(message, each, world) == 2 for each in sent)
        if not exact and again >= times_owed(message, key[0], sent[0], world):
            yield finding_of(ID, KIND, "info", message, key)


def repeated(message: Message) -> Iterator[tuple[SessionKey, Sequence[Sent]]]:
    """Yields each session that a message was sent to more than once, with all sendings. A session that may have got it
    as a retained message is left out, and so is what came to nobody."""
    if message.publish is None:
        return
    for key, every in message.sendings.items():
        sent = [each for each in every if not _came_to_nobody(each)]
        if len(sent) > 1 and not message.was_retained_for(key[0]):
            yield key, sent


def finding_of(anomaly: str, kind: str, severity: Severity, message: Message, key: SessionKey) -> Finding:
    """Returns the finding about a repeated message and one session. All sendings prove it."""
    publish, sent = message.publish, message.sendings[key]
    assert publish is not None
    what = publish.stamp, publish.topic, publish.qos
    subject = Subject.of(*key, message.id)
    return of_message(anomaly, kind, severity, subject, what, tuple(each.row for each in sent))


def answered_between(message: Message, key: SessionKey, first: Sent, later: Sent) -> bool:
    """Whether the subscriber answered between two sendings."""
    return any(first.stamp < stamp < later.stamp for stamp in message.received.get(key[0], ()))


def _came_to_nobody(sent: Sent) -> bool:
    """Whether a node that stood still sent the message to a former connection: the client had resumed its session at
    the next primary before."""
    session = sent.session
    if session is None or not session.durable:
        return False
    home = session.home_at(sent.stamp)
    return home.node != sent.row[0] and session.resumed_after(home.since) < sent.stamp


def granted_qos(message: Message, sent: Sent, world: World) -> int:
    """Returns the QoS of a sending. Where the row does not say, it is what the session's subscriptions grant."""
    if sent.qos is not None:
        return sent.qos
    publish = message.publish
    assert publish is not None
    granted = [
        held.qos
        for holders in world.subscriptions.matching(message.mountpoint, publish.topic)
        for held in holders.of(sent.key, publish.stamp, publish.stamp)
    ]
    return min(publish.qos, max(granted, default=publish.qos))
