"""A14 will: a will was not published, published twice, or published although it was not due.

- `lost`: the connection or the session with the will ended, and its will is neither published nor cancelled;
- `dup`: it was published again;
- `spurious`: it was published after it was cancelled, or without any will.

Exceptions that the log shows:

- A kill may undo the record that a will was published or cancelled: that is final only when it is on a disk. The next
  boot publishes the will once more, unless the first one was safe in a queue of its node. So it does with the last one
  that had been due for a while. The same holds for a node that is cut off or stands still: another one takes over the
  slot, with what its copy has. If the client waits for its CONNACK then, its present will may follow.
- A node without a lease publishes a will at the heal, after the end of its session or beside the next connection.
- A will in doubt (below) waits until its node has had a lease for 5 s in one go. It is not lost while no node with the
  slot has had one for 6 s.
- A node whose disk the cluster has given up publishes and drops nothing any more: its wills are gone. So are those of
  a node that joins once more, with an empty disk, unless their session had gone to another node before. A will that
  went with its slot is gone with the disk of that other node.
- A client has connected again while its node did not know whether the gateway of the former connection lives. The node
  publishes or drops (`gateway_lost`) the former will later, and keeps the present one.
- A will that is due and not published yet goes with its slot, for example while its node does not know whether the
  gateway lives: the next primary publishes or drops it. If it drops the will of a client that is back (`resumed`), a
  former will stays due. If the former primary has died, or lost the slot without a move, the copy may have had that
  one as the will of the client: then no other one need follow, and one may.
- A node has a will of a connection that has ended, and perhaps one that was due at a node that has died. What it
  publishes first is its own one, unless it drops that later (`resumed`).
- A node that is out of the view loses its slots. It says so of those that have sessions there; of the others only the
  next primary does.
- The next primary may publish a will less than 1 s before it says that the slot has arrived.
- The client may be connected at the next primary when its former session comes there with the slot, and ends
  (`clean_start`). The will of the connection is not due then.
- A node that has never had the slot, or has lost it, may serve the client with a will of its own. The will of the slot
  is another one: it goes with the slot, also back to that node while the client is connected there. Each of the two is
  published; that of the slot may be dropped (`resumed`) when the client is back. It is lost if the slot has left its
  node, the client was served elsewhere since then, and no node says what became of the will.
- A connection that ended before its CONNACK by a kill, or because its node lost the slot: its will may not have been on
  a disk. A node that stands still says only later that it lost the slot.
- A loss of power without fsync may take a will that is due: it need not be published, and may be.

A finding is not sure if the cluster said meanwhile that the client's slot may have lost changes (`slot.loss_possible`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..findings import Finding, Subject
from ..rows import LOGICAL_BITS, NEVER, Owner, Row, in_order, message_id_of, node_of, row_id, slot_in
from ..world import World

ID = "A14"


@dataclass
class _Wills:
    """The wills of one client. `state`: armed, fired, cancelled, or "" if it has none. `promised`: the client of the
    armed one has its CONNACK. `last`: the row with which the last one was published or cancelled. `due`: the rows of
    wills, and those that made them due, that are not published yet. `ends`: when sessions of the client ended."""

    ends: frozenset[int]
    state: str = ""
    armed: Row | None = None
    promised: bool = False
    last: Row | None = None
    due: list[tuple[Row | None, Row]] = field(default_factory=list)
    answered: tuple[tuple[Row | None, Row], Row] | None = None
    """The will that was due and published last, and the row that says so."""
    again: bool = False
    """The last one was published while the client of the armed one had no CONNACK. It was perhaps one from before,
    whose record a kill has undone."""
    undone: list[tuple[Row | None, Row]] = field(default_factory=list)
    """Wills that were due, and that may be published or not. Either their node has died or lost the slot: the copy of
    the slot had them as armed or as due. Or a loss of power may have taken them."""

    @property
    def said(self) -> Row | None:
        """The newest row with which a will was published or cancelled."""
        rows = [self.last, None if self.answered is None else self.answered[1]]
        return max((row for row in rows if row is not None), key=lambda row: row["hlc"], default=None)

    def arm(self, row: Row, world: World) -> None:
        """A connection has a will. In logs before version 7 of the schema its conn.open stands before this row."""
        self.end(row, world)
        self.state, self.armed, self.promised, self.again = "armed", row, row["v"] < ARMED_FIRST, False

    def open(self, row: Row, world: World) -> None:
        """A connection has its CONNACK: that of the armed will, or the next one."""
        armed = self.armed if self.again or (self.state == "armed" and not self.promised) else None
        with_will = row.get("will_delay_s") is not None
        if armed is not None and with_will and (armed["node"], armed["boot"]) == (row["node"], row["boot"]):
            self.state, self.promised = "armed", True
        else:
            self.end(row, world)
        self.again = False

    def end(self, row: Row, world: World) -> None:
        """The connection with the will has ended: note that its will is due if the log has not shown its end."""
        if self.state == "armed" and (self.promised or not _is_unsafe(self.armed, row, world)):
            self._owe(row)
        if self.state == "armed" or row["hlc"] in self.ends:
            self.state = ""

    def publish(self, row: Row) -> None:
        """The first of the wills that are due is published."""
        self.answered = self.due.pop(0), row

    def _owe(self, row: Row) -> None:
        """The armed will is due. If one was published just before, that was this one, and the former one still is."""
        if self.answered is not None and _follows(row, self.answered[1]):
            self.due.insert(0, self.answered[0])
        else:
            self.due.append((self.armed, row))


def _follows(row: Row, fired: Row) -> bool:
    """Whether a session ended with its will: the row of its end stands behind that of the will, or behind that of its
    expiry."""
    return (row["node"], row["boot"]) == (fired["node"], fired["boot"]) and row["seq"] - fired["seq"] <= 2


ARMED_FIRST: Final = 7
"""The version of the schema from which on `will.arm` stands before `conn.open`."""
TYPES: Final = frozenset(
    ("conn.open", "sess.create", "sess.end", "sess.expire", "will.arm", "will.fire", "will.cancel")
)
"""The types of rows that are judged."""


GRACE: Final = 5_000 << LOGICAL_BITS
"""A log must go on for so long, 5 s, after a will was due."""
WAIT: Final = 6_000 << LOGICAL_BITS
"""A node that has had a lease for so long, 6 s, has published or dropped the wills that were in doubt."""
ARRIVAL: Final = 1_000 << LOGICAL_BITS
"""A node has sessions of a slot for less than this, 1 s, before it says that the slot has arrived."""


def judge(rows: Iterable[Row], world: World) -> Iterator[Finding]:
    """Judge the rows of one client, of all nodes and sessions."""
    clients: dict[Owner, _Wills] = {}
    for row in in_order(each for each in rows if each["type"] in TYPES):
        owner = _arriving(row, clients, world) or world.owner_of(row)
        if owner not in clients:
            clients[owner] = _Wills(frozenset(each.ended for each in world.sessions.get(owner, ())))
        wills = clients[owner]
        if row["type"] == "will.arm":
            wills.arm(row, world)
        elif row["type"] == "will.fire":
            _forget(owner, wills, row, world)
            yield from _fired(owner, wills, row, _elsewhere(owner, clients), world)
        elif row["type"] == "will.cancel":
            _forget(owner, wills, row, world)
            _cancelled(owner, wills, row, _elsewhere(owner, clients), world)
        elif row["type"] == "conn.open":
            wills.open(row, world)
        elif row["hlc"] in wills.ends and not _is_of_another(owner, wills, row, world):
            wills.end(row, world)
    for owner, wills in clients.items():
        yield from _lost(owner, wills, _elsewhere(owner, clients), world)


def _is_of_another(owner: Owner, wills: _Wills, row: Row, world: World) -> bool:
    """Whether a row ends another session than that with the present will: the next one begins, or the former one came
    with its slot when the client was connected already."""
    if row["type"] == "sess.create":
        return wills.state == "armed"
    return row.get("reason") == "clean_start" and _is_online(owner, row, world)


def _arriving(row: Row, clients: Mapping[Owner, _Wills], world: World) -> Owner | None:
    """Returns whose armed will a node publishes before it says that the slot has arrived; None if it has a will of the
    client itself, or no slot arrives."""
    if row["type"] != "will.fire":
        return None
    owner = world.owner_of(row)
    soon = world.owner(row["node"], owner[1], owner[2], row["hlc"] + ARRIVAL)
    own, coming = clients.get(owner), clients.get(soon)
    has_none = own is None or not (own.due or own.state == "armed")
    return soon if has_none and coming is not None and coming.state == "armed" else None


def _elsewhere(owner: Owner, clients: Mapping[Owner, _Wills]) -> list[_Wills]:
    """Returns the wills of the same client that began at other nodes."""
    return [each for key, each in clients.items() if key[1:] == owner[1:] and key != owner]


def _came_along(elsewhere: Iterable[_Wills], row: Row, world: World) -> bool:
    """Whether a will was due elsewhere, or armed at a node that has lost the slot, and the slot has come to the node of
    a row since then. It is due no more."""
    for wills in elsewhere:
        if wills.state == "armed" and _has_come(wills.armed, row, world):
            wills.state = ""
            return True
        for due in wills.due:
            if _went_on(due[1], row, world):
                wills.due.remove(due)
                return True
    return False


def _has_come(armed: Row | None, row: Row, world: World) -> bool:
    """Whether a node has lost the client's slot after it had got a will, and the slot has come to that of a row."""
    if armed is None or not _has_left(armed, row["hlc"], world):
        return False
    return world.slots.arrived(row["node"], slot_in(armed), armed["hlc"], row["hlc"] + ARRIVAL) is not None


