"""Reads an event log: sessions with their subscriptions, and messages from PUBLISH to acknowledgement.

A place is a position in the log as ordered by (hlc, node, seq). This module judges only wills. It needs no field that
the schema calls optional. A session is identified by the node where it began, its client id and a number, counted per
client id on a node. It keeps that name when its slot goes to another node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...cluster.identity import slot_of
from ...mqtt.topics import matches, parse_shared
from .partitions import NEVER, Partitions

Row = Mapping[str, Any]
MessageId = tuple[str, int, int]
Owner = tuple[str, str]
"""The node where a session began, and its client id."""
ANSWERED_SINCE = 4
"""The version of the schema from which on the log has each SUBACK. In an older log a subscription counts from its row
on."""


@dataclass
class Held:
    """A subscription of a session, from place `since` until before `until`. Its SUBACK left at place `answered`."""

    filter: str
    group: str | None
    qos: int
    since: int
    answered: int
    until: int = NEVER


@dataclass
class Session:
    """A session from its begin to its end. `node` and `boot` say where it is now, `moved` the place at which it came
    there from another node. `durable`: the log shows that it outlives a connection."""

    owner: Owner
    slot: int
    number: int
    begun: int
    node: str
    boot: int
    moved: int = NEVER
    ended: int = NEVER
    durable: bool = False
    known: bool = False
    """The log has its begin, and so all of its subscriptions."""
    subscriptions: list[Held] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    depth: int | None = None
    """Messages in its queue by the last q.depth, if the log has no q.enq after that."""

    @property
    def client(self) -> str:
        """The client id."""
        return self.owner[1]

    def matching(self, topic: str, place: int, shared: bool = False) -> list[Held]:
        """Returns the subscriptions that match a topic at a place: the shared ones, or the others."""
        return [
            held
            for held in self.subscriptions
            if held.since < place < held.until and (held.group is not None) is shared and matches(held.filter, topic)
        ]

    def __str__(self) -> str:
        return f"{self.client} (session {self.number})"


@dataclass
class Accepted:
    """A PUBLISH that was accepted. `lane`: the publisher's connection. `retain`: also True if the row does not say."""

    message_id: MessageId
    place: int
    client: str
    lane: tuple[str, str, int]
    topic: str
    qos: int
    retain: bool


@dataclass
class Sent:
    """A PUBLISH that was sent to a subscriber. `qos` is None if the row does not say."""

    place: int
    message_id: MessageId
    session: Session
    packet_id: int
    dup: bool
    qos: int | None


@dataclass
class WillCase:
    """An anomaly of a will. `kind`: lost, dup (published twice) or spurious (published although not due)."""

    client: str
    kind: str


@dataclass
class _Wills:
    """The wills of one client. `state`: armed, fired, cancelled, or "" if it has none. `last`: the row with which the
    last one was published or cancelled. `due`: places where a will became due that is not published yet; a node without
    a lease publishes it later."""

    state: str = ""
    last: Row | None = None
    due: list[int] = field(default_factory=list)


