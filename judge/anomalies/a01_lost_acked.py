"""A1 lost-acked: a session did not get an acknowledged message that it was owed, and nothing in the log excuses that.

A message of QoS 1 or 2 is owed to each session with a matching subscription of QoS 1 or 2, whose SUBACK left before the
node accepted the message. It ends with the subscriber's answer, with a drop or an expiry that the log has, or with the
session. A message without an acknowledgement is never lost. Of a group, `stale-route` and `queue` are found. Kinds:

- `stale-route`: the node that accepted the message did not route it to the session, or to any member of a group;
- `forward`: it was sent to the session's node, and did not arrive there;
- `queue`: the session's queue never had the message, or a kill removed it from the queue;
- `overtaken`: the session was sent a later message of the same publisher, and never this one;
- `not-resent`: the broker did not send the message again when the session was resumed;
- `gone`: the session's queue has fewer messages than the log says.

Not owed, because the log shows another end or none that is certain:

- A clean session ends with its connection, with its node, with its slot there, and for each node out of whose view its
  node is. The will of such a session may go on in its slot.
- A node without a lease forwards a message after the heal: to durable sessions that had subscribed before the split. If
  it stood still, it says late that it has no lease: for a session whose node had it out of its view before, the split
  began then. If it has had no lease since its start, the log does not show which subscriptions it knew. If it dies or
  stops before another node has the message, or in the first 5 s after that node was back in its view, the message is
  gone; also if that node had it in a queue, died before it was safe there, and had not told that it has it. So is a
  message with the mid of a slot if another node takes the slot over before: nodes take its copies from the present
  primary alone.
- A session whose slot is on its way to another node is at none. A message for it waits at the node that accepted it, as
  one for that other node does.
- A session that subscribes at a node without a lease is unknown to the others until the heal, or until the node has
  joined.
- A group is not judged if the publisher's node had no lease: all of its members may be on another side. Nor if a node
  that passed the message on had none, and its policy is `on`: it waits for no other node. A member that
  joins while the message is on its way may get it for the group. When the connection of a member ends, another one may
  get what waited for it. If the message expires for one member, the group is owed nothing more.
- A session that never got a message of its own client may have No Local, which the log does not show.
- A subscription that ends before the acknowledgement of the message: the message had perhaps not arrived by then, or a
  kill had taken it from the queue. A node without a lease whose policy is `on` does not wait for the others, so its
  message may arrive even later.

A node that has lost a durable session to another node may still have its former queue. What it enters there is not in
the session's queue.

A kill takes from a queue what the log does not call safe. But if the node that has the session then, or got it before
the kill already, acknowledges the message to its origin, and has given it to nobody since then, its disk has it, or its
copy of the slot. So has that of a node that continues the handshake of the publisher, or is the origin and had no
acknowledgement of the killed node, and gives the message to clean sessions at most. So it waits in the queue; if it
does not, it is `gone` or `overtaken` when the client is back.

A loss is judged only if the log of the session's node goes on to the acknowledgement (docs/anomalies.md#horizon), and
if no node where the session was since the message was accepted had `eventlog.level = session` from its start on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from ...cluster.identity import slot_of_origin
from ..findings import Finding, Subject, of_message
from ..lanes import Entry
from ..message import Answer, Message, Publish, Queued
from ..rows import BEFORE, LOGICAL_BITS, NEVER, Owner, RowId
from ..sessions import Held, Home, Session
from ..shares import passed_on_without_lease
from ..subscriptions import Holders
from ..world import World

ID = "A1"
FORWARDED: Final = 5_000 << LOGICAL_BITS
"""A node that has had a lease, and another one in its view, for so long, 5 s, has sent it what it had for it."""


def owed_to(message: Message, world: World, until: int = NEVER) -> Iterator[Session]:
    """Returns the sessions that an acknowledged message is owed to and that it has not reached, each once. `until`: the
    end of a session from that stamp on does not count."""
    publish = message.publish
    if publish is None or message.answer is None or not publish.qos:
        return
    seen = set()
    for holders in world.subscriptions.matching(message.mountpoint, publish.topic):
        for held in holders.at(publish.stamp) if holders.group is None else ():
            if not held.qos or held.answered >= publish.stamp or held.session in seen:
                continue
            session = world.session(held.session)
            if session.ended < until:
                continue
            owner = session.owner
            if not _stays_queued(message, session, world) and not _lasts(held, holders, _arrival(message, session)):
                continue
            seen.add(held.session)
            if session.begun < publish.stamp and owner not in message.received and owner not in message.given_up:
                yield session


def _stays_queued(message: Message, session: Session, world: World) -> bool:
    """Whether the message entered the session's queue, and no kill took it from there before it was acknowledged: the
    node routes it anew after a kill, to the subscriptions of then."""
    queued, answer = message.queued_for(session), message.answer
    assert answer is not None
    return queued is not None and not queued.stamp < world.lives.death(queued.node, queued.boot) < answer.stamp


def _arrival(message: Message, session: Session) -> int:
    """Returns until when a subscription must last to be owed an acknowledged message: until the acknowledgement, or
    until the session's node has the message, if its policy let the node that accepted it answer before that."""
    answer = message.answer
    assert answer is not None
    if answer.right != "policy":
        return answer.stamp
    return max(answer.stamp, message.steps.get((session.home_at(answer.stamp).node, "fwd.recv"), BEFORE))