def _went_on(ended: Row, row: Row, world: World) -> bool:
    """Whether the node of a row has died, or lost the client's slot, so that the node of a later row has its wills."""
    if ended["node"] == row["node"]:
        return False
    return _given_up(ended, row, world) or _lost_the_slot(ended, row, world)


def _is_lost(ended: Row, row: Row, world: World) -> bool:
    """Whether the node of a row has died, or lost the client's slot without a move, so that the node of a later row
    may not know that a will is due."""
    if ended["node"] == row["node"]:
        return False
    return world.lives.had_died(ended["node"], ended["boot"], row["hlc"]) or _lost_the_slot(ended, row, world)


def _given_up(armed: Row | None, later: Row, world: World) -> bool:
    """Whether a node has died, or lost the client's slot, between a will and a later row."""
    if armed is None:
        return False
    if world.lives.had_died(armed["node"], armed["boot"], later["hlc"]):
        return True
    return _has_left(armed, later["hlc"], world)


def _is_unsafe(armed: Row | None, row: Row, world: World) -> bool:
    """Whether a will without CONNACK may not have come to the node of a later row. Its own node may learn only after
    that row that it has lost the slot."""
    return armed is not None and (_given_up(armed, row, world) or _lost_the_slot(armed, row, world))


def _lost(owner: Owner, wills: _Wills, elsewhere: list[_Wills], world: World) -> Iterator[Finding]:
    if world.partitions.span_without_lease(node_of(owner), NEVER - 1) is not None:
        return
    due = [(armed, ended, ended) for armed, ended in wills.due]
    for armed, ended, since in (*due, *_left(wills, elsewhere, world)):
        rows = _of(armed, ended)
        known = ended["hlc"] + GRACE <= _known(since, world) and _had_time(ended, since, world)
        if known and not _is_gone(owner, rows, world):
            yield _finding("lost", owner, world, *rows)


