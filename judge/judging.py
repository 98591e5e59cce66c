"""The judges of one message, lane, queue, topic, client, boot and run: all anomalies that share their rows.

Everything that decides about a log calls these functions, with rows that it has grouped by their key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from .anomalies import (
    a00_log_hole,
    a01_lost_acked,
    a02_early_ack,
    a03_unexpected,
    a04_duplicate,
    a05_qos2_violation,
    a06_reorder,
    a07_stranded,
    a08_stall,
    a09_recovered,
    a10_double_owner,
    a11_takeover_hang,
    a12_session_amnesia,
    a13_session_zombie,
    a14_will,
    a15_retained_divergence,
    a16_retained_stale,
    a17_sub_lag,
    a18_unsubscribe_undone,
    a19_policy_breach,
    a20_split_incident,
    a21_minority_ack,
    a22_non_convergence,
    a23_sync_exposure,
    a24_post_restart_loss,
)
from .anomalies.a00_log_hole import Stretch
from .anomalies.a16_retained_stale import Retained
from .findings import Finding
from .lanes import Entry
from .message import Message, Publish
from .rows import NEVER, MessageId, Owner, Row
from .sessions import Session, SessionKey
from .world import World


@dataclass(slots=True)
class Judged:
    """What one message leads to: findings, and entries to be judged by lane. `queued` has the stamp of its last
    q.enq for each session. `retained` is to be judged by topic. `without_lease`: where it was acknowledged without
    a lease. `exposed`: where a loss of power could have taken it. `open`: sessions and groups for which the logs
    end too early to tell whether it is lost."""

    findings: list[Finding]
    entries: list[Entry]
    queued: dict[SessionKey, int]
    retained: list[Retained]
    without_lease: list[a21_minority_ack.Place]
    exposed: list[a23_sync_exposure.Place]
    published: bool
    acked: bool
    delivered: int
    open: int
    waits: list[a08_stall.Wait] = field(default_factory=list)


def judge_message(message_id: MessageId, rows: Iterable[Row], world: World) -> Judged:
    """Judge all rows with one message id."""
    message = Message(message_id, rows, world)
    findings: list[Finding] = []
    owed: list[Session] = []
    losses: list[Finding | None] = []
    for session in a01_lost_acked.owed_to(message, world):
        if not a01_lost_acked.is_shown(message, session, world):
            losses.append(None)
            continue
        kind = a01_lost_acked.fate(message, session, world)
        if kind:
            losses.append(a01_lost_acked.finding_of(kind, message, session, world))
        elif kind == "":
            owed.append(session)
    losses += a01_lost_acked.judge_groups(message, world)
    findings += [each for each in losses if each is not None]
    findings += a02_early_ack.judge(message, world)
    findings += a19_policy_breach.judge(message, world)
    without_lease = []
    for found in a21_minority_ack.judge(message, world):
        if isinstance(found, Finding):
            findings.append(found)
        else:
            without_lease.append(found)
    findings += _of_sendings(message, world)
    queued = {}
    for owner, each in message.queued.items():
        session_then = world.session_at(owner, each.stamp)
        if session_then is not None and message.queued_for(session_then) is not None:
            queued[session_then.key] = each.stamp
    return Judged(
        findings=findings,
        entries=_entries(message, owed, world),
        queued=queued,
        retained=list(a16_retained_stale.of_message_rows(message)) if message.retained or message.brought else [],
        without_lease=without_lease,
        exposed=list(a23_sync_exposure.judge(message)),
        published=message.publish is not None,
        acked=message.answer is not None,
        delivered=len({each.owner for each in message.sent}),
        open=losses.count(None),
        waits=list(a08_stall.waits(message, world)) if message.queued else [],
    )


def _of_sendings(message: Message, world: World) -> Iterator[Finding]:
    if not message.sent:
        return
    for unexpected in a03_unexpected.judge(message, world):
        yield unexpected
        yield from a18_unsubscribe_undone.judge(message, unexpected, world)
    yield from a09_recovered.judge(message, world)
    if len(message.sent) > len(message.sendings):
        yield from a04_duplicate.judge(message, world)
        yield from a05_qos2_violation.judge(message, world)


def _entries(message: Message, owed: Iterable[Session], world: World) -> list[Entry]:
    """Returns the entries of a message that a node accepted."""
    publish = message.publish
    waiting = {session.key: session for session in owed}
    if publish is None or not (waiting or message.sent):
        return []
    proof = (publish.row,) if message.answer is None else (publish.row, message.answer.row)
    acked = -1 if message.answer is None else message.answer.stamp
    entries = []
    for key in dict.fromkeys((*message.sendings, *waiting)):
        sent = message.sendings.get(key, [])
        retained = message.was_retained_for(key[0])
        last = sent[-1].stamp if sent else -1
        entries.append(
            Entry(
                session=key,
                lane=publish.lane,
                message=message.id,
                accepted=publish.stamp,
                acked=acked,
                first_sent=sent[0].stamp if sent and not retained else -1,
                last_sent=last,
                ordered=bool(sent) and _is_ordered(message, publish, key, world),
                lifo=bool(sent) and world.setting(sent[0].row[0], "queue_type", sent[0].stamp) == "lifo",
                owed=key in waiting,
                queued=key in waiting and message.queued_for(waiting[key]) is not None,
                resumed=waiting[key].resumed_after(last) if key in waiting else NEVER,
                doubt=world.doubt(waiting[key], publish.stamp) if key in waiting else NEVER,
                rows=(*proof, *(each.row for each in sent[:1])),
                repeated=publish.repeated,
            )
        )
    return entries


def _is_ordered(message: Message, publish: Publish, key: SessionKey, world: World) -> bool:
    """Whether the session had a subscription of its own, not as a member of a group, when the message was accepted. A
    message that was dropped is sent late if a kill undoes that."""
    session = message.sendings[key][0].session
    if session is not None and not world.shows(session, publish.stamp):
        return False  # its first sending may have no row
    if key[0] in message.given_up:
        return False
    for holders in world.subscriptions.matching(message.mountpoint, publish.topic):
        if holders.group is None and any(holders.of(key, publish.stamp, publish.stamp)):
            return True
    return False


def judge_lane(entries: Iterable[Entry], lifo: bool = False) -> Iterator[Finding | Entry]:
    """Judge all entries of one session and one lane, in `lane_order`. Yields findings, and the entries that wait in
    the queue.

    `lifo`: the queue gives the newest message first, whatever the log says.
    """
    order, losses = a06_reorder.Lane(), a01_lost_acked.Lane()
    for each in entries:
        lifo = lifo or each.lifo
        lost = None
        if not lifo:
            behind = order.judge(each)
            if behind is not None:
                yield behind
            lost = losses.judge(each)
        if lost is not None:
            yield lost
        elif each.owed:
            yield each


def judge_sendings(entries: Iterable[Entry], world: World) -> Iterator[Finding]:
    """Judge all entries of one session that were sent, of all lanes, in `sending_order`."""
    session = a07_stranded.Session(world)
    for each in entries:
        found = session.judge(each)
        if found is not None:
            yield found


def judge_queue(
    session: SessionKey, waiting: Iterable[Entry], newest_queued: int, world: World
) -> Iterator[Finding | Entry]:
    """Judge what waits in the queue of one session, in `queue_order`; `newest_queued` is the stamp of its last q.enq,
    -1 without one. Yields findings, and the entries that still wait."""
    owner, number = session
    depth = world.sessions[owner][number - 1].depth if number else (-1, 0)
    return a01_lost_acked.judge_queue(waiting, depth, newest_queued)


def judge_topic(retained: Iterable[Retained], world: World) -> Iterator[Finding]:
    """Judge all retained messages of one topic of one mountpoint, in the order of `Retained.due`."""
    return a16_retained_stale.judge(retained, world)


RETAINED_TYPES: Final = a15_retained_divergence.TYPES
"""The types of rows that are judged by mountpoint and topic."""


def judge_retained(rows: Iterable[Row], world: World) -> Iterator[Finding]:
    """Judge what all nodes keep as the retained message of one topic of one mountpoint. The rows come in any order."""
    return a15_retained_divergence.judge(rows, world)


CLIENT_TYPES: Final = a10_double_owner.TYPES | a11_takeover_hang.TYPES | a14_will.TYPES
"""The types of rows that are judged by client."""


def judge_client(rows: Sequence[Row], world: World) -> Iterator[Finding]:
    """Judge the rows of one client (its connections, sessions and wills) on all nodes."""
    yield from a10_double_owner.judge(rows, world)
    yield from a11_takeover_hang.judge(rows, world)
    yield from a14_will.judge(rows, world)


CONNECTION_TYPES: Final = a08_stall.TYPES
"""The types of rows that are judged by node, boot and connection."""


def judge_connection(steps: Iterable[a08_stall.Wait | Row], world: World) -> Iterator[Finding]:
    """Judge a connection that messages have waited long for: these first, in the order of `begin`, then its rows in the
    order of `seq`."""
    return a08_stall.judge(steps, world)


WRITE_TYPES: Final = a17_sub_lag.TYPES
"""The types of rows that are judged by the boot that has written into the replicated map, if they name a write."""


def judge_writes(rows: Iterable[Row], world: World) -> Iterator[Finding]:
    """Judge how soon other nodes learn of what one boot has written, in `a17_sub_lag.order`."""
    return a17_sub_lag.judge(rows, world)


COMPARISON_TYPES: Final = a22_non_convergence.TYPES
"""The types of rows that are judged by the node that has asked for a comparison of maps."""


def judge_comparisons(rows: Iterable[Row], world: World) -> Iterator[Finding]:
    """Judge the comparisons that one node has asked for, in `a22_non_convergence.order`."""
    return a22_non_convergence.judge(rows, world)


def judge_sessions(owner: Owner, world: World) -> Iterator[Finding]:
    """Judge the sessions that a client began at one node."""
    yield from a12_session_amnesia.judge(world.sessions.get(owner, ()), world)
    yield from a13_session_zombie.judge(world.sessions.get(owner, ()))


def judge_boot(stretches: Iterable[Stretch], world: World) -> Iterator[Finding]:
    """Judge whether the log has all rows of a boot. `stretches` are all of them, in the order of `seq`."""
    return a00_log_hole.judge(stretches, world)


def judge_refusals(rows: Iterable[Row], world: World) -> Iterator[Finding]:
    """Judge rows of policy.deny, each alone."""
    return a19_policy_breach.judge_refusals(rows, world)


def judge_cluster(
    without_lease: Mapping[a21_minority_ack.Place, int],
    exposed: Mapping[a23_sync_exposure.Place, int],
    world: World,
) -> Iterator[Finding]:
    """Judge the run: its incidents, and the counts of what `Judged` has of its messages."""
    yield from a00_log_hole.judge_run(world)
    yield from a20_split_incident.judge(world)
    yield from a21_minority_ack.counted(without_lease.items())
    yield from a23_sync_exposure.counted(exposed.items())
    yield from a24_post_restart_loss.judge(world)
