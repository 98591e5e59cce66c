"""A14 will: a will was not published, published twice, or published although it was not due.

Each will has a name in the log. `will.arm` says that a node has it, `conn.open` that its client has the CONNACK. It is
over when it is published (`will.fire`) or dropped (`will.cancel`).

- `lost`: its connection has ended, by `conn.close` or with its node, and it is neither published nor dropped. A node
  that had the slot of its client has had a lease for the delay of the will and 12 s more since then;
- `dup`: it was published again;
- `spurious`: it was published after it was dropped, more than 1 s before its own connection ended at the same node,
  or without `will.arm`.

Exceptions that the log shows:

- A kill may undo the record that a will was published or dropped: it is final only when it is on a disk. The next boot
  publishes the will once more, unless the first one was safe in a queue of its node. The same holds for a node that is
  cut off or stands still: another one takes over the slot, with what its copy has.
- A node publishes a will only with a lease: one that a client had at a node without one may wait there.
- A node whose disk the cluster has given up publishes and drops nothing any more: its wills are gone. So are those of
  a node that joins once more, with an empty disk, and of a slot whose last copy is lost.
- A will without CONNACK may not have been on a disk: it is not lost.

Wills of logs before version 10 of the schema have no names, and are not judged. A finding is not sure if the cluster
said meanwhile that the client's slot may have lost changes (`slot.loss_possible`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ..findings import Finding, Subject
from ..rows import LOGICAL_BITS, NEVER, Row, in_order, message_id_of, row_id, slot_in
from ..world import World

ID = "A14"
TYPES: Final = frozenset(("conn.open", "conn.close", "will.arm", "will.fire", "will.cancel"))
"""The types of rows that are judged."""
WAIT: Final = 12_000 << LOGICAL_BITS
"""A node that has a lease publishes a will so long, 12 s, after its delay at the latest: it waits 5 s for the client,
and 5 s if it does not know whether the gateway lives."""
SOON: Final = 1_000 << LOGICAL_BITS
"""Rows about one event are so far apart at most, 1 s: a will that is published, and the end of its connection, or the
arrival of its slot."""


@dataclass
class _Will:
    """What the log says of one will: that a node has it, that its connection has begun and ended, and in order with
    which rows it was published or dropped."""

    armed: Row | None = None
    opened: Row | None = None
    closed: Row | None = None
    over: list[Row] = field(default_factory=list)


def judge(rows: Iterable[Row], world: World) -> Iterator[Finding]:
    """Judge the rows of one client, of all nodes and sessions."""
    wills: dict[str, _Will] = {}
    connections: dict[tuple[str, int, int], _Will] = {}
    for row in in_order(each for each in rows if each["type"] in TYPES):
        kind, connection = row["type"], (row["node"], row["boot"], row.get("conn") or 0)
        if kind == "conn.close" and connection in connections:
            connections[connection].closed = row
        elif row.get("will"):
            will = wills.setdefault(row["will"], _Will())
            if kind == "will.arm":
                will.armed = row
            elif kind == "conn.open":
                will.opened = row
                connections[connection] = will
            else:
                will.over.append(row)
    for name, will in wills.items():
        yield from _published(name, will, world)
        yield from _lost(will, world)


def _published(name: str, will: _Will, world: World) -> Iterator[Finding]:
    for place, row in enumerate(will.over):
        if row["type"] == "will.cancel":
            continue
        before = [each for each in will.over[:place] if not _is_undone(will, each, row, world)]
        if any(each["type"] == "will.fire" for each in before):
            yield _finding("dup", will, world, before[-1], row)
        elif before or _is_early(will, row, world) or (will.armed is None and _began_inside(name, world)):
            yield _finding("spurious", will, world, *before[-1:], row)


def _is_undone(will: _Will, last: Row, row: Row, world: World) -> bool:
    """Whether a kill, or the loss of the slot, may have undone what a row says, before a later row."""
    if (last["node"], last["boot"]) == (row["node"], row["boot"]):
        return False
    if last["type"] == "will.fire" and message_id_of(last) in world.safe_wills:
        return False
    return world.lives.had_died(last["node"], last["boot"], row["hlc"]) or _lost_the_slot(will, last, row, world)


def _lost_the_slot(will: _Will, last: Row, row: Row, world: World) -> bool:
    """Whether the node of a later row has taken the slot over without a move from that of a row. The former one says
    so, unless the slot had no session there any more. Then it was out of the view of the next one."""
    node, other, slot, slots = last["node"], row["node"], _slot(will, row), world.slots
    if slots.was_taken(node, slot, last["hlc"], NEVER):
        return True
    since = (will.armed or last)["hlc"]
    arrived = slots.arrived(other, slot, since, row["hlc"] + SOON)
    if arrived is None or not world.views.left(other, node, arrived):
        return False
    return not slots.was_moved(node, slot, since, arrived)


def _is_early(will: _Will, row: Row, world: World) -> bool:
    """Whether a will was published by the node that still had its connection."""
    opened, closed = will.opened, will.closed
    if opened is None or (opened["node"], opened["boot"]) != (row["node"], row["boot"]):
        return False
    last: int = world.lives.boots[row["node"], row["boot"]].last_hlc if closed is None else closed["hlc"]
    fired: int = row["hlc"]
    return fired + SOON < last


def _began_inside(name: str, world: World) -> bool:
    """Whether the log begins with the node that has named a will."""
    return world.lives.first_boot.get(name.rpartition("/")[0]) == 1


def _lost(will: _Will, world: World) -> Iterator[Finding]:
    armed, opened = will.armed, will.opened
    if armed is None or opened is None or will.over:
        return
    ended = _ended(will, opened, world)
    delay_s = min(opened["will_delay_s"], opened["expiry_s"])
    if _had_time(armed, ended, WAIT + (delay_s * 1000 << LOGICAL_BITS), world) and not _is_gone(armed, world):
        yield _finding("lost", will, world, armed, opened if will.closed is None else will.closed)


def _ended(will: _Will, opened: Row, world: World) -> int:
    """Returns when a connection has ended, or its node has started again after that."""
    if will.closed is not None:
        return int(will.closed["hlc"])
    return world.lives.followed(opened["node"], opened["boot"])


def _had_time(armed: Row, ended: int, needed: int, world: World) -> bool:
    """Whether a node that had the slot has had a lease for so long since the end of a connection, as far as the log
    goes. Its own node, too: the will may be there still, if the slot has no copies."""
    node, slot, lives, partitions = armed["node"], slot_in(armed), world.lives, world.partitions
    left = any(armed["hlc"] < stamp for stamp in world.slots.left.get((node, slot), ()))
    alone = not left and lives.death(node, armed["boot"]) == NEVER
    known = min(lives.known_up_to(node) if alone else lives.known_everywhere, lives.end)
    for holder, begin, end in world.slots.holders(node, slot, armed["hlc"]):
        begin, end = max(begin, ended), min(end, known)
        if end - begin >= needed and partitions.had_for(holder, begin, end, needed, known):
            waits = partitions.span_without_lease(node, known) is not None
            return not waits and partitions.had_for(node, ended, known, WAIT, known)
    return False


def _is_gone(armed: Row, world: World) -> bool:
    """Whether the cluster has lost the disk with a will."""
    node, since = armed["node"], armed["hlc"]
    if any(since < stamp for stamp in world.joins.get(node, ())):
        return True
    return world.was_given_up(node, armed["boot"], NEVER) or world.slots.lost_after(slot_in(armed), since)


def _slot(will: _Will, row: Row) -> int:
    return slot_in(will.armed or row)


def _finding(kind: str, will: _Will, world: World, *rows: Row) -> Finding:
    first, last, slot = rows[0], rows[-1], _slot(will, rows[-1])
    detail = f"{last['node']}, boot {last['boot']}, row {last['seq']}"
    subject = Subject(last["node"], world.mountpoint(last), last["client"], detail=detail)
    # what published or dropped it may be in a part of the log that was lost
    nodes = [row["node"] for row in rows]
    if kind == "lost":
        nodes = [node for node, _, _ in world.slots.holders(first["node"], slot, first["hlc"])]
    sure = world.lives.lost_after(nodes, first["hlc"]) == NEVER
    # the will, or the record of its end, may have been on a disk that the cluster does without
    until = NEVER if kind == "lost" else last["hlc"]
    sure = sure and world.slots.doubtful_after(slot, first["hlc"]) >= until
    text = f"will {kind}: {last['client']}"
    return Finding(ID, kind, "fatal", subject, last["hlc"], text, tuple(map(row_id, rows)), sure)
