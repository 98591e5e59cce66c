"""A15 retained-divergence: two nodes keep different retained messages of a topic, long after the last change.

A node has another retained message than the one that was set last anywhere (`different`), or has never had any of the
topic (`missing`). It must have taken that over within a minute, or within a minute after the end of an incident of one
of the two nodes. Judged are nodes that were up all that time, in the view of the node with the last change, and whose
logs go on. Logs before version 7 of the schema lack the end of messages that expire. Not judged is a change while a
node left messages out of the log, or wrote the rows of none: one of these may have replaced it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ..findings import Finding, Subject
from ..rows import LOGICAL_BITS, NEVER, Row, row_id
from ..world import World

ID = "A15"
TYPES: Final = frozenset(("ret.set",))
"""The types of rows that are judged."""
LAG: Final = 60_000 << LOGICAL_BITS
"""How long a node may not know of a change, 60 s: some rounds in which the nodes compare their maps."""
ENDS_SINCE: Final = 7
"""The version of the schema from which on the log has each end of a retained message."""


def judge(rows: Iterable[Row], world: World) -> Iterator[Finding]:
    """Judge the rows of one topic of one mountpoint, in any order."""
    newest: dict[str, Row] = {}
    for row in rows:
        before = newest.get(row["node"])
        if before is None or row["hlc"] > before["hlc"]:
            newest[row["node"]] = row
    last = max(newest.values(), key=_order, default=None)
    if last is None or last["v"] < ENDS_SINCE:
        return
    for node in sorted(world.lives.first_boot):
        kept = newest.get(node)
        if node != last["node"] and _differs(kept, last) and _should_have(node, last, world):
            yield _finding(node, kept, last, world)


def _differs(kept: Row | None, last: Row) -> bool:
    if kept is None:
        return bool(last["bytes"])  # what a node without a row had before is not known
    return bool((kept["bytes"], kept["digest"]) != (last["bytes"], last["digest"]))


def _should_have(node: str, last: Row, world: World) -> bool:
    """Whether the node was there, and had the time to take over the last change."""
    other, since = last["node"], last["hlc"]
    begin = max(since, world.incidents.last_heal((node, other)))
    end = begin + LAG
    if not world.writing.all_written((node, other, *world.views.of(other)), since - LAG, end):
        return False
    up = world.lives.was_up(node, since, end) and world.lives.was_up(other, since, end)
    return up and world.views.had(other, node, begin, end)


def _finding(node: str, kept: Row | None, last: Row, world: World) -> Finding:
    kind = "missing" if kept is None else "different"
    mountpoint, topic = last.get("mountpoint") or "", last["topic"]
    text = f"retained message {kind} at {node}: {topic}, which {last['node']} has set last"
    rows = (last,) if kept is None else (kept, last)
    sure = world.lives.lost_after((node, last["node"]), last["hlc"]) == NEVER
    subject = Subject(node=node, mountpoint=mountpoint, topic=topic)
    return Finding(ID, kind, "fatal", subject, last["hlc"], text, tuple(map(row_id, rows)), sure)


def _order(row: Row) -> tuple[int, str]:
    return row["hlc"], row["node"]
