"""What a cluster's operator is told while the log still grows: alerts.

An audit judges a log that has ended. An alert is what can be said earlier, some seconds after it happened:

- `loss`: an acknowledged message that a connected session is owed was not delivered within `late_ms`. The kinds of
  anomaly A1 are broken promises, and `judge/anomalies/a01_lost_acked.py` decides them. `waits` is no broken promise
  yet: messages wait in the queue of a connected client, and were not sent to it. What a node without a lease
  acknowledged is not judged: others get it after the heal.
- `slow`: a connected client did not answer messages within `slow_ms`.
- `storm`: more connections of a client, or at a node, in a minute than the limit.
- `drops`: a node dropped messages for a reason in a minute.
- `split`: a node does not see the whole cluster (A20).

Alerts of one client, node or reason are counted by minute. The id of an alert depends on what it says and not on when
it was found: the same log gives the same ids, however often and in whatever parts it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, NamedTuple

from .anomalies import a01_lost_acked, a20_split_incident
from .findings import Finding, Severity, Subject, finding_id
from .message import Answer, Message
from .presence import Presence
from .rows import LOGICAL_BITS, MessageId, Owner, Row, RowId, ms_of, row_id
from .world import World

LOSS, SLOW, STORM, DROPS, SPLIT = "loss", "slow", "storm", "drops", "split"
WAITS: Final = "waits"
OF_CLIENT, OF_NODE = "client", "node"
"""Kinds of storms."""
MINUTE_MS: Final = 60_000
DROP_TYPES: Final = frozenset(("q.drop", "q.expire", "fwd.drop", "ret.refuse"))
"""The types of rows that say that something was dropped: `drop_reason` says why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on something is told. A number of 0 tells nothing of that kind."""

    late_ms: int = 30_000
    """So long after its acknowledgement a message must have been sent."""
    slow_ms: int = 10_000
    """So long after it was sent a message must have been answered; at most `late_ms`."""
    storm_client: int = 20
    """Connections of a client in a minute."""
    storm_node: int = 1000
    """Connections at a node in a minute."""
    drops: int = 1
    """Messages that a node drops in a minute for one reason."""


class Minute(NamedTuple):
    """What is counted together: `alert` and `kind`, whom it concerns, and the minute (ms since 1970)."""

    run_id: str
    alert: str
    kind: str
    node: str
    mountpoint: str
    client: str
    begin_ms: int


class Hit(NamedTuple):
    """One thing that counts for a minute, with a row that shows it."""

    minute: Minute
    at: int
    row: RowId


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. `at` is the stamp where it shows, `text` is for people, `rows` show it. `number`: how often, or for a
    split the Window of Uncertainty in ms."""

    run_id: str
    alert: str
    kind: str
    severity: Severity
    subject: Subject
    at: int
    text: str
    rows: tuple[RowId, ...] = ()
    number: int = 1

    @property
    def id(self) -> str:
        """16 hexadecimal digits."""
        words = f"{self.run_id}\0{finding_id(self.alert, self.kind, self.subject)}"
        return blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def minute_of(stamp: int) -> int:
    """Returns the begin of the minute of a stamp, in ms since 1970."""
    ms = ms_of(stamp)
    return ms - ms % MINUTE_MS


def drop_reason(row: Row) -> str:
    """Returns why something was dropped, according to a row of `DROP_TYPES`."""
    return "expired" if row["type"] == "q.expire" else row["reason"]


def hits_of(row: Row) -> Iterator[Hit]:
    """Returns what a row alone counts for: connections and drops."""
    kind, node, at = row["type"], row["node"], row["hlc"]
    if kind == "conn.open":
        whose = row.get("mountpoint") or "", row["client"]
        yield Hit(Minute(row["run_id"], STORM, OF_CLIENT, "", *whose, minute_of(at)), at, row_id(row))
        yield Hit(Minute(row["run_id"], STORM, OF_NODE, node, "", "", minute_of(at)), at, row_id(row))
    elif kind in DROP_TYPES:
        yield Hit(Minute(row["run_id"], DROPS, drop_reason(row), node, "", "", minute_of(at)), at, row_id(row))


def judge_minute(minute: Minute, number: int, at: int, row: RowId, limits: Limits) -> Iterator[Alert]:
    """Judge what was counted in a minute that is over. `at` and `row` are the first hit."""
    least = {
        (STORM, OF_CLIENT): limits.storm_client,
        (STORM, OF_NODE): limits.storm_node,
    }.get((minute.alert, minute.kind), limits.drops if minute.alert == DROPS else 1)
    if not least or number < least:
        return
    text = _TEXTS[minute.alert].format(number=number, **minute._asdict(), **_seconds(limits))
    severity: Severity = "error" if minute.alert == LOSS else "info"
    subject = Subject(minute.node, minute.mountpoint, minute.client, detail=str(minute.begin_ms))
    yield Alert(minute.run_id, minute.alert, minute.kind, severity, subject, at, text, (row,), number)


