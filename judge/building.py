"""Builds a world from the rows of an event log, in one pass.

It reads the rows that are not about one message (`TYPES`). From the rows of messages it needs three small tables, which
a first pass over the log makes (`Summary`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ..mqtt.topics import parse_shared
from .lives import BootRows, Lives
from .rows import (
    BEFORE,
    LOGICAL_BITS,
    NEVER,
    MessageId,
    Owner,
    Row,
    in_order,
    node_of,
    numbered,
    row_id,
    settings_of,
    slot_in,
    slots_of,
)
from .sessions import Held, Home, Online, Session
from .subscriptions import FilterKey, SubscriptionTable, filter_key
from .world import World

ANSWERED_SINCE: Final = 4
"""The version of the schema from which on the log has each SUBACK. In an older log a subscription counts from its row
on."""

REFUSED: Final = 0x80
"""The smallest code of SUBACK that refuses a subscription (3.9.3)."""
NONE: Final = BEFORE - 1
"""Stands for no session in place of the begin of one."""
TAKEOVERS: Final = 4
"""Among so many last connections of a session is the one that ends."""
CUT: Final = 2_000 << LOGICAL_BITS
"""A node that is cut off has its lease for 2 s more at most. It lets sessions expire until then, and their copies do
not learn of that."""


@dataclass
class Summary:
    """What a world needs of rows that it does not read: `boots` of all rows, `stored` and `safe_wills` of q.durable."""

    boots: Mapping[tuple[str, int], BootRows]
    stored: Iterable[Row] = ()
    """The first q.durable of each node, boot, mountpoint, client and epoch: such a session is durable."""
    safe_wills: frozenset[MessageId] = frozenset()
    """The wills that were safe in a queue of the node that published them."""
    complete: bool = False
    """The log has all rows that its nodes have written so far, as that of a test in memory."""


def world_of(rows: Iterable[Row], summary: Summary) -> World:
    """Build a world from rows of `TYPES`; others are ignored. They may come in any order."""
    return world_of_ordered(in_order((*rows, *summary.stored)), summary)


def world_of_ordered(rows: Iterable[Row], summary: Summary) -> World:
    """Build it from rows that are in order already, those of `summary.stored` among them. One row is held at a time."""
    builder = _Builder(summary)
    for row in rows:
        handler = _HANDLERS.get(row["type"])
        if handler is not None:
            handler(builder, row)
    return builder.world


@dataclass
class _Slot:
    """Clients of a slot. `open`: with an open session. `perhaps`: with a session that a node without a lease has ended,
    whether it had a will, and the row of its end: another node that takes the slot over from it knows nothing of that.
    `waiting`: with a will and without CONNACK, so the log does not have their sessions yet. `primary`: the node where
    the slot has last arrived, or that has copied it to another one. `moved`: with which row a node has given it to
    another one, where it has not arrived yet."""

    open: set[Owner] = field(default_factory=set)
    perhaps: dict[Owner, tuple[Session, bool, Row]] = field(default_factory=dict)
    waiting: set[Owner] = field(default_factory=set)
    primary: str = ""
    moved: Row | None = None

    def leaves_behind(self, session: Session, node: str) -> bool:
        """Whether a session began at a node that had given the slot to another one, which gets it now: the former node
        has served the client without the slot."""
        row = self.moved
        if row is None or row["target"] != node:
            return False
        stamp: int = row["hlc"]
        return session.home.node == row["node"] and session.home.since > stamp


class _Builder:
    """Reads rows in order. `_open` has the open session of each owner."""

    def __init__(self, summary: Summary) -> None:
        self._sessions: dict[Owner, list[Session]] = {}
        self._subscriptions: dict[FilterKey, list[Held]] = {}
        self._online: dict[Owner, list[Online]] = {}
        self._moved: dict[Owner, list[tuple[int, Owner]]] = {}
        self.world = World(
            Lives(summary.boots, summary.complete),
            sessions=self._sessions,
            subscriptions=SubscriptionTable(self._subscriptions),
            safe_wills=summary.safe_wills,
            online=self._online,
            moved=self._moved,
        )
        self._open: dict[Owner, Session] = {}
        self._slots: defaultdict[int, _Slot] = defaultdict(_Slot)
        self._outlives: set[Owner] = set()
        """The client's last CONNACK said that its session outlives the connection."""
        self._closed: set[Owner] = set()
        """The client's connection has ended, and its session has not, although no will kept it."""
        self._armed: set[Owner] = set()
        self._lost: set[tuple[str, int]] = set()
        """Node and view: disks that the cluster has given up. Each node says it when it learns of the view."""
        self._ended: dict[tuple[str, str, int], Row] = {}
        """Mountpoint, client and epoch -> the row with which that session ended."""
        self._strange_ends: dict[Owner, int] = {}
        self._removed: dict[tuple[Owner, str | None, str], Held] = {}
        """Subscriptions whose UNSUBACK has not left yet."""
        self._held: dict[tuple[Owner, str | None, str], Held] = {}

    def life(self, row: Row) -> None:
        self.world.partitions.note(row)
        self.world.views.note(row)

    def incident(self, row: Row) -> None:
        self.life(row)
        self.world.incidents.note(row)

    def started(self, row: Row) -> None:
        self.life(row)
        self.world.lives.started(row)
        self.world.incidents.started(row)
        self._set(row)

    def joined(self, row: Row) -> None:
        """A node goes on in this run: its settings are those of before. Its disk is empty, so its rows are no more of
        sessions that it had got with slots."""
        self._set(row)
        self.world.partitions.note(row)
        self.world.joins.setdefault(row["node"], []).append(row["hlc"])
        for there, moves in self._moved.items():
            if there[0] == row["node"]:
                moves.append((row["hlc"], self._free_name(there)))

    def _set(self, row: Row) -> None:
        self.world.writing.note(row)
        for key, value in settings_of(row):
            self.world.settings.setdefault((row["node"], key), []).append((row["hlc"], value))

    def wrote(self, row: Row) -> None:
        self.world.writing.note(row)

    def changed(self, row: Row) -> None:
        self.world.writing.note(row)
        self.world.settings.setdefault((row["node"], row["key"]), []).append((row["hlc"], row.get("new") or ""))

    def killed(self, row: Row) -> None:
        self.world.lives.killed(row)

    def store(self, row: Row) -> None:
        self.world.lives.stored(row)
        if row["state"] == "damaged":
            self.world.damaged.setdefault((row["node"], row["boot"]), row)

    def slot(self, row: Row) -> None:
        self.world.slots.note(row)

    def copied(self, row: Row) -> None:
        """Only a primary copies a slot. The first one did not say that it had arrived."""
        self._slots[row["slot"]].primary = row["node"]

    def move(self, row: Row) -> None:
        self.slot(row)
        slot = self._slots[row["slot"]]
        if slot.primary != row["target"]:
            slot.moved = row
        self._rename(row)

    def lose_to_another(self, row: Row) -> None:
        self.slot(row)
        self._rename(row)

    def _rename(self, row: Row) -> None:
        """The node has no slot any more that it had: its later rows are of new sessions, not of those in the slot. A
        clean session without a will is not in the slot: its client stays connected there."""
        for owner in sorted(self._slots[row["slot"]].open):
            there = row["node"], *owner[1:]
            session = self._open[owner]
            in_slot = session.durable or self._has_will_in_slot(owner, row)
            stays = session.served == row["node"] and not in_slot
            if not stays and (owner == there or there in self._moved):
                moves = self._moved.setdefault(there, [])
                moves.append((row["hlc"], self._free_name(there)))

    def _has_will_in_slot(self, owner: Owner, row: Row) -> bool:
        """Whether a session has a will that another node publishes if it gets the slot. With one copy a clean session
        and its will are at its node alone."""
        return owner in self._armed and not self.world.keeps_one_copy(node_of(owner), row["hlc"])

    def _free_name(self, there: Owner) -> Owner:
        """Returns a name for new sessions of a client at a node, which no open session has."""
        return numbered(there, len(self._moved[there]) + 2) if there in self._open else there

    # -- sessions

    def connected(self, row: Row) -> None:
        owner = self.world.owner_of(row)
        if row.get("will_delay_s") is None:
            self._armed.discard(owner)
        (self._outlives.add if row.get("expiry_s") else self._outlives.discard)(owner)
        if owner in self._open:
            self._open[owner].discarded = bool(row.get("clean"))
        node, mountpoint, client = row["node"], row.get("mountpoint") or "", row["client"]
        if row.get("conn") is None:  # older logs do not number connections
            self.world.connections.setdefault((node, mountpoint, client), []).append(row["hlc"])
        online = Online(node, row["boot"], row.get("conn") or 0, row["hlc"])
        self._online.setdefault(owner, []).append(online)
        if mountpoint and row.get("conn"):
            self.world.mountpoints[node, row["boot"], row["conn"]] = mountpoint

    def disconnected(self, row: Row) -> None:
        owner = self.world.owner_of(row)
        clean_with_will = owner in self._armed and owner not in self._outlives  # it ends when its will is decided
        if owner in self._open and not clean_with_will:
            self._closed.add(owner)
        which = row["node"], row["boot"], row.get("conn") or 0
        for place, each in enumerate(islice(reversed(self._online.get(owner, [])), TAKEOVERS)):
            if (each.node, each.boot, each.conn) == which:
                each.closed = row["hlc"]
                if place == 0 and owner in self._open and each.conn:
                    self._open[owner].left = row["hlc"]

    def create(self, row: Row) -> None:
        owner = self.world.owner_of(row)
        before = self._open.get(owner)
        if before is not None:
            before.durable = before.durable or owner in self._closed
            before.forgotten = before.durable and not (before.discarded or before.over)
            armed = owner in self._armed  # by this connection already
            self._finish(before, row)
            if armed:
                self._armed.add(owner)
        session = self._begin(owner, row)
        session.known = True
        session.durable = owner in self._outlives

    def resume(self, row: Row) -> None:
        owner = self.world.owner_of(row)
        session = self._current(owner, row)
        self._closed.discard(owner)
        session.durable = True
        session.served = row["node"]
        session.resumed.append(row["hlc"])
        ended = self._ended.get((owner[1], owner[2], row.get("epoch") or 0))
        session.over = ended is not None and self._is_unaware(ended, row)
        if ended is not None and not session.over and not self._is_undone(ended, row):
            session.revived = row_id(ended), row_id(row)

    def _is_unaware(self, ended: Row, row: Row) -> bool:
        """Whether a session is resumed at a node without a lease, which does not know what another one has ended."""
        return ended["node"] != row["node"] and self.world.partitions.is_unleased(row["node"], row["hlc"])

    def _is_undone(self, ended: Row, row: Row) -> bool:
        """Whether the disk that the session is resumed from may lack its end, because of a kill, a loss of power or a
        cut before that."""
        world, since, until = self.world, ended["hlc"], row["hlc"]
        undone = world.lives.may_be_undone(ended, row) or world.may_be_undone((ended["node"],), since, until)
        return undone or self._copy_may_lack(ended, row["node"], until)

    def _copy_may_lack(self, ended: Row, node: str, stamp: int) -> bool:
        """Whether a session may have expired at a primary that was cut off, and `node` has taken over a copy of the
        slot without that. Other ends may have an answer, which waits for the copy."""
        former, since = ended["node"], ended["hlc"]
        slot, slots = slot_in(ended), self.world.slots
        return (
            ended["type"] == "sess.expire"
            and self.world.partitions.loses_lease(former, since, CUT)
            and slots.arrived(node, slot, since, stamp) is not None
            and not slots.was_moved(former, slot, since, stamp)
        )

    def end(self, row: Row) -> None:
        owner = self.world.owner_of(row)
        session = self._open.get(owner)
        if session is not None and row["node"] not in (session.home.node, session.served):
            return  # a node that stood still ends what another one has taken over
        if row.get("reason") == "clean_start" and self._is_online(owner, row):
            session = None  # the client is connected with a later session, and the one that came with its slot ends
        if session is not None:
            if row["node"] != session.home.node and owner in self._armed:
                return  # a node whose slot is elsewhere gives the session up, and leaves the will to the next one
            lasts = session.durable or owner in self._armed
            if lasts and self.world.partitions.is_unleased(row["node"], row["hlc"]):
                self._slots[session.slot].perhaps[owner] = session, owner in self._armed, row
            self._finish(session, row)
        else:
            self._strange_ends[row["node"], owner[1], owner[2]] = row["hlc"]
        self._closed.discard(owner)
        if row.get("epoch"):
            self._ended.setdefault((owner[1], owner[2], row["epoch"]), row)

    def stored(self, row: Row) -> None:
        session = self._open.get(self.world.owner_of(row))
        if session is not None:
            session.durable = True

    def depth(self, row: Row) -> None:
        session = self._open.get(self.world.owner_of(row))
        if session is not None:
            session.depth = row["hlc"], row["count"]

    def arm(self, row: Row) -> None:
        owner = self.world.owner_of(row)
        self._armed.add(owner)
        if owner not in self._open:
            self._slots[slot_in(row)].waiting.add(owner)

    def disarm(self, row: Row) -> None:
        """A will is published or dropped. If the client is connected there, it is that of a former connection."""
        owner = self.world.owner_of(row)
        if not self._is_online(owner, row):
            self._armed.discard(owner)

    def _is_online(self, owner: Owner, row: Row) -> bool:
        """Whether the client is connected in the process that has written the row."""
        last = self._online.get(owner, [])[-1:]
        return any((each.node, each.boot, each.closed) == (row["node"], row["boot"], NEVER) for each in last)

    def arrive(self, row: Row) -> None:
        """A slot has another primary, where its sessions continue. A client without durable session and without a will
        is served by its gateway, and is not in its slot."""
        self.slot(row)
        revived = self._revive(row)
        slot = self._slots[row["slot"]]
        coming: defaultdict[tuple[str, ...], list[Session]] = defaultdict(list)
        here: dict[tuple[str, ...], int] = {}
        for owner in sorted(slot.open):
            session = self._open[owner]
            home = session.home
            dead = self.world.lives.had_died(home.node, home.boot, row["hlc"])
            by_will = self._has_will_in_slot(owner, row) and not slot.leaves_behind(session, row["node"])
            if home.node == row["node"] and self.world.owner(row["node"], *owner[1:], row["hlc"]) == owner:
                if not dead:
                    here[owner[1:]] = session.begun
            elif self._ended_there(row["node"], owner) > home.since:
                self._finish(session, row)
            elif session.durable or dead or by_will:
                coming[owner[1:]].append(session)
        for owner in sorted(slot.waiting):
            there = self.world.owner(row["node"], *owner[1:], row["hlc"])
            absent = owner not in self._open and there not in self._open
            if owner in self._armed and absent and node_of(owner) != row["node"]:
                self._moved.setdefault((row["node"], *owner[1:]), []).append((row["hlc"], owner))
        for client, sessions in coming.items():
            self._come(row, sessions, here.get(client, NONE))
        self._end_again(row, revived)
        slot.primary, slot.moved = row["node"], None

    def _come(self, row: Row, sessions: list[Session], here: int) -> None:
        """Open sessions of one client, at other nodes: one continues at the next primary, and older ones have ended.
        `here`: when a session began that the next primary has of the client already; older ones have ended, too. `NONE`
        if it has none: a session that began before the log continues as well.

        A newer one stays where it is: its node is a gateway, which serves a client without durable state while the
        primary is away."""
        going = max(sessions, key=lambda each: self._likelihood(each, row))
        for each in sessions:
            if each.begun < max(going.begun, here):
                self._finish(each, row)
        if going.begun > here:
            going.homes.append(Home(row["hlc"], row["node"], row["boot"]))
            there = row["node"], *going.owner[1:]
            self._moved.setdefault(there, []).append((row["hlc"], going.owner))

    def _likelihood(self, session: Session, row: Row) -> tuple[bool, bool, bool, bool, int]:
        """Returns which session of a client is rather in its slot when that arrives: a durable one, or one with a will;
        that of the last primary; that of a node that dies, or is out of the view of the next primary, because slots
        leave such nodes; or the newest."""
        home = session.home
        dies = self.world.lives.dies_silently(home.node, home.boot, row["hlc"])
        away = dies or self.world.views.left(row["node"], home.node, row["hlc"])
        was_primary = home.node == self._slots[session.slot].primary
        return session.durable, session.owner in self._armed, was_primary, away, session.begun

    def _ended_there(self, node: str, owner: Owner) -> int:
        """Returns when a node has ended a session that it did not have yet, as the log knows: it opens the sessions of
        a slot, and ends what has expired, before it says that the slot has arrived."""
        return self._strange_ends.get((node, *owner[1:]), BEFORE)

    def _revive(self, row: Row) -> list[tuple[Session, Row]]:
        """Open the sessions whose end another node may not know. Returns them, and the rows of their ends. A session
        at another node than the last primary was not in the slot: its end is final."""
        slot = self._slots[row["slot"]]
        perhaps, slot.perhaps = slot.perhaps, {}
        revived = []
        for owner, (session, armed, ended) in perhaps.items():
            had_the_slot = slot.primary in ("", session.home.node)
            ended_there = self._ended_there(row["node"], owner) > session.ended
            final = ended_there or self._ended_for_good(ended, row)
            if had_the_slot and session.home.node != row["node"] and owner not in self._open and not final:
                session.ended = NEVER
                session.rows.pop()
                self._open[owner] = session
                self._slots[session.slot].open.add(owner)
                if armed:
                    self._armed.add(owner)
                revived.append((session, ended))
        return revived

    def _ended_for_good(self, ended: Row, row: Row) -> bool:
        """Whether a node that ended a session without a lease has had a lease since then, and its slot was not taken
        away meanwhile: the next primary gets the slot without the session."""
        node, since, until = ended["node"], ended["hlc"], row["hlc"]
        back = any(since < each < until for each in self.world.partitions.returns_of(node))
        return back and not self.world.slots.was_taken(node, slot_in(ended), since, until)

    def _end_again(self, row: Row, revived: list[tuple[Session, Row]]) -> None:
        """What the next primary does not have was not in the slot: it has ended where it was."""
        for session, ended in revived:
            if session.ended == NEVER and session.home.node != row["node"]:
                self._finish(session, ended)

    def lose(self, row: Row) -> None:
        """The cluster gave up a disk with the last copy of slots: their durable sessions have ended, at whatever node
        the log has seen them last."""
        key = row["target"], row.get("view") or 0
        if row.get("view") and key in self._lost:
            return
        self._lost.add(key)
        self.world.given_up.setdefault(row["target"], []).append(row["hlc"])
        self.world.slots.lose(row)
        for slot in slots_of(row["slots"]):
            for owner in sorted(self._slots[slot].open):
                session = self._open[owner]
                if session.durable:
                    self._finish(session, row)

    def _current(self, owner: Owner, row: Row) -> Session:
        """Returns the open session. If the log shows no begin of the first one, it began before the log."""
        return self._open.get(owner) or self._begin(owner, row)

    def _begin(self, owner: Owner, row: Row) -> Session:
        self._closed.discard(owner)
        sessions = self._sessions.setdefault(owner, [])
        begun = row["hlc"] if sessions or row["type"] == "sess.create" else BEFORE
        session = Session(owner, len(sessions) + 1, slot_in(row), begun, [Home(begun, row["node"], row["boot"])])
        session.served = row["node"]
        session.rows.append(row_id(row))
        sessions.append(session)
        self._open[owner] = session
        self._slots[session.slot].open.add(owner)
        return session

    def _finish(self, session: Session, row: Row) -> None:
        session.ended = row["hlc"]
        session.rows.append(row_id(row))
        self._armed.discard(session.owner)
        del self._open[session.owner]
        self._slots[session.slot].open.discard(session.owner)

    # -- subscriptions

    def subscribe(self, row: Row) -> None:
        self.unsubscribe(row)
        self._gone(row, row["filter"])
        owner = self.world.owner_of(row)
        group, pattern = parse_shared(row["filter"])
        stamp = row["hlc"]
        answered = NEVER if row["v"] >= ANSWERED_SINCE else stamp
        held = Held(self._current(owner, row).key, pattern, group, row["qos"], stamp, answered)
        self._held[owner, group, pattern] = held
        self._subscriptions.setdefault(filter_key(held), []).append(held)

    def answered(self, row: Row) -> None:
        owner = self.world.owner_of(row)
        for each, code in zip(row["filters"], row["codes"], strict=True):
            held = self._held.get((owner, *parse_shared(each)))
            if held is not None and int(code) < REFUSED and self._is_open(held):
                held.answered = min(held.answered, row["hlc"])

    def unsubscribe(self, row: Row) -> None:
        owner = self.world.owner_of(row)
        key = (owner, *parse_shared(row["filter"]))
        held = self._held.pop(key, None)
        if held is not None and self._is_open(held):
            held.until = row["hlc"]
            self._removed[key] = held
            if row["v"] < ANSWERED_SINCE:
                self._gone(row, row["filter"])

    def _is_open(self, held: Held) -> bool:
        owner, number = held.session
        session = self._open.get(owner)
        return session is not None and session.number == number

    def removed(self, row: Row) -> None:
        for each in row["filters"]:
            self._gone(row, each)

    def _gone(self, row: Row, filter: str) -> None:
        held = self._removed.pop((self.world.owner_of(row), *parse_shared(filter)), None)
        if held is not None:
            held.gone = row["hlc"]

    def bring(self, row: Row) -> None:
        self.world.brought.add((self.world.owner_of(row), row["topic"]))


