"""A2 early-ack: the publisher got its acknowledgement before what it stands for was done.

- `disk`: the message had entered the queue of a durable session, and was safe there only after the acknowledgement;
- `queue`: it entered the queue of a session that it was owed to only after the acknowledgement.

Not judged are acknowledgements without a lease, whose other side gets the messages after the heal, messages of a group
that a node has passed on without a lease because its policy is `on`, and sessions whose
node had died, was out of the publisher's view, or was just getting the session from another node. A node that stood
still may say only later that the message is safe there; if another node has the session by then, that one has answered.
The same holds if the session had ended before the acknowledgement: its queue has ended with it.
Nobody waits for a disk that the cluster has given up. If a group has chosen another member later, the message must be
safe there alone.
A node that did not write the rows of messages may have had the message in its queue before.
If a slot moved with an open handshake of QoS 2, the next primary of some former versions answered under an id with its
own name, which may be that of another message: an acknowledgement from before the PUBLISH, or to another client, is not
of this one.
Logs before version 5 of the schema do not order rows of different nodes well enough.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..findings import Finding, Subject, of_message
from ..message import Answer, Message, Publish, Queued
from ..rows import Owner, RowId
from ..shares import passed_on_without_lease
from ..world import World

ID = "A2"


def judge(message: Message, world: World) -> Iterator[Finding]:
    """Judge the answer to a publisher against each queue; at most one finding for each session."""
    publish, answer = message.publish, message.answer
    if publish is None or answer is None or answer.right in ("", "policy"):
        return
    for owner, queued in message.queued.items():
        stored = message.safe.get(owner)
        if queued.first < answer.stamp:
            if stored is None or stored.stamp <= answer.stamp:
                continue
            given_up = world.was_given_up(queued.node, queued.boot, answer.stamp)
            replaced = _is_safe_at_a_later_member(message, answer, queued)
            grouped = all(group for group, _, _ in queued.entries)
            by_policy = grouped and passed_on_without_lease(message, publish, answer, world)
            if not (given_up or replaced or by_policy or _is_gone(publish, answer, owner, queued, world)):
                yield _finding("disk", message, publish, owner, (answer.row, stored.row), world)
        elif _must_have_waited(message, publish, answer, owner, queued, world):
            yield _finding("queue", message, publish, owner, (answer.row, queued.row), world)


def _is_safe_at_a_later_member(message: Message, answer: Answer, queued: Queued) -> bool:
    """Whether each group that had chosen the session has chosen another one later, which had it safe in time."""
    later = {
        group
        for owner, other in message.queued.items()
        if other.first > queued.first and owner in message.safe and message.safe[owner].stamp <= answer.stamp
        for group, _, _ in other.entries
        if group
    }
    return later.issuperset(group for group, _, _ in queued.entries)


def _is_gone(publish: Publish, answer: Answer, owner: Owner, queued: Queued, world: World) -> bool:
    """Whether the session had ended, or another node had got it, between the queue and the acknowledgement."""
    session = world.session_at(owner, publish.stamp)
    if session is None:
        return False
    return session.ended < answer.stamp or session.home_at(queued.first) is not session.home_at(answer.stamp)


def _must_have_waited(
    message: Message, publish: Publish, answer: Answer, owner: Owner, queued: Queued, world: World
) -> bool:
    session = world.session_at(owner, publish.stamp)
    if session is None or owner in message.brought or owner in message.given_up:
        return False
    if not world.shows(session, publish.stamp):
        return False
    home = session.home_at(publish.stamp)
    if home is not session.home_at(queued.first) or world.lives.had_died(home.node, home.boot, queued.first):
        return False
    if world.partitions.was_out_of_view(publish.node, home.node, publish.stamp, answer.stamp):
        return False
    return any(
        held.qos and held.answered < publish.stamp
        for holders in world.subscriptions.matching(message.mountpoint, publish.topic)
        if holders.group is None
        for held in holders.of(session.key, publish.stamp, publish.stamp)
    )


def _finding(
    kind: str, message: Message, publish: Publish, owner: Owner, rows: tuple[RowId, ...], world: World
) -> Finding:
    session = world.session_at(owner, publish.stamp)
    subject = Subject.of(owner, 0 if session is None else session.number, message.id)
    return of_message(ID, kind, "fatal", subject, (publish.stamp, publish.topic, publish.qos), rows)
