"""The life of one message, read from all rows with its id: accepted, routed, queued, acknowledged, sent, answered."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from .rows import MessageId, Owner, Row, RowId, in_order, row_id
from .sessions import Session, SessionKey
from .world import World

Lane = tuple[str, int, str, int, str, int]
"""Messages whose order is promised: node and boot that accepted them, publisher, its connection, topic, QoS."""
POLICY: Final = "allow_publish_during_netsplit"
"""The setting that says whether a node accepts messages without a lease."""
REFUSED: Final = 0x80
"""Reason codes from here on refuse a message."""


@dataclass(slots=True)
class Sent:
    """A PUBLISH that was sent to a subscriber. `session` is None if the log does not show it; `qos` too."""

    stamp: int
    owner: Owner
    session: Session | None
    packet_id: int
    dup: bool
    qos: int | None
    row: RowId

    @property
    def key(self) -> SessionKey:
        """Returns what names the session."""
        return (self.owner, 0) if self.session is None else self.session.key


@dataclass(slots=True)
class Queued:
    """The last entry of a message in the queue of a session, and the stamp of the first one. `entries`: the filter of
    each group that chose the session, or "" for none, with the node and boot where the message entered. `group`: the
    $share filter of the last one."""

    first: int
    stamp: int
    node: str
    boot: int
    qos: int
    row: RowId
    entries: frozenset[tuple[str, str, int]]
    group: str


@dataclass(slots=True)
class Seen:
    """When a node wrote a row, and which."""

    stamp: int
    row: RowId


@dataclass(slots=True)
class Safe(Seen):
    """The first q.durable for a session. `alone`: it was safe only against the end of the process, not of the machine,
    and no other node had it. `durability`: "" if the row does not say."""

    durability: str
    alone: bool


@dataclass(slots=True)
class Publish:
    """A PUBLISH that a node accepted. `retain`: also True if the row does not say. The id of a message need not name
    the node: a message of a durable session has the session's slot there."""

    node: str
    stamp: int
    client: str
    topic: str
    qos: int
    retain: bool
    lane: Lane
    row: RowId
    repeated: int = -1
    """When its client published it again, last, and had no acknowledgement yet; -1 if it did not."""


@dataclass(slots=True)
class Answer:
    """The acknowledgement to the publisher, which does not refuse the message. `right`: "" if the row does not say."""

    node: str
    stamp: int
    right: str
    row: RowId


