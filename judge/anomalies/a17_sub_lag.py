"""A17 sub-lag: how long the other nodes need to learn of a subscription.

The number is the time in ms from `sub.add` until the last other node writes in `map.learn` that it has the write which
that row names. Those nodes count that were in the view of the first one all this time, and whose rows the log has.
A node that wrote no rows of level `message` from then on does not count.
`p50`, `p99` and `max` are given for each boot of a node, the first two in two digits.

SUBACK waits for the other nodes. It is `late` if one of them learned of the subscription only after it, although it
had a lease and was in the view of the source from SUBACK on; the number is how often. A node that joins, or comes back,
gets its lease when it has what the others know. What was published there in between is A1 `stale-route`. An
acknowledgement with the right `policy` waits for nobody, and is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ..findings import Finding, Subject
from ..rows import Row, RowId, ms_of, row_id
from ..world import World

ID = "A17"
TYPES: Final = frozenset(("sub.add", "sub.ack", "map.learn"))
"""The types of rows that are judged, if they name a write."""


def writer(row: Row) -> tuple[str, int]:
    """Returns the boot whose write a row is about."""
    if row["type"] == "map.learn":
        return row["source"], row["source_boot"]
    return row["node"], row["boot"]


def order(row: Row) -> tuple[int, bool]:
    """Returns by what the rows about the writes of one boot are sorted: the last write first, and for each write
    those first who have learned of it."""
    return -row["write"], row["type"] != "map.learn"


@dataclass(slots=True)
class _Late:
    count: int = 0
    at: int = 0
    rows: tuple[RowId, ...] = ()


@dataclass
class _Source:
    """What is known of the writes of one boot, from the last one on."""

    learned: dict[str, Row] = field(default_factory=dict)
    """Other nodes -> the row with which each had the present write, and all after it that are known."""
    lags: dict[int, int] = field(default_factory=dict)
    """Times in ms, rounded to two digits, and how often."""
    slowest: tuple[int, tuple[Row, ...]] = (-1, ())
    late: dict[str, _Late] = field(default_factory=dict)


def judge(rows: Iterable[Row], world: World) -> Iterator[Finding]:
    """Judge the rows about the writes of one boot, sorted by `order`. It holds one row for each other node."""
    source = _Source()
    name, boot = "", 0
    for row in rows:
        name, boot = writer(row)
        if row["type"] == "map.learn":
            known = source.learned.get(row["node"])
            if known is None or row["hlc"] < known["hlc"]:
                source.learned[row["node"]] = row
        elif row["type"] == "sub.add":
            _measure(source, row, world)
        elif row.get("right") != "policy":
            _check(source, row, world)
    if source.lags:
        yield from _numbers(source, Subject(name, detail=f"boot {boot}"))
    for node, late in source.late.items():
        text = f"{late.count} SUBACKs left {name} before {node} knew of the subscriptions"
        subject = Subject(name, detail=f"boot {boot}, {node}")
        yield Finding(ID, "late", "error", subject, late.at, text, late.rows, value=late.count)


def _in_view(source: _Source, row: Row, world: World) -> Iterator[Row]:
    """Returns the rows of those that learned of a write, and were in the view of its node until then."""
    for node, learned in source.learned.items():
        if world.writing.silent_after((node,), row["hlc"]):
            continue  # it had learned, and written no row
        if node != row["node"] and world.views.had(row["node"], node, row["hlc"], max(row["hlc"], learned["hlc"])):
            yield learned


def _measure(source: _Source, row: Row, world: World) -> None:
    last = max(_in_view(source, row, world), key=lambda each: each["hlc"], default=None)
    if last is None:
        return
    ms = max(0, ms_of(last["hlc"] - row["hlc"]))
    source.lags[_rounded(ms)] = source.lags.get(_rounded(ms), 0) + 1
    if ms > source.slowest[0]:
        source.slowest = ms, (row, last)


def _check(source: _Source, row: Row, world: World) -> None:
    for learned in _in_view(source, row, world):
        if learned["hlc"] > row["hlc"] and world.partitions.had_lease(learned["node"], row["hlc"]):
            late = source.late.setdefault(learned["node"], _Late())
            late.count += 1
            late.at, late.rows = row["hlc"], (row_id(row), row_id(learned))


def _numbers(source: _Source, subject: Subject) -> Iterator[Finding]:
    slowest, rows = source.slowest
    count = sum(source.lags.values())
    for kind, ms in (("p50", _quantile(source.lags, 50)), ("p99", _quantile(source.lags, 99)), ("max", slowest)):
        text = f"other nodes learned of {count} subscriptions at {subject.node} within {ms} ms ({kind})"
        proof = tuple(map(row_id, rows)) if kind == "max" else ()
        yield Finding(ID, kind, "metric", subject, rows[0]["hlc"], text, proof, value=ms)


def _rounded(ms: int) -> int:
    """Returns the first two digits: so the number of different times is small."""
    scale: int = 10 ** max(0, len(str(ms)) - 2)
    return ms // scale * scale


def _quantile(counts: dict[int, int], percent: int) -> int:
    """Returns the smallest time that so many percent do not exceed."""
    wanted = sum(counts.values()) * percent
    seen = 0
    for ms in sorted(counts):
        seen += counts[ms]
        if seen * 100 >= wanted:
            return ms
    return 0