class History:
    """The content of a log. `holes` describes the rows that are missing. A session is durable when its CONNACK says
    that it outlives its connection, and when the log shows it; before schema version 5 only then."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.sessions: dict[Owner, list[Session]] = {}
        self.accepted: dict[MessageId, Accepted] = {}
        self.acked: dict[MessageId, int] = {}
        self.routed: dict[MessageId, set[Owner]] = {}
        self.known: set[MessageId] = set()
        """Messages that the broker made itself: wills, copies, its own topics."""
        self.queued: dict[tuple[MessageId, Owner], tuple[int, str, int]] = {}
        """(message, owner of the session) -> place, node and boot of the last q.enq."""
        self.durable: set[tuple[MessageId, Owner]] = set()
        self.sent: list[Sent] = []
        self.received: dict[tuple[MessageId, Owner], list[int]] = {}
        """(message, owner of the session) -> places of dlv.ack."""
        self.given_up: set[tuple[MessageId, Owner]] = set()
        self._brought: set[tuple[Owner, str]] = set()
        """(owner of the session, topic) of retained messages that were sent for a SUBSCRIBE."""
        self.deaths: dict[tuple[str, int], int] = {}
        """(node, boot) -> place at which the log shows that it ended without an orderly stop."""
        self.first_boot: dict[str, int] = {}
        self.amnesia: list[Session] = []
        self.wills: list[WillCase] = []
        self.holes: list[str] = []
        self.length = 0
        self.partitions = Partitions()
        self._homes: dict[Owner, Owner] = {}
        """(node, client) -> owner of the client's session, which came to this node from another one."""
        self._connections: dict[Owner, tuple[int, bool]] = {}
        """The number of the client's last connection, and whether the session outlives it."""
        self._closed: dict[Owner, int] = {}
        self._wills: defaultdict[Owner, _Wills] = defaultdict(_Wills)
        self._seq: dict[tuple[str, int], int] = {}
        self._running: dict[str, tuple[int, bool]] = {}
        for place, row in enumerate(sorted(rows, key=lambda row: (row["hlc"], row["node"], row["seq"]))):
            self.length = place + 1
            self._count(row)
            self._life(place, row)
            self.partitions.note(place, row)
            handler = _HANDLERS.get(row["type"])
            if handler is not None:
                handler(self, place, row)
        self._judge_wills()

    def retained(self, owner: Owner, message: Accepted) -> bool:
        """Whether a message may have been sent as a retained message for a SUBSCRIBE.

        Then it may arrive out of order, and once for each SUBSCRIBE.
        """
        return message.retain and (owner, message.topic) in self._brought

    def died(self, session: Session, place: int) -> bool:
        """Whether a clean session ended with its node, or with its slot there, before `place`: the log has no row for
        that end."""
        ended = min(self.deaths.get((session.node, session.boot), NEVER), session.moved)
        return not session.durable and ended < place

    # -- the log itself, and the lives of nodes

    def _count(self, row: Row) -> None:
        key = (row["node"], row["boot"])
        last = self._seq.get(key, 0)
        if row["seq"] != last + 1 and row["type"] != "log.gap":
            self.holes.append(f"{row['node']}, boot {row['boot']}: rows {last + 1} to {row['seq'] - 1} are missing")
        self._seq[key] = max(last, row["seq"])

    def _gap(self, place: int, row: Row) -> None:
        self.holes.append(f"{row['node']}, boot {row['boot']}: {row['rows']} rows were given up ({row['reason']})")

    def _life(self, place: int, row: Row) -> None:
        node, boot = row["node"], row["boot"]
        self.first_boot.setdefault(node, boot)
        running = self._running.get(node)
        if running is not None and running[0] != boot and not running[1]:
            self.deaths.setdefault((node, running[0]), place)
        self._running[node] = (boot, row["type"] == "node.stop")
        if row["type"] == "fault.kill" and node in row["nodes"]:
            self.deaths[node, boot] = place

    # -- sessions

    def _owner(self, row: Row) -> Owner:
        there = row["node"], row["client"]
        return self._homes.get(there, there)

    def _open(self, owner: Owner) -> Session | None:
        sessions = self.sessions.get(owner)
        return sessions[-1] if sessions and sessions[-1].ended == NEVER else None

    def _current(self, place: int, row: Row) -> Session:
        """Returns the session of a row. A session from before the log begins at its first row."""
        return self._open(self._owner(row)) or self._begin(place, row)

    def _create(self, place: int, row: Row) -> None:
        owner = self._owner(row)
        before = self._open(owner)
        if before is not None:
            if owner in self._closed:
                before.durable = True
            if before.durable:
                self.amnesia.append(before)
            self._end_session(before, place)
        self._begin(place, row).known = True

    def _begin(self, place: int, row: Row) -> Session:
        owner = self._owner(row)
        self._closed.pop(owner, None)
        sessions = self.sessions.setdefault(owner, [])
        slot = slot_of(row.get("mountpoint") or "", owner[1])
        session = Session(owner, slot, len(sessions) + 1, place, row["node"], row["boot"])
        session.durable = row["type"] == "sess.create" and self._connections.get(owner, (0, False))[1]
        sessions.append(session)
        return session

    def _arrive(self, place: int, row: Row) -> None:
        """A slot has another primary, where its sessions continue. A client without durable session and without a will
        is served by its gateway, and is not in its slot."""
        for sessions in self.sessions.values():
            session = sessions[-1]
            if session.slot != row["slot"] or session.ended != NEVER or session.node == row["node"]:
                continue
            armed = self._wills[session.owner].state == "armed"
            if session.durable or armed or (session.node, session.boot) in self.deaths:
                session.node, session.boot, session.moved = row["node"], row["boot"], place
                self._homes[session.node, session.client] = session.owner

    def _resume(self, place: int, row: Row) -> None:
        session = self._current(place, row)
        self._closed.pop(self._owner(row), None)
        session.durable = True
        session.resumed.append(place)

    def _end(self, place: int, row: Row) -> None:
        session = self._open(self._owner(row))
        if session is not None:
            self._end_session(session, place)
        self._closed.pop(self._owner(row), None)

    def _end_session(self, session: Session, place: int) -> None:
        session.ended = place
        self._will_due(place, session.owner)
        self._wills[session.owner].state = ""

    def _connected(self, place: int, row: Row) -> None:
        self._will_due(place, self._owner(row))
        before, _ = self._connections.get(self._owner(row), (0, False))
        self._connections[self._owner(row)] = before + 1, bool(row.get("expiry_s"))

    def _disconnected(self, place: int, row: Row) -> None:
        self._closed[self._owner(row)] = place

    def _subscribe(self, place: int, row: Row) -> None:
        self._unsubscribe(place, row)
        group, pattern = parse_shared(row["filter"])
        answered = NEVER if row["v"] >= ANSWERED_SINCE else place
        self._current(place, row).subscriptions.append(Held(pattern, group, row["qos"], place, answered))

    def _answered(self, place: int, row: Row) -> None:
        session = self._open(self._owner(row))
        filters = set(map(parse_shared, row["filters"]))
        for held in session.subscriptions if session is not None else ():
            if (held.group, held.filter) in filters:
                held.answered = min(held.answered, place)

    def _unsubscribe(self, place: int, row: Row) -> None:
        session = self._open(self._owner(row))
        group, pattern = parse_shared(row["filter"])
        for held in session.subscriptions if session is not None else ():
            if held.until == NEVER and (held.group, held.filter) == (group, pattern):
                held.until = place

    # -- messages

    def _accept(self, place: int, row: Row) -> None:
        client, message_id = row["client"], message_id_of(row)
        lane = (*self._owner(row), row.get("conn") or self._connections.get(self._owner(row), (0, False))[0])
        known = Accepted(message_id, place, client, lane, row["topic"], row["qos"], row.get("retain") is not False)
        self.accepted.setdefault(message_id, known)

    def _route(self, place: int, row: Row) -> None:
        targets = [(row["node"], client) for client in row["targets"]]
        self.routed.setdefault(message_id_of(row), set()).update(self._homes.get(each, each) for each in targets)

    def _ack(self, place: int, row: Row) -> None:
        if (row.get("code") or 0) < 0x80:
            self.acked.setdefault(message_id_of(row), place)

    def _queue(self, place: int, row: Row) -> None:
        self.queued[message_id_of(row), self._owner(row)] = (place, row["node"], row["boot"])
        if (session := self._open(self._owner(row))) is not None:
            session.depth = None

    def _depth(self, place: int, row: Row) -> None:
        if (session := self._open(self._owner(row))) is not None:
            session.depth = row["count"]

    def _safe(self, place: int, row: Row) -> None:
        self.durable.add((message_id_of(row), self._owner(row)))
        session = self._open(self._owner(row))
        if session is not None:
            session.durable = True

    def _give_up(self, place: int, row: Row) -> None:
        self.given_up.add((message_id_of(row), self._owner(row)))

    def _send(self, place: int, row: Row) -> None:
        session = self._current(place, row)
        packet_id, dup = row.get("packet_id") or 0, bool(row.get("dup"))
        self.sent.append(Sent(place, message_id_of(row), session, packet_id, dup, row.get("qos")))

    def _receive(self, place: int, row: Row) -> None:
        if row.get("mid") is not None:
            self.received.setdefault((message_id_of(row), self._owner(row)), []).append(place)

    def _bring(self, place: int, row: Row) -> None:
        self._brought.add((self._owner(row), row["topic"]))

    # -- wills

    def _arm(self, place: int, row: Row) -> None:
        self._wills[self._owner(row)].state = "armed"

    def _will_due(self, place: int, owner: Owner) -> None:
        """The connection with the will has ended: note that its will is due if the log has not shown its end."""
        wills = self._wills[owner]
        if wills.state == "armed":
            wills.state = ""
            wills.due.append(place)

    def _judge_wills(self) -> None:
        for owner, wills in self._wills.items():
            if self.partitions.span_without_lease(owner[0], self.length) is None:
                self.wills += [WillCase(owner[1], "lost")] * len(wills.due)

    def _fire(self, place: int, row: Row) -> None:
        self.known.add(message_id_of(row))
        wills = self._wills[self._owner(row)]
        if wills.due:
            wills.due.pop(0)
            return
        if wills.state != "armed" and self.first_boot[row["node"]] == 1 and not self._undone(wills.last, row):
            self.wills.append(WillCase(row["client"], "dup" if wills.state == "fired" else "spurious"))
        wills.state, wills.last = "fired", row

    def _undone(self, last: Row | None, row: Row) -> bool:
        """Whether a kill may have undone the last row of a will: it is final only when it is on disk."""
        if last is None or last["boot"] == row["boot"] or (last["node"], last["boot"]) not in self.deaths:
            return False
        return last["type"] == "will.cancel" or all(message_id != message_id_of(last) for message_id, _ in self.durable)

    def _cancel(self, place: int, row: Row) -> None:
        wills = self._wills[self._owner(row)]
        if wills.due and row["reason"] == "gateway_lost":  # its client has taken the connection over, with a new will
            wills.due.pop(0)
            return
        wills.state, wills.last = "cancelled", row


def message_id_of(row: Row) -> MessageId:
    """Returns the message id of a row as a tuple: rows from files have a list."""
    node, boot, counter = row["mid"]
    return str(node), int(boot), int(counter)


_HANDLERS = {
    "log.gap": History._gap,
    "sess.create": History._create,
    "slot.arrive": History._arrive,
    "sess.resume": History._resume,
    "sess.end": History._end,
    "sess.expire": History._end,
    "conn.open": History._connected,
    "conn.close": History._disconnected,
    "sub.add": History._subscribe,
    "sub.del": History._unsubscribe,
    "sub.ack": History._answered,
    "pub.recv": History._accept,
    "pub.route": History._route,
    "pub.ack": History._ack,
    "q.enq": History._queue,
    "q.durable": History._safe,
    "q.depth": History._depth,
    "q.drop": History._give_up,
    "q.expire": History._give_up,
    "dlv.send": History._send,
    "dlv.ack": History._receive,
    "ret.deliver": History._bring,
    "will.arm": History._arm,
    "will.fire": History._fire,
    "will.cancel": History._cancel,
}