class Message:
    """What the rows of one message say; `publish` and `answer` are None without such a row."""

    __slots__ = (
        "_sendings",
        "_world",
        "answer",
        "brought",
        "given_up",
        "id",
        "mountpoint",
        "publish",
        "queued",
        "received",
        "retained",
        "routed",
        "safe",
        "sent",
        "steps",
    )

    def __init__(self, message_id: MessageId, rows: Iterable[Row], world: World) -> None:
        self.id = message_id
        self.publish: Publish | None = None
        self.answer: Answer | None = None
        self.mountpoint = ""
        self.steps: dict[tuple[str, str], int] = {}
        """What nodes did with it: node and type of the row -> the last stamp. Of fwd.send and fwd.ack the node that it
        was sent to, and that has it safe."""
        self.routed: set[Owner] = set()
        self.queued: dict[Owner, Queued] = {}
        self.safe: dict[Owner, Safe] = {}
        """Sessions in whose queue it was safe, and since when."""
        self.sent: list[Sent] = []
        self.received: dict[Owner, list[int]] = {}
        """Stamps of the subscribers' answers."""
        self.given_up: set[Owner] = set()
        """Sessions, or filters of groups, for which a node has dropped it and said so."""
        self.brought: dict[Owner, Seen] = {}
        """Sessions that got it as a retained message, for a SUBSCRIBE."""
        self.retained: Seen | None = None
        """Its first ret.set."""
        self._sendings: dict[SessionKey, list[Sent]] | None = None
        self._world = world
        for row in in_order(rows):
            handler = _HANDLERS.get(row["type"])
            if handler is not None:
                handler(self, row)

    @property
    def made(self) -> bool:
        """Whether a node made it itself, has routed or queued it: then a lost row of its PUBLISH does not make it
        unexpected."""
        return bool(self.queued) or any(kind in ("pub.route", "will.fire") for _, kind in self.steps)

    def queued_for(self, session: Session) -> Queued | None:
        """Returns its last entry in a session's queue; None without one. If another node has got a durable session, the
        queue that the former one still has is not the session's."""
        queued = self.queued.get(session.owner)
        if queued is not None and session.durable and session.home_at(queued.stamp).node != queued.node:
            return None
        return queued

    @property
    def sendings(self) -> dict[SessionKey, list[Sent]]:
        """What was sent, by session."""
        if self._sendings is None:
            self._sendings = {}
            for each in self.sent:
                self._sendings.setdefault(each.key, []).append(each)
        return self._sendings

    @property
    def groups(self) -> set[str]:
        """The filters of the groups that chose a session for it."""
        return {group for queued in self.queued.values() for group, _, _ in queued.entries}

    def was_retained_for(self, owner: Owner) -> bool:
        """Whether it may have been sent as a retained message for a SUBSCRIBE.

        Then it may arrive out of order, and once for each SUBSCRIBE.
        """
        if owner in self.brought:
            return True
        publish, brought = self.publish, self._world.brought
        return bool(brought) and publish is not None and publish.retain and (owner, publish.topic) in brought

    def _accept(self, row: Row) -> None:
        self._step(row)
        if self.publish is not None:
            if self.answer is None:
                self.publish.repeated = row["hlc"]
            return
        client, stamp, topic, qos = row["client"], row["hlc"], row["topic"], row["qos"]
        self.mountpoint = self._world.mountpoint(row)
        conn = row.get("conn")
        if conn is None:  # older logs do not number connections
            conn = bisect_right(self._world.connections.get((row["node"], self.mountpoint, client), []), stamp)
        lane = (row["node"], row["boot"], client, conn, topic, qos)
        retain = row.get("retain") is not False
        self.publish = Publish(row["node"], stamp, client, topic, qos, retain, lane, row_id(row))
        if self.answer is not None and self.answer.node == row["node"]:
            self.answer = None  # see `_ack`

    def _step(self, row: Row) -> None:
        self.steps[row["node"], row["type"]] = row["hlc"]

    def _forward(self, row: Row) -> None:
        self.steps[row["target"], row["type"]] = row["hlc"]

    def _route(self, row: Row) -> None:
        self._step(row)
        owner, node, stamp = self._world.owner, row["node"], row["hlc"]
        self.routed.update(owner(node, self.mountpoint, client, stamp) for client in row["targets"])

    def _ack(self, row: Row) -> None:
        """The publisher has its answer. If a slot moved with an open handshake, the next primary, in some former
        versions, wrote its own name into the id of a message of the former one: so an answer from before the PUBLISH,
        or to another client, is of another message."""
        if self.publish is not None and self.publish.client != row["client"]:
            return
        if self.answer is None and (row.get("code") or 0) < REFUSED:
            self.answer = Answer(row["node"], row["hlc"], row.get("right") or "", row_id(row))

    def _queue(self, row: Row) -> None:
        owner, stamp = self._world.owner_of(row), row["hlc"]
        before = self.queued.get(owner)
        first, entries = (stamp, frozenset()) if before is None else (before.first, before.entries)
        node, boot, group = row["node"], row["boot"], row.get("group") or ""
        entries |= {(group, node, boot)}
        self.queued[owner] = Queued(first, stamp, node, boot, row.get("qos") or 0, row_id(row), entries, group)

    def _stored(self, row: Row) -> None:
        durability = row.get("durability") or ""
        alone = durability not in ("", "sync") and not row.get("copied")
        self.safe.setdefault(self._world.owner_of(row), Safe(row["hlc"], row_id(row), durability, alone))

    def _give_up(self, row: Row) -> None:
        self.given_up.add(self._world.owner_of(row))

    def _send(self, row: Row) -> None:
        owner, stamp = self._world.owner_of(row), row["hlc"]
        session = self._world.session_at(owner, stamp)
        packet_id, dup = row.get("packet_id") or 0, bool(row.get("dup"))
        self.sent.append(Sent(stamp, owner, session, packet_id, dup, row.get("qos"), row_id(row)))

    def _receive(self, row: Row) -> None:
        self.received.setdefault(self._world.owner_of(row), []).append(row["hlc"])

    def _bring(self, row: Row) -> None:
        self.brought[self._world.owner_of(row)] = Seen(row["hlc"], row_id(row))

    def _retain(self, row: Row) -> None:
        self.retained = self.retained or Seen(row["hlc"], row_id(row))

    def _fire(self, row: Row) -> None:
        self._step(row)
        self.mountpoint = self._world.mountpoint(row)


_HANDLERS: Final[dict[str, Callable[[Message, Row], None]]] = {
    "pub.recv": Message._accept,
    "pub.route": Message._route,
    "fwd.send": Message._forward,
    "fwd.recv": Message._step,
    "fwd.ack": Message._forward,
    "pub.ack": Message._ack,
    "q.enq": Message._queue,
    "q.durable": Message._stored,
    "q.drop": Message._give_up,
    "q.expire": Message._give_up,
    "dlv.send": Message._send,
    "dlv.ack": Message._receive,
    "ret.deliver": Message._bring,
    "ret.set": Message._retain,
    "will.fire": Message._fire,
}
TYPES: Final = frozenset(_HANDLERS)
"""The types of rows that are read."""
FIELDS: Final = (
    *(
        "type",
        "node",
        "boot",
        "seq",
        "hlc",
        "client",
        "mountpoint",
        "conn",
        "topic",
        "qos",
        "retain",
        "targets",
        "target",
    ),
    *("code", "right", "group", "durability", "copied", "packet_id", "dup"),
)
"""The fields that are read."""
