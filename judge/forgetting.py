"""Which rows of a growing log say nothing any more about what will be judged.

A world is built from all rows of `judge.building.TYPES` and of conn.close. A reader that follows a log for months keeps
only those that still matter from a stamp on: the present sessions and subscriptions of clients, the last settings and
views of nodes. What is left depends on the clients and nodes there are, not on how long the log is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from .rows import Row, in_order

_BEGINS: Final = frozenset(("sess.create",))
_ENDS: Final = frozenset(("sess.end", "sess.expire"))
_LAST_ALONE: Final = frozenset(
    ("conn.open", "conn.close", "sess.resume", "q.depth", "will.arm", "will.fire", "will.cancel")
)
"""Of these rows of a client the last one says all."""
_SUBSCRIBES: Final = frozenset(("sub.add", "sub.del"))
_ANSWERS: Final = frozenset(("sub.ack", "unsub.ack"))
OF_CLIENTS: Final = _BEGINS | _ENDS | _LAST_ALONE | _SUBSCRIBES | _ANSWERS
"""The types of rows of clients of which some are forgotten."""
OF_NODES: Final = frozenset(
    (
        "node.start",
        "node.join",
        "node.stats",
        "log.sample",
        "config.change",
        "store.state",
        "lease.get",
        "lease.lose",
        "fault.kill",
        "mem.down",
        "mem.up",
        "mem.view",
        "split.detect",
        "split.change",
        "split.heal",
    )
)
"""The same of nodes. All rows of other types stay."""


def needed(rows: Iterable[Row], since: int) -> list[Row]:
    """Returns the rows that matter for what is judged from the stamp `since` on, in order."""
    kept = []
    of_clients: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    of_nodes: defaultdict[str, list[Row]] = defaultdict(list)
    for row in in_order(rows):
        if row["hlc"] < since and row["type"] in OF_CLIENTS:
            of_clients[row.get("mountpoint") or "", row["client"]].append(row)
        elif row["hlc"] < since and row["type"] in OF_NODES:
            of_nodes[row["node"]].append(row)
        else:
            kept.append(row)
    for each in of_clients.values():
        kept += _of_client(each)
    for each in of_nodes.values():
        kept += _of_node(each)
    return in_order(kept)


def _of_client(rows: Sequence[Row]) -> list[Row]:
    """The rows of the present session, if there is one: its first, and the last of each kind."""
    begin = 0
    for at, row in enumerate(rows):
        if row["type"] in _ENDS:
            begin = at + 1
        elif row["type"] in _BEGINS:
            begin = at
    rows = rows[begin - 1 if begin and rows[begin - 1]["type"] == "conn.open" else begin :]
    kept = [*rows[:1]]
    subscribed: dict[str, list[Row]] = {}
    last: dict[str, Row] = {}
    for row in rows[1:]:
        if row["type"] in _LAST_ALONE:
            last[row["type"]] = row
        elif row["type"] in _SUBSCRIBES:
            of_filter = subscribed.setdefault(row["filter"], [])
            if row["type"] == "sub.add":
                of_filter.clear()
            of_filter.append(row)
        elif row["type"] in _ANSWERS:
            for each in row["filters"]:
                subscribed.setdefault(each, []).append(row)
        else:
            kept.append(row)
    found = {id(row): row for several in subscribed.values() for row in _unless_over(several)}
    return [*kept, *last.values(), *found.values()]


def _unless_over(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows of one filter; none if its UNSUBACK has left."""
    return () if any(row["type"] == "unsub.ack" for row in rows) else rows


def _of_node(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows of a node that still say what holds: its last start, the settings changed since then, its last
    view, lease and incident."""
    last: dict[str, Row] = {}
    views: list[Row] = []
    incident: list[Row] = []
    for row in rows:
        kind = row["type"]
        if kind == "node.start":
            views, incident = [], []
        if kind.startswith("mem."):
            views = [row] if kind == "mem.view" else [*views, row]
        elif kind.startswith("split."):
            incident = [] if kind == "split.heal" else [*incident, row]
        else:
            last[_name(row)] = row
    return [*last.values(), *views, *incident]


def _name(row: Row) -> str:
    kind: str = row["type"]
    if kind == "config.change":
        return f"{kind} {row['key']}"
    return "lease" if kind.startswith("lease.") else kind