_TEXTS: Final = {
    STORM: "{number} connections of {kind} {client}{node} in a minute",
    DROPS: "{node} dropped {number} messages in a minute: {kind}",
    LOSS: "{number} acknowledged messages waited for {client} longer than {late_s:g} s, though it is connected",
    SLOW: "{client} did not answer {number} messages within {slow_s:g} s, though it is connected",
}


def _seconds(limits: Limits) -> dict[str, float]:
    return {"late_s": limits.late_ms / 1000, "slow_s": limits.slow_ms / 1000}


def judge_splits(world: World, rows: Iterable[Row], run_id: str) -> Iterator[Alert]:
    """Returns the incidents whose detection is among these rows."""
    detected = {(row["node"], row["hlc"]) for row in rows if row["type"] == "split.detect"}
    for found in a20_split_incident.judge(world):
        if (found.subject.node, found.at) in detected:
            text = f"{found.subject.node} does not see the whole cluster: {found.subject.detail}, {found.value} ms late"
            yield Alert(run_id, SPLIT, "detected", "error", found.subject, found.at, text, found.rows[:1], found.value)


def due_ms(row: Row, limits: Limits) -> int | None:
    """Returns when a message is judged (ms since 1970), if this row is its acknowledgement; None for other rows."""
    if row["type"] != "pub.ack" or (row.get("code") or 0) >= 0x80:
        return None
    return ms_of(row["hlc"]) + limits.late_ms


def judge_message(
    run_id: str, message_id: MessageId, rows: Iterable[Row], world: World, presence: Presence, limits: Limits
) -> Iterator[Alert | Hit]:
    """Judge a message whose acknowledgement is `late_ms` old, from the rows up to then."""
    message = Message(message_id, rows, world)
    publish, answer = message.publish, message.answer
    if publish is None or answer is None or not publish.qos:
        return
    end = answer.stamp + (limits.late_ms << LOGICAL_BITS)
    if world.partitions.span_without_lease(publish.node, answer.stamp) is None:  # else others get it after the heal
        yield from _undelivered(run_id, message, answer, world, presence, end)
    yield from _unanswered(run_id, message, presence, end, limits)


def _undelivered(
    run_id: str, message: Message, answer: Answer, world: World, presence: Presence, end: int
) -> Iterator[Alert | Hit]:
    for session in a01_lost_acked.owed_to(message, world, end):
        if not presence.throughout(session.owner, answer.stamp, end):
            continue
        if not a01_lost_acked.is_shown(message, session, world):
            continue
        kind = a01_lost_acked.fate(message, session, world, end)
        if kind:
            found = a01_lost_acked.finding_of(kind, message, session, world)
            if found is not None:
                yield _lost(run_id, found)
        elif kind == "" and session.key not in message.sendings:
            yield _hit(run_id, LOSS, WAITS, session.owner, answer.stamp, answer.row)
    for lost in a01_lost_acked.judge_groups(message, world):
        if lost is not None:
            yield _lost(run_id, lost)


def _unanswered(run_id: str, message: Message, presence: Presence, end: int, limits: Limits) -> Iterator[Hit]:
    for (owner, _), sent in message.sendings.items():
        last = sent[-1]
        patience = last.stamp + (limits.slow_ms << LOGICAL_BITS)
        if not limits.slow_ms or not last.qos or patience > end or owner in message.given_up:
            continue
        answered = min((each for each in message.received.get(owner, ()) if each >= sent[0].stamp), default=None)
        if (answered is None or answered > patience) and presence.throughout(owner, last.stamp, patience):
            yield _hit(run_id, SLOW, "unanswered", owner, last.stamp, last.row)


def _hit(run_id: str, alert: str, kind: str, owner: Owner, at: int, row: RowId) -> Hit:
    return Hit(Minute(run_id, alert, kind, "", owner[1], owner[2], minute_of(at)), at, row)


def _lost(run_id: str, found: Finding) -> Alert:
    """Returns the alert for a message that is lost. The number of a session depends on where a log begins, so it is no
    part of the alert."""
    subject = replace(found.subject, session=0)
    text = f"lost: {found.text.rpartition(', session ')[0]}"
    return Alert(run_id, LOSS, found.kind, "fatal", subject, found.at, text, found.rows)