def _lasts(held: Held, holders: Holders, stamp: int) -> bool:
    """Whether a subscription, and those that replace it, are in force until a stamp."""
    while held.until <= stamp:
        later = holders.of(held.session, held.until, held.until + 1)
        following = next((each for each in later if each.since == held.until), None)
        if following is None:
            return False
        held = following
    return True


def is_shown(message: Message, session: Session, world: World) -> bool:
    """Whether the log has the rows about an owed message and its session."""
    return message.publish is not None and world.shows(session, message.publish.stamp)


def fate(message: Message, session: Session, world: World, until: int = NEVER) -> str | None:
    """Returns how an owed message was lost; "" if it waits; None if the log does not show it. `until`: what a kill from
    that stamp on takes does not count."""
    publish, answer = message.publish, message.answer
    assert publish is not None and answer is not None
    queued = message.queued_for(session)
    sent = any(each.key == session.key for each in message.sent)
    if queued is None:
        if sent:
            return ""
        if publish.client == session.client:
            return None
        return _never_queued(message, publish, answer, session, world)
    died = world.lives.death(queued.node, queued.boot)
    if not queued.stamp < died < until:
        return ""
    if not session.durable:
        return None
    left = session.left_at(queued.node, queued.stamp)
    if session.owner in message.safe or _is_there_after(min(left, died), message, session, world):
        return ""
    if _died_with_its_origin(publish, answer, queued, message, world):
        return None
    return "" if sent else "queue"


def _is_there_after(left: int, message: Message, session: Session, world: World) -> bool:
    """Whether the node that had the session since a stamp acknowledged the message then, and gave it to nobody: what it
    remembers of messages is on the disk together with their entries in queues. `left`: another node was killed, or lost
    the session to this one."""
    return _continued(left, message, session, world) or any(
        left < stamp and session.home_at(stamp).node == node and message.steps.get((node, "pub.route"), BEFORE) < left
        for (node, kind), stamp in message.steps.items()
        if kind == "fwd.ack"
    )


def _continued(left: int, message: Message, session: Session, world: World) -> bool:
    """Whether the message waits on the disk of the node that has the session since a kill, or since the session
    left the node that was killed later.

    That node must have answered the publisher after that: it continued the handshake, or it is the origin and had
    waited for the answer of the killed node. It must have given the message to clean sessions at most. They have ended
    by then, so the present ones lack it.
    """
    answer, killed = message.answer, message.queued[session.owner].node
    if answer is None or session.home_at(answer.stamp).node != answer.node:
        return False
    waited = answer.node != killed and (killed, "fwd.ack") not in message.steps
    if answer.stamp < left or (not waited and message.steps.get((answer.node, "pub.recv"), BEFORE) < left):
        return False
    later = ((owner, each) for owner, each in message.queued.items() if each.node == answer.node and left < each.stamp)
    given = [world.session_at(owner, each.stamp) for owner, each in later]
    return not any(each is None or each.durable for each in given)


def _died_with_its_origin(publish: Publish, answer: Answer, queued: Queued, message: Message, world: World) -> bool:
    """Whether the node that accepted a message without a lease has died, too, so that nobody sends it again to the node
    whose queue has lost it."""
    if answer.right != "policy" or queued.node == publish.node or (queued.node, "fwd.ack") in message.steps:
        return False
    return answer.stamp < world.lives.death(publish.node, publish.row[1]) < NEVER


def _never_queued(message: Message, publish: Publish, answer: Answer, session: Session, world: World) -> str | None:
    acked = answer.stamp
    if world.died(session, acked):
        return None
    origin, home = publish.node, session.home_at(acked).node
    if origin == home and session.owner not in message.routed:
        home = world.slots.next_home(home, session.slot, acked)  # the message waits until the slot has arrived there
    if origin != home:
        if _is_on_another_side(message, publish, answer, session, home, world):
            return None
        alone = world.partitions.span_without_lease(origin, acked)
        if alone is not None and alone[1] == NEVER:
            return ""
    if session.owner in message.routed:
        return "queue"
    on_the_link = (home, "fwd.send") in message.steps and (home, "fwd.recv") not in message.steps
    return "forward" if on_the_link else "stale-route"


