"""A11 takeover-hang: a client has connected again, and its former connection is not fenced within 5 s.

`sess.takeover.start` has no `sess.takeover.end` of the client at the same node in that time (`hang`), although the log
goes on, and the boot has not died.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ..findings import Finding, Subject
from ..rows import LOGICAL_BITS, Row, in_order, row_id
from ..world import World

ID = "A11"
LIMIT: Final = 5_000 << LOGICAL_BITS
"""How long a takeover may take, 5 s."""
TYPES: Final = frozenset(("sess.takeover.start", "sess.takeover.end"))
"""The types of rows that are judged."""


def judge(rows: Iterable[Row], world: World) -> Iterator[Finding]:
    """Judge the rows of one client, of all nodes."""
    begun: dict[tuple[str, int], Row] = {}
    for row in in_order(each for each in rows if each["type"] in TYPES):
        key = row["node"], row["boot"]
        if row["type"] == "sess.takeover.start":
            begun.setdefault(key, row)
        elif key in begun and row["hlc"] - begun[key]["hlc"] > LIMIT:
            first = begun.pop(key)
            yield _finding(first, row["hlc"] - first["hlc"], row)
        else:
            begun.pop(key, None)
    for key, row in begun.items():
        if row["hlc"] + LIMIT < min(world.lives.known_up_to(key[0]), world.lives.boots[key].last_hlc):
            yield _finding(row, 0)


def _finding(row: Row, took: int, *more: Row) -> Finding:
    detail = f"{row['node']}, boot {row['boot']}, row {row['seq']}"
    subject = Subject(row["node"], row.get("mountpoint") or "", row["client"], detail=detail)
    text = f"the former connection of {row['client']} was not fenced in time"
    rows = tuple(map(row_id, (row, *more)))
    return Finding(ID, "hang", "error", subject, row["hlc"], text, rows, value=took >> LOGICAL_BITS)
