"""A8 stall: a client is connected, messages wait in its queue, and the node sends nothing although it may.

For more than 10 s a message has waited in the queue of a session with a connection, and the node has sent nothing on
that connection (`stall`). Meanwhile the client had room: fewer messages were under way than it accepts, and it read
what was sent. The number is the time in ms.

A message waits from the time when it entered the queue; with QoS 2, in a durable session, from the time when it was
safe there. The queue keeps its order: no message waits before those that entered it earlier may leave, too. So all wait
for the disk behind one with QoS 2. A client does not read from 1 s before `dlv.pause` until `dlv.resume`; a relayed
one, while its gateway takes no more for it.

When a connection ends, the node gives a message of a group that it has not sent to another member there that is
connected, or whose CONNACK is on its way for 10 s at most. The other message has another id, and the log has no row for
the end of this one. So a message of a group that was never sent is not judged beyond the first end of a connection at
which there was such a member. Nor if such a member was there while the session had no connection: one whose CONNACK
never left may have ended then, and the log has no row for that.

Not judged are messages that were dropped or expired while they waited, nor nodes that had no lease, or were out of the
view of another, in that time. A message that was never sent is not judged after another node has got the session: that
node may lack it, which is another anomaly. Nothing is judged after a node has left messages out of the log: they may be
what the client was sent. Logs before version 8 of the schema do not say when a client does not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ..findings import Finding, Subject
from ..message import REFUSED, Message, Queued
from ..rows import LOGICAL_BITS, NEVER, MessageId, Row, RowId, ms_of, row_id
from ..sessions import Held, Session, SessionKey
from ..world import World

ID = "A8"
KIND = "stall"
LIMIT: Final = 10_000 << LOGICAL_BITS
"""How long the node may send nothing, 10 s."""
UNREAD: Final = 1_000 << LOGICAL_BITS
"""How long a client has not read when dlv.pause is written, 1 s."""
PAUSES_SINCE: Final = 8
"""The version of the schema from which on the log has dlv.pause."""
TYPES: Final = frozenset(
    ("conn.open", "conn.close", "dlv.send", "dlv.ack", "dlv.rel", "dlv.comp", "dlv.pause", "dlv.resume")
)
"""The types of rows that are judged by connection."""
FIELDS: Final = ("v", "type", "node", "boot", "seq", "hlc", "conn", "packet_id", "qos", "code", "receive_max")
"""The fields of these rows that are read."""

Place = tuple[str, int, int]
"""A connection: node, boot and its number there."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A message that was in a session's queue for more than `LIMIT` while one connection of the client was open.
    `begin`: it entered the queue, perhaps before that connection; `due`: the node may send it there, if nothing is
    ahead of it; `end`: it left the queue, or the connection ended. `row` is its q.enq."""

    node: str
    boot: int
    conn: int
    begin: int
    due: int
    end: int
    session: SessionKey
    message: MessageId
    row: RowId

    @property
    def place(self) -> Place:
        """Returns the connection."""
        return self.node, self.boot, self.conn


def waits(message: Message, world: World) -> Iterator[Wait]:
    """Returns where a message waited that long, once for each connection."""
    for owner, queued in message.queued.items():
        session = world.session_at(owner, queued.stamp)
        if session is None or message.queued_for(session) is None:
            continue
        sent = message.sendings.get(session.key)
        # a message that was never sent may not have come to the next node of the session: that is another anomaly
        until = sent[0].stamp if sent else min(session.ended, session.left_at(queued.node, queued.stamp))
        begin = queued.stamp if queued.stamp <= until else queued.first
        due = _due(message, queued, session, begin)
        if not sent and (owner in message.given_up or owner in message.received):
            until = due  # the log may not say when it left: it is judged only for those behind it
        if until - begin <= LIMIT:
            continue
        given = NEVER if sent or not queued.group else _given(queued, session, until, world)
        for each in world.online_between(owner, begin, min(until, given)):
            # a message that was never sent may have been lost with a boot: that is another anomaly
            if sent or (each.node, each.boot) == (queued.node, queued.boot):
                first = max(begin, each.opened)
                last = min(until, each.closed, world.lives.boots[each.node, each.boot].last_hlc)
                if last - first > LIMIT:
                    free = max(first, min(due, last))
                    yield Wait(each.node, each.boot, each.conn, begin, free, last, session.key, message.id, queued.row)


def _given(queued: Queued, session: Session, until: int, world: World) -> int:
    """Returns when the node may have given a message of a group to another member; `NEVER` if the log shows none."""
    members = [
        held for held in world.subscriptions.of_group(session.owner[1], queued.group) if held.session != session.key
    ]
    offline = queued.stamp
    for each in world.online_between(session.owner, queued.stamp, until):
        if any(_was_online(held, each.node, offline, each.opened, world) for held in members):
            return offline
        offline = each.closed
    return NEVER


def _was_online(held: Held, node: str, since: int, until: int, world: World) -> bool:
    """Whether a session had a subscription, and a connection at a node, at any time between two stamps."""
    begin, end = max(since, held.since), min(until, held.until)
    online = world.online_between(world.session(held.session).owner, begin, end)
    return begin < end and any(each.node == node for each in online)


def _due(message: Message, queued: Queued, session: Session, begin: int) -> int:
    """Returns since when the node may send a message that entered the queue at `begin`; `NEVER` if it must not."""
    if queued.qos < 2 or not session.durable:
        return begin
    safe = message.safe.get(session.owner)
    return NEVER if safe is None else max(begin, safe.stamp)


@dataclass(slots=True)
class _Span:
    """Several waits of one connection that overlap count as one. `first` is the message that waited first."""

    begin: int
    end: int
    first: Wait


class _Idle:
    """Since when nothing is sent on a connection although it may be: the stamp and the row, None if something is sent,
    or must not be."""

    def __init__(self) -> None:
        self.since: int | None = None
        self.row: Row | None = None
        self._window = 0
        self._under_way: dict[int, int] = {}
        self._reads = True

    @property
    def may(self) -> bool:
        """Whether the client accepts another message."""
        return self._reads and len(self._under_way) < self._window

    def take(self, row: Row) -> None:
        """Read the next row."""
        kind = row["type"]
        if kind == "conn.open":
            self._window = row["receive_max"]
        elif kind in ("dlv.pause", "dlv.resume"):
            self._reads = kind == "dlv.resume"
        elif kind != "conn.close" and row.get("packet_id"):
            self._answer(kind, row)
        if kind in ("dlv.send", "conn.close") or not self.may:
            self.since = self.row = None
        if self.since is None and self.may and kind != "conn.close":
            self.since, self.row = row["hlc"], row

    def _answer(self, kind: str, row: Row) -> None:
        packet_id = row["packet_id"]
        if kind == "dlv.send":
            self._under_way[packet_id] = row.get("qos") or 1
        elif kind == "dlv.rel":
            self._under_way[packet_id] = 2
        elif kind == "dlv.comp" or self._under_way.get(packet_id) == 1 or (row.get("code") or 0) >= REFUSED:
            self._under_way.pop(packet_id, None)


def judge(steps: Iterable[Wait | Row], world: World) -> Iterator[Finding]:
    """Judge one connection: first all messages that waited long for it, in the order of `begin`, then its rows of
    `TYPES` in the order of `seq`. It holds waits that do not overlap, and what is under way to the client. A message is
    due when those before it are."""
    spans: list[_Span] = []
    due = 0
    idle = _Idle()
    opened = False
    for each in steps:
        if isinstance(each, Wait):
            due = max(due, each.due)
            if spans and due <= spans[-1].end:
                spans[-1].end = max(spans[-1].end, each.end)
            elif each.end - due > LIMIT:
                spans.append(_Span(due, each.end, each))
            continue
        opened = opened or (each["type"] == "conn.open" and each["v"] >= PAUSES_SINCE)
        if not opened:
            return
        since, row = idle.since, idle.row
        idle.take(each)
        if row is not None and since is not None and idle.since != since:
            until = each["hlc"] - (UNREAD if each["type"] == "dlv.pause" else 0)
            yield from _stalls(spans, (since, until), (row, each), world)
    if idle.row is not None and idle.since is not None:
        last = world.lives.boots[idle.row["node"], idle.row["boot"]].last_hlc
        yield from _stalls(spans, (idle.since, last), (idle.row,), world)


def _stalls(spans: Iterable[_Span], idle: tuple[int, int], rows: tuple[Row, ...], world: World) -> Iterator[Finding]:
    """Judge a time in which nothing was sent, by its begin and end, and the rows there."""
    if idle[1] - idle[0] <= LIMIT:
        return
    for each in spans:
        wait = each.first
        begin, end = max(idle[0], each.begin), min(idle[1], each.end)
        if end - begin > LIMIT and not _is_excused(wait.node, begin, end, world):
            node, boot, seq = row_id(rows[0])
            subject = Subject.of(*wait.session, detail=f"{node}, boot {boot}, row {seq}")
            ms = ms_of(end - begin)
            text = (
                f"{node} sent {subject.client} nothing for {ms} ms, although a message waited and the client had room"
            )
            proof = [row_id(each) for each in rows]
            proof.insert(0 if wait.begin <= idle[0] else 1, wait.row)
            yield Finding(ID, KIND, "error", subject, begin, text, tuple(proof), value=ms)
            return


def _is_excused(node: str, begin: int, end: int, world: World) -> bool:
    """Whether the node was cut off, or stood still for so long that the others took it for dead. Also if the log may
    lack what it has sent."""
    parts = world.partitions
    if not world.writing.all_written((node, *world.views.of(node)), 0, end):
        return True
    return parts.anybody_without_lease((node,), begin, end) or any(
        parts.was_out_of_view(other, node, begin, end) for other in world.lives.first_boot
    )