def _is_on_another_side(
    message: Message, publish: Publish, answer: Answer, session: Session, home: str, world: World
) -> bool:
    """Whether a netsplit excuses that a session did not get a message. `home`: the node that has it, or will."""
    acked, origin = answer.stamp, publish.node
    if _is_out_of_view(session, publish, answer, world):
        return True
    apart = _without_lease_since(session.home_at(acked), publish.stamp, world)
    if apart is not None and not _had_subscribed(message, publish, session, apart, world):
        return True
    alone = world.partitions.span_without_lease(origin, acked)
    if answer.right == "policy":
        end = world.lives.last_sign(origin, publish.row[1])
        slot = slot_of_origin(message.id[0])
        if slot >= 0:  # the other nodes take its copies from the present primary of the slot alone
            end = min(end, world.slots.taken_after(origin, slot, publish.stamp))
        if end < NEVER and not _had_time(origin, home, acked, end, world):
            return True
        if not world.had_lease(answer.row, acked):
            return True
        if alone is None:  # it got a lease before its acknowledgement left
            alone = world.partitions.span_without_lease(origin, publish.stamp)
    if alone is None or alone[1] == NEVER:
        return False
    split = min(alone[0], world.partitions.out_of_view_since(home, origin, publish.stamp))
    return not session.durable or not _had_subscribed(message, publish, session, split, world)


def _had_time(origin: str, home: str, begin: int, end: int, world: World) -> bool:
    """Whether a node has had a lease, and another one in its view, long enough to send it what it had accepted."""
    spans = world.views.spans(origin, home) or [(begin, end)]
    return any(
        world.partitions.had_for(origin, max(begin, entered), min(left, end), FORWARDED, end) for entered, left in spans
    )


def _without_lease_since(home: Home, stamp: int, world: World) -> int | None:
    """Returns since when the node of a session had no lease at a stamp: since it saw a minority, or since its start if
    it has had none yet. None if it had one, or does not say that it saw a minority."""
    boot = world.lives.boots.get((home.node, home.boot))
    if boot is not None and world.partitions.had_none_between(home.node, boot.first_hlc, stamp):
        return boot.first_hlc
    apart = world.partitions.span_without_lease(home.node, stamp)
    return None if apart is None else apart[0]


def _is_out_of_view(session: Session, publish: Publish, answer: Answer, world: World) -> bool:
    """Whether a clean session has ended for the node that accepted a message."""
    origin, home = publish.node, session.home_at(answer.stamp).node
    away = origin != home and world.partitions.was_out_of_view(origin, home, publish.stamp, answer.stamp)
    return away and not session.durable


def _had_subscribed(message: Message, publish: Publish, session: Session, before: int, world: World) -> bool:
    return any(
        held.answered < before
        for holders in world.subscriptions.matching(message.mountpoint, publish.topic)
        if holders.group is None
        for held in holders.of(session.key, publish.stamp, publish.stamp)
    )


def finding_of(kind: str, message: Message, session: Session, world: World) -> Finding | None:
    """Returns the finding that an owed message was lost; None if the logs do not go far enough to tell."""
    publish, answer = message.publish, message.answer
    assert publish is not None and answer is not None
    if not world.knows(session, answer.stamp):
        return None
    until = answer.stamp if message.queued_for(session) is None else NEVER
    sure = world.doubt(session, publish.stamp) >= until
    return _of_message(kind, message, session.owner, session.number, sure)


def judge_groups(message: Message, world: World) -> Iterator[Finding | None]:
    """Find an acknowledged message that no member of a group with members got or kept. Yields None for a group that the
    logs do not tell enough about."""
    publish, answer = message.publish, message.answer
    if publish is None or answer is None or not publish.qos:
        return
    for holders in world.subscriptions.matching(message.mountpoint, publish.topic):
        if holders.group is None:
            continue
        if _reached(message, publish, holders, world):
            lost = _lost_by_members(message, holders, world)
            if lost:
                sure = all(world.doubt(each, publish.stamp) == NEVER for each in lost)
                yield _of_message("queue", message, ("", message.mountpoint, holders.text), 0, sure)
            continue
        answered = (
            held.session
            for held in holders.at(publish.stamp)
            if held.answered < publish.stamp
            and _lasts(held, holders, answer.stamp)
            and not _is_unknown_elsewhere(held, publish, answer, world)
        )
        members = [
            session
            for session in map(world.session, answered)
            if answer.stamp < session.ended
            and not world.died(session, answer.stamp)
            and not _is_out_of_view(session, publish, answer, world)
        ]
        if not members or world.partitions.span_without_lease(publish.node, answer.stamp) is not None:
            continue
        if answer.right == "policy" and not world.had_lease(answer.row, answer.stamp):
            continue
        if passed_on_without_lease(message, publish, answer, world):
            continue
        if all(world.knows(each, answer.stamp) and world.shows(each, publish.stamp) for each in members):
            sure = all(world.doubt(each, publish.stamp) >= answer.stamp for each in members)
            yield _of_message("stale-route", message, ("", message.mountpoint, holders.text), 0, sure)
        else:
            yield None


