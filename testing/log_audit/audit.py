"""Judges an event log: whether each acknowledged message was delivered, in order, and with QoS 2 only once.

It finds the anomalies of docs/hazards.md that one log can show: A0 (holes in the log), A1 (lost although acknowledged),
A3 (unexpected), A4 (duplicate), A5 (QoS 2 more than once), A6 (reordered), A12 (session forgotten), A14 (wills). It
counts only certain cases. A message without an acknowledgement is never lost. A message that waits in a queue at the
end of the log is not lost either.

In a cluster a session continues at another node when its slot goes there. A clean session is owed nothing if its node
was dead, or out of the view of the publisher's node, when the message was acknowledged. A message that was
acknowledged without a lease reaches other nodes after the heal: there it is owed only to durable sessions whose
subscription is older than the split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from ...mqtt.topics import matches
from .history import Accepted, History, MessageId, Owner, Row, Sent, Session, WillCase
from .partitions import NEVER

Verdict = Literal["valid", "invalid", "unknown"]


@dataclass(frozen=True)
class Case:
    """An anomaly of one message and one session; `kind` names it."""

    kind: str
    message_id: MessageId
    client: str
    session: int
    topic: str = ""
    qos: int = 0

    def __str__(self) -> str:
        node, boot, counter = self.message_id
        what = f"message {counter} of {node} (boot {boot})"
        where = f" on {self.topic} with QoS {self.qos}" if self.topic else ""
        return f"{self.kind}: {what}{where}, for {self.client}, session {self.session}"


@dataclass
class Audit:
    """The result of an audit. Lists are in the order of the log.

    The kinds of `lost_acked` (A1) are
    stale-route: the node that accepted the message did not route it to the session;
    queue: the session's queue never had the message, or a kill removed it from the queue;
    overtaken: the session was sent a later message of the same publisher, and never this one;
    not-resent: the broker did not send the message again when the session was resumed;
    gone: the session's queue has fewer messages than the log says.

    `duplicates` (A4) are of QoS 1: the standard allows them, so they do not make a run invalid. `qos2_violations` (A5)
    do. `amnesia` (A12) has client ids, `wills` (A14) client ids and kinds, `holes` (A0) the missing parts of the log.
    """

    published: int = 0
    acked: int = 0
    delivered: int = 0
    waiting: int = 0
    """Acknowledged messages, per session, that still wait for their subscriber."""
    lost_acked: list[Case] = field(default_factory=list)
    unexpected: list[Case] = field(default_factory=list)
    duplicates: list[Case] = field(default_factory=list)
    qos2_violations: list[Case] = field(default_factory=list)
    reordered: list[Case] = field(default_factory=list)
    amnesia: list[str] = field(default_factory=list)
    wills: list[WillCase] = field(default_factory=list)
    holes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """`unknown` if the log has a hole, `invalid` if a promise was broken, else `valid`."""
        if self.holes:
            return "unknown"
        broken = (
            self.lost_acked or self.unexpected or self.qos2_violations or self.reordered or self.amnesia or self.wills
        )
        return "invalid" if broken else "valid"

    def problems(self) -> list[str]:
        """Returns a line for each anomaly, including duplicates."""
        found = [f"A0 hole in the log: {hole}" for hole in self.holes]
        found += [f"A1 lost, {case}" for case in self.lost_acked]
        found += [f"A3 unexpected, {case}" for case in self.unexpected]
        found += [f"A4 duplicate, {case}" for case in self.duplicates]
        found += [f"A5 QoS 2, {case}" for case in self.qos2_violations]
        found += [f"A6 reordered, {case}" for case in self.reordered]
        found += [f"A12 session forgotten: {client}" for client in self.amnesia]
        found += [f"A14 will {case.kind}: {case.client}" for case in self.wills]
        return found

    def __str__(self) -> str:
        counts = f"{self.published} published, {self.acked} acknowledged, {self.delivered} delivered"
        return "\n".join([f"{self.verdict}: {counts}, {self.waiting} waiting", *self.problems()])


def audit(rows: Iterable[Row], lifo: bool = False) -> Audit:
    """Judge the rows of one run, of all nodes and boots, in any order. `lifo` queues are not judged for order.

    A subscription counts from its SUBACK. A message that has entered a queue, and has no later row, counts as waiting;
    but if the log has the depth of the queue after that (q.depth), no more than so many.
    """
    history = History(rows)
    result = Audit(
        len(history.accepted),
        len(history.acked),
        len({(each.message_id, each.session.owner) for each in history.sent}),
        amnesia=[session.client for session in history.amnesia],
        wills=history.wills,
        holes=history.holes,
    )
    sends: dict[tuple[Owner, int], list[Sent]] = {}
    for each in history.sent:
        sends.setdefault((each.session.owner, each.session.number), []).append(each)
    for sessions in history.sessions.values():
        for session in sessions:
            own = sends.get((session.owner, session.number), [])
            _owed(history, session, own, lifo, result)
            _repeated(history, session, own, result)
            if not lifo:
                result.reordered += _reordered(history, session, own)
    result.lost_acked += _lost_by_groups(history)
    result.unexpected += _unexpected(history)
    return result


def _case(kind: str, message: Accepted, session: Session) -> Case:
    return Case(kind, message.message_id, session.client, session.number, message.topic, message.qos)


def _owed(history: History, session: Session, sent: list[Sent], lifo: bool, result: Audit) -> None:
    """Find A1 for one session, and count the messages that wait."""
    waiting: list[Accepted] = []
    last_sent: dict[MessageId, int] = {}
    for each in sent:
        last_sent[each.message_id] = each.place
    overtakers = _overtakers(history, sent)
    for message_id in history.acked:
        message = history.accepted.get(message_id)
        if message is None or not message.qos or not session.begun < message.place < session.ended:
            continue
        held = session.matching(message.topic, message.place)
        if not any(each.qos and each.answered < message.place for each in held):
            continue
        key = (message_id, session.owner)
        if key in history.received or key in history.given_up or session.ended < history.length:
            continue
        if (kind := _lost(history, session, message, last_sent.get(message_id), overtakers, lifo)) == "":
            result.waiting += 1
            if key in history.queued:
                waiting.append(message)
        elif kind:
            result.lost_acked.append(_case(kind, message, session))
    if session.depth is not None and session.depth < len(waiting):
        missing = len(waiting) - session.depth
        result.waiting -= missing
        # the log does not show which of them are missing: name the oldest
        result.lost_acked += [_case("gone", message, session) for message in waiting[:missing]]


def _lost(
    history: History,
    session: Session,
    message: Accepted,
    sent: int | None,
    overtakers: dict[tuple[object, ...], tuple[int, int]],
    lifo: bool,
) -> str | None:
    """Returns how an owed message was lost; "" if it waits; None if the log does not show it."""
    queued = history.queued.get((message.message_id, session.owner))
    if queued is None and sent is None:
        if message.client == session.client:
            return None  # the subscription may have No Local, which the log does not show
        return _never_queued(history, session, message)
    if queued is not None:
        place, node, boot = queued
        died = history.deaths.get((node, boot), -1) > place
        if died and not session.durable:
            return None  # a clean session ends with its node
        if died and (message.message_id, session.owner) not in history.durable and sent is None:
            return "queue"
    newer, first = overtakers.get((*message.lane, message.topic, message.qos), (-1, -1))
    if lifo or newer <= message.place:
        return ""
    if sent is None:
        return "overtaken"
    resumed = [place for place in session.resumed if sent < place < first]
    return "not-resent" if resumed else ""


def _never_queued(history: History, session: Session, message: Accepted) -> str | None:
    """As `_lost`, for a message that never entered a queue."""
    origin, acked = message.message_id[0], history.acked[message.message_id]
    if history.died(session, acked):
        return None
    if origin != session.node:
        if not session.durable and history.partitions.was_out_of_view(origin, session.node, message.place, acked):
            return None  # a clean session ends for all nodes whose view lacks its node
        alone = history.partitions.span_without_lease(origin, acked)
        if alone is not None:
            if alone[1] == NEVER:
                return ""
            known = any(held.answered < alone[0] for held in session.matching(message.topic, message.place))
            if not known or not session.durable:
                return None
    return "stale-route" if session.owner not in history.routed.get(message.message_id, ()) else "queue"


def _overtakers(history: History, sent: list[Sent]) -> dict[tuple[object, ...], tuple[int, int]]:
    """Publisher's connection, topic and QoS -> places of the newest sent message: its acceptance, its first sending."""
    found: dict[tuple[object, ...], tuple[int, int]] = {}
    for each in sent:
        message = history.accepted.get(each.message_id)
        if message is None or history.retained(each.session.owner, message):
            continue
        lane = (*message.lane, message.topic, message.qos)
        if message.place > found.get(lane, (-1, -1))[0]:
            found[lane] = (message.place, each.place)
    return found


