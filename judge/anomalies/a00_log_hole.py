"""A0 log-hole: rows of a node's boot are missing.

The `seq` of a (node, boot) has a gap (`gap`), or the node itself dropped rows and says so (`given-up`). What else the
log shows cannot be trusted then: the verdict of the run is unknown. The end of a boot is a gap, too, if the node's next
start says that the boot before it ended with another row: the last rows of the boot are missing, or the boots behind
it. These are no holes: rows at the begin of the first boot of a node, which were deleted with their day (`deleted`);
rows before `node.join`, which are of another run; and rows at the end of a boot that a loss of power may have taken
(`tail`).

Two processes may have written rows under the same numbers (`twice`): after a backup was restored, a boot has the number
of one that the log has already. Nobody can tell their rows apart, so nothing is known then either.

The same is unknown if two boots replaced names with different keys (`keys`), or one of them did not: a client has two
names then.

Nothing is known either if a node was in the view of another one, and the log has no row of that node (`absent`): the
files that it wrote are missing.

The order of rows of different nodes is unknown if the clock of a node jumps ahead by more than a day, to a time that no
other node has (`clock`): nodes ignore such stamps (docs/eventlog.md#time).

Messages that a node left out as a whole, because of filters or a writer that did not keep up, are no hole either: they
are counted (`left-out`), and all other counts are of the messages that the log has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ..findings import Finding, Severity, Subject
from ..rows import LOGICAL_BITS, NEVER, Row, ms_of, row_id
from ..world import World

ID = "A0"
FIELDS = ("seq", "hlc", "type", "first", "rows", "reason")
"""What is read of a row, besides its node and boot."""
ALONE = frozenset(("log.gap", "node.join", "node.stop"))
"""Rows of these types say more about the log than that they are there."""
DAY = 86_400_000 << LOGICAL_BITS
"""A stamp that is so far ahead of a node's clock has no effect there."""


class Stretch(NamedTuple):
    """The first and the last of rows that follow each other without a gap. A row of log.gap is a stretch of its own."""

    first: Row
    last: Row


def stretches(rows: Iterable[Row]) -> Iterator[Stretch]:
    """Returns each row of a boot as a stretch, in order."""
    return (Stretch(row, row) for row in sorted(rows, key=_seq))


def judge(stretches: Iterable[Stretch], world: World) -> Iterator[Finding]:
    """Judge all rows of one boot, in the order of `seq`."""
    last = 0
    end: Row | None = None
    twice = False
    for row, later in stretches:
        if end is not None and row["seq"] == last and row["hlc"] != end["hlc"] and not twice:
            twice = True
            yield _finding("twice", "fatal", row, str(last), "two processes have written rows as this boot")
        previous = row if end is None else end
        if later["hlc"] - previous["hlc"] > DAY:
            yield from _jumps((previous, row, later), world)
        end = later
        first_boot = world.lives.first_boot[row["node"]] == row["boot"]
        joined = row["type"] == "node.join" and not last
        if row["seq"] > last + 1 and row["type"] != "log.gap" and not joined:
            yield _gap(row, last, first_boot)
        if row["type"] == "log.gap":
            text = f"{row['rows']} rows were given up ({row['reason']})"
            yield _finding("given-up", "fatal", row, str(row["first"]), text)
        last = max(last, end["seq"])
    if end is not None:
        yield from _behind(end, last, world)


def _behind(end: Row, last: int, world: World) -> Iterator[Finding]:
    """Judge whether rows are missing behind the last one of a boot."""
    start = world.lives.cut_off.get((end["node"], end["boot"]))
    if start is not None:
        known = f"boot {start['boot']} says that the boot before it ended with row {start['known_seq']}"
        found = _finding("gap", "fatal", end, str(last + 1), f"rows behind {last} are missing: {known}")
        yield replace(found, rows=(row_id(end), row_id(start)))
    elif any(begin == end["hlc"] for begin, _ in world.lives.tails.get(end["node"], ())):
        yield _finding(
            "tail", "info", end, str(last + 1), f"rows from {last + 1} on may have been lost when it crashed"
        )


def judge_run(world: World) -> Iterator[Finding]:
    """Report how many messages each boot left out, boots with another key for names than the first one, and members
    without any row."""
    for node, stamp in sorted(world.views.entered().items()):
        if node not in world.lives.first_boot:
            text = f"{node} was a member, and the log has no row of it: judge the event logs of all nodes together"
            yield Finding(ID, "absent", "fatal", Subject(node, detail="no row"), stamp, text)
    for key, row in world.writing.keys:
        first, before = world.writing.keys[0]
        if key != first:
            node, boot = row["node"], row["boot"]
            text = f"{node}, boot {boot}: names are replaced with another key than at {before['node']}"
            subject = Subject(node, detail=f"boot {boot}, names")
            yield Finding(ID, "keys", "fatal", subject, row["hlc"], text, (row_id(before), row_id(row)))
    for (node, boot), count in world.writing.left_out.items():
        text = f"{node}, boot {boot}: the log leaves out {count} messages as a whole; nothing else counts them"
        yield Finding(ID, "left-out", "metric", Subject(node, detail=f"boot {boot}"), 0, text, value=count)


def _jumps(rows: tuple[Row, Row, Row], world: World) -> Iterator[Finding]:
    """Judge whether the clock of a boot jumped between rows that follow each other."""
    for before, row in pairwise(rows):
        if row["hlc"] - before["hlc"] <= DAY:
            continue
        node, boot = row["node"], row["boot"]
        others = max((each.last_hlc for (name, _), each in world.lives.boots.items() if name != node), default=NEVER)
        if row["hlc"] - others > DAY:
            days = ms_of(row["hlc"] - before["hlc"]) // 86_400_000
            text = f"{node}, boot {boot}: its clock jumped ahead by {days} days, to a time that no other node has"
            subject = Subject(node=node, detail=f"boot {boot}, row {row['seq']}")
            yield Finding(ID, "clock", "fatal", subject, row["hlc"], text, (row_id(row),))


def _gap(row: Row, last: int, first_boot: bool) -> Finding:
    text = f"rows {last + 1} to {row['seq'] - 1} are missing"
    if first_boot and not last:
        return _finding("deleted", "info", row, "1", text)
    return _finding("gap", "fatal", row, str(last + 1), text)


def _finding(kind: str, severity: Severity, row: Row, first: str, what: str) -> Finding:
    node, boot = row["node"], row["boot"]
    text = f"hole in the log: {node}, boot {boot}: {what}"
    subject = Subject(node=node, detail=f"boot {boot}, row {first}")
    return Finding(ID, kind, severity, subject, row["hlc"], text, (row_id(row),))


def _seq(row: Row) -> int:
    return int(row["seq"])