def _is_unknown_elsewhere(held: Held, publish: Publish, answer: Answer, world: World) -> bool:
    """Whether a subscription was answered by another node than that of the publisher while it had no lease."""
    home = world.session(held.session).home_at(answer.stamp)
    apart = None if home.node == publish.node else _without_lease_since(home, publish.stamp, world)
    return apart is not None and held.answered >= apart


def _reached(message: Message, publish: Publish, holders: Holders, world: World) -> bool:
    if holders.text in message.groups:
        return True
    return _is_of(holders, (*message.queued, *message.given_up), publish, world)


def _is_of(holders: Holders, owners: Iterable[Owner], publish: Publish, world: World) -> bool:
    """Whether one of the owners is the group itself, or perhaps a member of it."""
    for owner in owners:
        if owner[2] == holders.text:
            return True
        session = world.session_at(owner, publish.stamp)
        if session is not None and any(holders.perhaps_of(session.key, publish.stamp, publish.stamp)):
            return True
    return False


def _lost_by_members(message: Message, holders: Holders, world: World) -> list[Session]:
    """Returns the members that were chosen, if a kill took the message from the queues of all of them; else nothing.
    When the connection of a member ends, its node may give the message to another one, and the log does not say so.
    If another node has taken the slot over, it may choose a member whose message has expired by then."""
    publish, answer, lost, group = message.publish, message.answer, [], holders.text
    assert publish is not None and answer is not None
    if answer.right == "policy" or group not in message.groups or _is_of(holders, message.given_up, publish, world):
        return []
    for owner, queued in message.queued.items():
        if all(group != each for each, _, _ in queued.entries):
            continue
        session = world.session_at(owner, queued.stamp)
        if session is None or not session.durable or session.ended < NEVER or not is_shown(message, session, world):
            return []
        ended = owner in message.received or owner in message.given_up or message.queued_for(session) is None
        if ended or not world.knows(session, answer.stamp) or fate(message, session, world) != "queue":
            return []
        died = world.lives.death(queued.node, queued.boot)
        if any(queued.stamp < each.closed < died for each in world.online_between(owner, queued.stamp, died)):
            return []
        lost.append(session)
    return lost


class Lane:
    """What one session was sent, or is owed, of one lane. It remembers the newest message that was sent."""

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: Entry | None = None

    def judge(self, entry: Entry) -> Finding | None:
        """Judge the next entry, whether it is lost; the last accepted one comes first."""
        newest = self._newest
        if newest is None:
            if entry.first_sent >= 0:
                self._newest = entry
            return None
        if not entry.owed or entry.accepted == newest.accepted or not (entry.queued or entry.last_sent >= 0):
            return None
        if entry.last_sent < 0:
            return _of_entry("overtaken", entry, (*entry.rows, *newest.rows), newest.first_sent)
        if entry.resumed < newest.first_sent:
            return _of_entry("not-resent", entry, (*entry.rows, *newest.rows), newest.first_sent)
        return None


def judge_queue(waiting: Iterable[Entry], depth: tuple[int, int], newest_queued: int) -> Iterator[Finding | Entry]:
    """Judge what waits in one session's queue, the last acknowledged first, by its last q.depth (stamp and count) and
    the stamp of its last q.enq. Yields what is gone, and entries that still wait.

    The depth counts if nothing has entered the queue since. The log does not show which messages are missing then: the
    oldest are named.
    """
    stamp, count = depth
    there = 0
    for each in waiting:
        there += each.queued
        if stamp > newest_queued and each.queued and there > count:
            yield _of_entry("gone", each, each.rows, stamp)
        else:
            yield each


def _of_entry(kind: str, entry: Entry, rows: tuple[RowId, ...], until: int) -> Finding:
    owner, number = entry.session
    *_, topic, qos = entry.lane
    subject = Subject.of(owner, number, entry.message)
    found = of_message(ID, kind, "fatal", subject, (entry.accepted, topic, qos), rows)
    return replace(found, sure=entry.doubt >= until)


def _of_message(kind: str, message: Message, owner: Owner, session: int, sure: bool) -> Finding:
    publish, answer = message.publish, message.answer
    assert publish is not None and answer is not None
    what = publish.stamp, publish.topic, publish.qos
    subject = Subject.of(owner, session, message.id)
    return replace(of_message(ID, kind, "fatal", subject, what, (publish.row, answer.row)), sure=sure)