def _repeated(history: History, session: Session, sent: list[Sent], result: Audit) -> None:
    """Find A4 and A5 for one session: messages sent again after their acknowledgement, or with another packet id."""
    first: dict[MessageId, Sent] = {}
    for each in sent:
        message = history.accepted.get(each.message_id)
        before = first.setdefault(each.message_id, each)
        if before is each or message is None or history.retained(session.owner, message):
            continue
        qos = each.qos if each.qos is not None else _delivered_qos(session, message)
        acked = any(
            before.place < place < each.place for place in history.received.get((each.message_id, session.owner), ())
        )
        if qos == 2:
            # the receiver recognises a repeated message by its packet id, until PUBREL
            if each.packet_id != before.packet_id or (acked and not each.dup):
                result.qos2_violations.append(_case("sent twice", message, session))
        elif acked:
            result.duplicates.append(_case("sent again after its acknowledgement", message, session))


def _delivered_qos(session: Session, message: Accepted) -> int:
    held = session.matching(message.topic, message.place) + session.matching(message.topic, message.place, True)
    return min(message.qos, max((each.qos for each in held), default=message.qos))


def _reordered(history: History, session: Session, sent: list[Sent]) -> Iterator[Case]:
    """Find A6 for one session: messages of one publisher's connection, topic and QoS, first sent out of order."""
    last: dict[tuple[object, ...], int] = {}
    seen: set[MessageId] = set()
    for each in sent:
        message = history.accepted.get(each.message_id)
        if message is None or each.message_id in seen:
            continue
        seen.add(each.message_id)
        if history.retained(session.owner, message):
            continue
        if not session.matching(message.topic, message.place):
            continue  # it came through a shared subscription, or through a later one
        lane = (*message.lane, message.topic, message.qos)
        if message.place < last.get(lane, -1):
            yield _case("behind a later one", message, session)
        last[lane] = max(message.place, last.get(lane, -1))