def _left(wills: _Wills, elsewhere: Iterable[_Wills], world: World) -> Iterator[tuple[Row, Row, Row]]:
    """Yields the armed will if it has left its node with its slot, and its client was served elsewhere since then. It
    is due, although no node says so."""
    armed = wills.armed
    if wills.state == "armed" and wills.promised and armed is not None and _has_left(armed, NEVER, world):
        later = [each.armed for each in elsewhere if each.armed is not None and each.armed["hlc"] > armed["hlc"]]
        if later:
            yield armed, min(later, key=lambda row: row["hlc"]), armed


def _has_left(armed: Row, until: int, world: World) -> bool:
    """Whether the node of a will has lost the client's slot since then, before a stamp."""
    left = world.slots.left.get((armed["node"], slot_in(armed)), ())
    return any(armed["hlc"] < stamp < until for stamp in left)


def _had_time(ended: Row, since: Row, world: World) -> bool:
    """Whether a node that had the slot has had a lease for so long that no will waits there any more. `since`: a row of
    a node that had the slot."""
    return any(
        world.partitions.had_for(node, max(begin, ended["hlc"]), end, WAIT, world.lives.end)
        for node, begin, end in world.slots.holders(since["node"], slot_in(since), since["hlc"])
    )


def _known(since: Row, world: World) -> int:
    """Returns the stamp up to which the logs have what became of a will that a node had at a row: that of the node, or
    those of all nodes if it went with its slot."""
    return world.lives.known_everywhere if _has_left(since, NEVER, world) else world.lives.known_up_to(since["node"])