_HANDLERS: Final = {
    "node.start": _Builder.started,
    "node.join": _Builder.joined,
    "node.stats": _Builder.wrote,
    "log.sample": _Builder.wrote,
    "config.change": _Builder.changed,
    "store.state": _Builder.store,
    "lease.get": _Builder.life,
    "lease.lose": _Builder.life,
    "mem.down": _Builder.life,
    "mem.up": _Builder.life,
    "mem.view": _Builder.life,
    "split.detect": _Builder.incident,
    "split.change": _Builder.incident,
    "split.heal": _Builder.incident,
    "fault.kill": _Builder.killed,
    "conn.open": _Builder.connected,
    "conn.close": _Builder.disconnected,
    "sess.create": _Builder.create,
    "sess.resume": _Builder.resume,
    "sess.expire": _Builder.end,
    "sess.end": _Builder.end,
    "slot.arrive": _Builder.arrive,
    "slot.copied": _Builder.copied,
    "slot.lost": _Builder.lose,
    "slot.loss_possible": _Builder.slot,
    "slot.move": _Builder.slot,
    "slot.moved": _Builder.move,
    "slot.taken": _Builder.lose_to_another,
    "sub.add": _Builder.subscribe,
    "sub.ack": _Builder.answered,
    "sub.del": _Builder.unsubscribe,
    "unsub.ack": _Builder.removed,
    "will.arm": _Builder.arm,
    "will.fire": _Builder.disarm,
    "will.cancel": _Builder.disarm,
    "q.depth": _Builder.depth,
    "q.durable": _Builder.stored,
    "ret.deliver": _Builder.bring,
}
TYPES: Final = frozenset(_HANDLERS) - {"q.durable", "ret.deliver"}
"""The types of rows that a world is built from."""