def _lost_by_groups(history: History) -> Iterator[Case]:
    """Find A1 for shared subscriptions: acknowledged messages that no member of a group with members got."""
    everybody = [session for sessions in history.sessions.values() for session in sessions]
    members = [s for s in everybody if any(held.group is not None for held in s.subscriptions)]
    reached: dict[MessageId, set[Owner]] = {}
    for message_id, owner in (*history.queued, *history.given_up):
        reached.setdefault(message_id, set()).add(owner)
    for message_id in history.acked if members else ():
        message = history.accepted.get(message_id)
        if message is None or not message.qos:
            continue
        groups: dict[tuple[str, str], list[Session]] = {}
        for session in members:
            if session.begun < message.place < session.ended and not history.died(session, message.place):
                for held in session.matching(message.topic, message.place, shared=True):
                    if held.answered >= message.place:
                        continue
                    groups.setdefault((held.group or "", held.filter), []).append(session)
        for (group, pattern), there in groups.items():
            text = f"$share/{group}/{pattern}"
            members_there = {each.owner for each in there}
            if history.partitions.span_without_lease(message_id[0], history.acked[message_id]) is not None:
                continue  # the publisher's node may have known only members on nodes that it could not reach
            if not any(owner[1] == text or owner in members_there for owner in reached.get(message_id, ())):
                yield Case("stale-route", message_id, text, 0, message.topic, message.qos)


def _unexpected(history: History) -> Iterator[Case]:
    """Find A3: delivered messages that were never accepted, or that the session has no subscription for."""
    made = history.known | history.routed.keys() | {message_id for message_id, _ in history.queued}
    for each in history.sent:
        message = history.accepted.get(each.message_id)
        session = each.session
        if message is None:
            from_before = each.message_id[1] < history.first_boot.get(each.message_id[0], 1)
            if each.message_id not in made and not from_before:
                yield Case("never accepted", each.message_id, session.client, session.number)
        elif (session.known or session.subscriptions) and not any(
            held.since < each.place and held.until > message.place and matches(held.filter, message.topic)
            for held in session.subscriptions
        ):
            yield _case("no subscription", message, session)