def _of(armed: Row | None, ended: Row) -> tuple[Row, ...]:
    return (ended,) if armed is None else (armed, ended)


def _is_gone(owner: Owner, rows: tuple[Row, ...], world: World, until: int = NEVER) -> bool:
    """Whether the cluster had lost the disk with a will before a stamp. It gave the disk up, also that of a
    node that had got the slot meanwhile; or the node, which had the session, joined once more, with an empty disk.
    `rows`: the will, if the log has it, and what made it due. A node with a lease has published the will soon after
    that."""
    begin, ended = rows[0]["hlc"], rows[-1]
    end = NEVER if world.partitions.is_unleased(ended["node"], ended["hlc"]) else ended["hlc"] + GRACE
    end = min(end, until)
    node = rows[0]["node"]
    homes = [home for session in world.sessions.get(owner, ()) for home in session.homes if home.node != node]
    gone = any(
        begin < stamp < end and not any(begin < home.since < stamp for home in homes)
        for stamp in world.joins.get(node, ())
    )
    gone = gone or world.slots.lost_elsewhere(node, slot_in(ended), begin, end)
    return gone or any(world.was_given_up(row["node"], row["boot"], end) for row in rows)


def _forget(owner: Owner, wills: _Wills, row: Row, world: World) -> None:
    """Before a row about a will: those that went with their disk are not due any more. Those that a loss of power may
    have taken need not be published."""
    due = [each for each in wills.due if not _is_gone(owner, _of(*each), world, row["hlc"])]
    uncertain = [each for each in due if _may_be_lost(*each, row, world)]
    wills.due = [each for each in due if each not in uncertain]
    wills.undone += uncertain


def _fired(owner: Owner, wills: _Wills, row: Row, elsewhere: list[_Wills], world: World) -> Iterator[Finding]:
    if wills.due:
        wills.publish(row)
        return
    is_own, online = wills.state == "armed" and wills.promised, _is_online(owner, row, world)
    if (online or not is_own) and _came_along(elsewhere, row, world):
        return
    if wills.undone and (wills.state != "armed" or online):
        wills.undone.pop(0)
        return
    inside = world.lives.first_boot[row["node"]] == 1
    wills.last = _last(wills, elsewhere, row, world)
    undone, follows = _undone(wills.last, row, world), wills.again
    if wills.undone and not is_own:
        wills.undone.pop(0)
        undone = True
    if not (undone or is_own) and wills.answered is not None and _undone(wills.answered[1], row, world):
        undone, wills.answered = True, None
    wills.again = wills.state == "armed" and not wills.promised and undone
    if wills.state != "armed" and inside and not undone and not follows:
        last = (wills.last,) if wills.last is not None else ()
        yield _finding("dup" if wills.state == "fired" else "spurious", owner, world, *last, row)
    wills.state, wills.last = "fired", row


