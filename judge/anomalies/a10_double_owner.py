"""A10 double-owner: two connections of one client id are served at the same time, beyond a takeover.

The intervals of two connections overlap for more than 2 s (`overlap`). An interval ends with the end of the connection,
and at the latest with the last row of its boot. It is expected in a split: not judged if one of the two nodes had no
lease when the overlap began or ended, or the former one was out of the view of the other. A node that has just started
or joined has no lease.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ..findings import Finding, Subject
from ..rows import LOGICAL_BITS, NEVER, Row, in_order, row_id
from ..world import World

ID = "A10"
GRACE: Final = 2_000 << LOGICAL_BITS
"""How long two connections may overlap, 2 s."""
TYPES: Final = frozenset(("conn.open", "conn.close"))
"""The types of rows that are judged."""


@dataclass(slots=True)
class _Connection:
    opened: Row
    closed: int


def judge(rows: Iterable[Row], world: World) -> Iterator[Finding]:
    """Judge the rows of one client, of all nodes."""
    connections: list[_Connection] = []
    by_number: dict[tuple[str, int, int], _Connection] = {}
    for row in in_order(each for each in rows if each["type"] in TYPES):
        key = row["node"], row["boot"], row.get("conn") or 0
        if row["type"] == "conn.open":
            boot = world.lives.boots.get(key[:2])
            by_number[key] = _Connection(row, NEVER if boot is None else boot.last_hlc)
            connections.append(by_number[key])
        elif key in by_number:
            by_number[key].closed = row["hlc"]
    longest: _Connection | None = None
    for each in connections:
        if (
            longest is not None
            and longest.closed - each.opened["hlc"] > GRACE
            and each.closed - GRACE > each.opened["hlc"]
        ):
            yield from _overlap(longest, each, world)
        if longest is None or each.closed > longest.closed:
            longest = each


def _overlap(former: _Connection, later: _Connection, world: World) -> Iterator[Finding]:
    begin, end = later.opened["hlc"], min(former.closed, later.closed)
    nodes = former.opened["node"], later.opened["node"]
    parts = world.partitions
    if any(parts.is_unleased(node, at) for node in nodes for at in (begin, end)):
        return
    if parts.was_out_of_view(nodes[1], nodes[0], begin, end):
        return
    row = later.opened
    detail = f"{row['node']}, boot {row['boot']}, row {row['seq']}"
    subject = Subject(mountpoint=row.get("mountpoint") or "", client=row["client"], detail=detail)
    text = f"two connections of {row['client']}: at {nodes[0]} and at {nodes[1]}"
    ms = (end - begin) >> LOGICAL_BITS
    yield Finding(ID, "overlap", "error", subject, begin, text, (row_id(former.opened), row_id(row)), value=ms)