def _is_online(owner: Owner, row: Row, world: World) -> bool:
    """Whether the client is connected to the node that wrote a row. If so, the row is not about the will of this
    connection."""
    there = world.online_between(owner, row["hlc"], row["hlc"] + 1)
    return any((each.node, each.boot) == (row["node"], row["boot"]) for each in there)


def _may_be_lost(armed: Row | None, ended: Row, later: Row, world: World) -> bool:
    """Whether a loss of power without fsync may have taken a will that is due, before a later row."""
    first = ended if armed is None else armed
    return world.may_be_undone((first["node"],), first["hlc"], later["hlc"])


def _last(wills: _Wills, elsewhere: Iterable[_Wills], row: Row, world: World) -> Row | None:
    """Returns the row with which the last will was published or cancelled. That was perhaps at another node, which has
    lost the slot, so that its record may be undone."""
    since = -1 if wills.said is None else wills.said["hlc"]
    there = (each.said for each in elsewhere)
    undone = [said for said in there if said is not None and said["hlc"] > since and _undone(said, row, world)]
    return max(undone, key=lambda each: each["hlc"], default=wills.last)


def _undone(last: Row | None, row: Row, world: World) -> bool:
    """Whether a kill, or the loss of the slot, may have undone the last row of a will."""
    if last is None or (last["node"], last["boot"]) == (row["node"], row["boot"]):
        return False
    if not (world.lives.had_died(last["node"], last["boot"], row["hlc"]) or _lost_the_slot(last, row, world)):
        return False
    return last["type"] == "will.cancel" or message_id_of(last) not in world.safe_wills


def _lost_the_slot(last: Row, row: Row, world: World) -> bool:
    """Whether another node has taken over the client's slot after a row of a node, which may be why the later row is of
    that node. The former says so, unless the slot had no session there any more. The latter says that the slot has
    arrived, while the former was out of its view."""
    node, other, slot, since = last["node"], row["node"], slot_in(last), last["hlc"]
    if node == other:
        return False
    if any(since < stamp for stamp in world.slots.taken.get((node, slot), ())):
        return True
    arrived = world.slots.arrived(other, slot, since, row["hlc"] + ARRIVAL)
    if arrived is None or not world.views.left(other, node, arrived):
        return False
    return not world.slots.was_moved(node, slot, since, arrived)


def _cancelled(owner: Owner, wills: _Wills, row: Row, elsewhere: list[_Wills], world: World) -> None:
    if row["reason"] == "gateway_lost":  # its client has taken the connection over, with a new will
        if wills.due:
            wills.due.pop(0)
            return
        if _came_along(elsewhere, row, world):
            return
        if wills.undone:
            wills.undone.pop(0)
            return
    elif row["reason"] == "resumed":  # the client has come back to the next primary before its wills were published
        if _is_online(owner, row, world) and _came_along(elsewhere, row, world):
            return
        undone = [each for each in wills.due if _is_lost(each[1], row, world)]
        wills.due = [each for each in wills.due if each not in undone]
        wills.undone += undone
        last = wills.last
        if wills.state == "fired" and last is not None and (last["node"], last["boot"]) == (row["node"], row["boot"]):
            _came_along(elsewhere, last, world)  # that one was published, and the own one waited until now
    wills.state, wills.last = "cancelled", row


def _finding(kind: str, owner: Owner, world: World, *rows: Row) -> Finding:
    last = rows[-1]
    subject = Subject.of(owner, detail=f"{last['node']}, boot {last['boot']}, row {last['seq']}")
    text = f"will {kind}: {owner[2]}"
    # what published or cancelled it may be in a part of the log that was lost
    sure = world.lives.lost_after((row["node"] for row in rows), rows[0]["hlc"]) == NEVER
    # the will, or the record of its end, may have been on a disk that the cluster does without
    until = NEVER if kind == "lost" else last["hlc"]
    sure = sure and world.slots.doubtful_after(slot_in(last), rows[0]["hlc"]) >= until
    return Finding(ID, kind, "fatal", subject, last["hlc"], text, tuple(map(row_id, rows)), sure)
