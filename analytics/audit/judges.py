"""Calls the judges in the Python workers of Spark: each function reads rows that Spark has grouped and sorted by a key.

`judge` decides; this module only hands on. Each function makes a function for `mapInArrow`. It takes the rows of one
key after the other from a stream, and yields what the judges hand on (`COLUMNS`). It holds the rows of one message or
of one client, or one entry of a lane, and the counts of `Tally`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from ...judge.anomalies import a08_stall, a21_minority_ack, a23_sync_exposure
from ...judge.anomalies.a00_log_hole import Stretch
from ...judge.anomalies.a16_retained_stale import Retained
from ...judge.findings import Finding
from ...judge.judging import (
    judge_boot,
    judge_client,
    judge_comparisons,
    judge_connection,
    judge_lane,
    judge_message,
    judge_queue,
    judge_refusals,
    judge_retained,
    judge_sendings,
    judge_topic,
    judge_writes,
)
from ...judge.lanes import Entry
from ...judge.rows import Row
from ...judge.sessions import SessionKey
from ...judge.tally import Tally
from ...judge.world import World
from .. import schema
from ..decoding import mid_of
from .records import arrow_type, column, sql_type, values


@dataclass(frozen=True, slots=True)
class Counts:
    """A part of the counts of a run, as in `judge.run.Report`."""

    published: int = 0
    acked: int = 0
    delivered: int = 0
    open: int = 0
    waiting: int = 0


COLUMNS: Final[dict[str, Any]] = {
    "id": str,
    "finding": Finding,
    "entry": Entry,
    "due": tuple[int, bool],
    "retained": Retained,
    "queued": tuple[SessionKey, int],
    "without_lease": tuple[a21_minority_ack.Place, int],
    "exposed": tuple[a23_sync_exposure.Place, int],
    "counts": Counts,
    "wait": a08_stall.Wait,
}
"""What the judges hand on, after the column `run_id`. A row has one of them: a finding with its id, an entry of a lane,
a retained message with when it is due, the stamp of the last q.enq of a session, a part of a count, or a message that
waited long for a connection."""
SCHEMA: Final = pa.schema([("run_id", pa.string()), *((name, arrow_type(hint)) for name, hint in COLUMNS.items())])
SQL: Final = ", ".join(f"{each.name} {sql_type(each.type)}" for each in SCHEMA)
"""`SCHEMA` in the words of Spark."""

FULL: Final = 4096
"""So many rows of a kind are one batch."""

Batches = Iterable[pa.RecordBatch]
Map = Callable[[Batches], Iterator[pa.RecordBatch]]
Judged = tuple[str, Iterable[Finding]]
"""A run, and what was found in it."""


class Worlds(Protocol):
    """The worlds by run, at each worker: a broadcast of Spark."""

    @property
    def value(self) -> dict[str, World]:
        """The worlds."""
        ...


class _Output:
    """Collects what is handed on into batches of rows of one kind."""

    def __init__(self) -> None:
        self._rows: defaultdict[tuple[str, ...], list[tuple[Any, ...]]] = defaultdict(list)

    def add(self, run_id: str, **what: Any) -> None:
        """Hand on a row with these columns."""
        self._rows[tuple(what)].append((run_id, *what.values()))

    def find(self, run_id: str, found: Iterable[Finding]) -> None:
        """Hand on findings."""
        for each in found:
            self.add(run_id, id=each.id, finding=each)

    def full(self) -> Iterator[pa.RecordBatch]:
        """Returns the batches that are full."""
        return self._take(FULL)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Returns all other rows."""
        return self._take(1)

    def _take(self, least: int) -> Iterator[pa.RecordBatch]:
        for names, rows in self._rows.items():
            if len(rows) >= least:
                given = dict(zip(("run_id", *names), zip(*rows, strict=True), strict=True))
                yield pa.RecordBatch.from_arrays([_array(given, each, len(rows)) for each in SCHEMA], schema=SCHEMA)
                rows.clear()


def _array(given: dict[str, tuple[Any, ...]], field: pa.Field, length: int) -> pa.Array:
    if field.name not in given:
        return pa.nulls(length, field.type)
    return column(given[field.name], COLUMNS.get(field.name, str))


def found(rows: Iterable[tuple[str, Finding]]) -> pa.Table:
    """A table of findings with their runs."""
    output = _Output()
    for run_id, each in rows:
        output.find(run_id, [each])
    return pa.Table.from_batches(output.rest(), SCHEMA)


def fields_of(types: Iterable[str]) -> tuple[str, ...]:
    """The fields that rows of these types have, those of all rows first."""
    found = {each for kind in types for each in (*schema.TYPES[kind].required, *schema.TYPES[kind].optional)}
    return (*(each.name for each in schema.HEADER), *sorted(found))


def rows_of(batches: Batches) -> Iterator[Row]:
    """The rows of batches as the judges read them. A field that a row lacks is None."""
    for batch in batches:
        names = batch.schema.names
        for row in zip(*(each.to_pylist() for each in batch.columns), strict=True):
            yield dict(zip(names, row, strict=True))


def messages(worlds: Worlds) -> Map:
    """Judge messages: rows by `run_id` and `mid`. Hands on everything but counts of what waits."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        of_run, output = worlds.value, _Output()
        tallies: defaultdict[str, Tally] = defaultdict(Tally)
        for (run_id, mid), rows in groupby(rows_of(batches), itemgetter("run_id", "mid")):
            judged = judge_message(mid_of(mid), rows, of_run[run_id])
            tallies[run_id].take(judged)
            output.find(run_id, judged.findings)
            for entry in judged.entries:
                output.add(run_id, entry=entry)
            for step in judged.retained:
                output.add(run_id, due=step.due, retained=step)
            for wait in judged.waits:
                output.add(run_id, wait=wait)
            yield from output.full()
        for run_id, tally in tallies.items():
            counts = Counts(tally.published, tally.acked, tally.delivered, tally.open)
            output.add(run_id, counts=counts)
            for name in ("queued", "without_lease", "exposed"):
                for each in getattr(tally, name).items():
                    output.add(run_id, **{name: each})
        yield from output.rest()

    return run


def lanes(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Judge lanes: entries by run, session and lane, in `lane_order`. Hands on findings, and entries that wait."""
    output = _Output()
    for (run_id, _), entries in groupby(_entries(batches), lambda each: (each[0], each[1].key)):
        for found in judge_lane(entry for _, entry in entries):
            if isinstance(found, Entry):
                output.add(run_id, entry=found)
            else:
                output.find(run_id, [found])
            yield from output.full()
    yield from output.rest()


def _entries(batches: Batches) -> Iterator[tuple[str, Entry]]:
    for batch in batches:
        yield from zip(batch["run_id"].to_pylist(), values(batch["entry"], Entry), strict=True)


def sendings(worlds: Worlds) -> Map:
    """Judge what sessions were sent: entries by run and session, in `sending_order`. Hands on findings."""

    def judged(batches: Batches, of_run: Mapping[str, World]) -> Iterator[Judged]:
        for (run_id, _), entries in groupby(_entries(batches), lambda each: (each[0], each[1].session)):
            yield run_id, judge_sendings((entry for _, entry in entries), of_run[run_id])

    return _judged(worlds, judged)


class _Waiting(NamedTuple):
    """What is known of the queue of a session: an entry that waits, or the stamp of a q.enq."""

    run_id: str
    session: SessionKey
    entry: Entry | None
    queued: int


def queues(worlds: Worlds) -> Map:
    """Judge queues: what waits, by run and session; first all stamps of q.enq, then entries in `queue_order`. Hands on
    findings, and how many entries still wait."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        of_run, output = worlds.value, _Output()
        for (run_id, session), rows in groupby(_waiting(batches), lambda each: each[:2]):
            newest, still = -1, 0
            for first in rows:
                if first.entry is not None:
                    entries = (each.entry for each in chain([first], rows) if each.entry is not None)
                    for found in judge_queue(session, entries, newest, of_run[run_id]):
                        if isinstance(found, Entry):
                            still += 1
                        else:
                            output.find(run_id, [found])
                            yield from output.full()
                else:
                    newest = max(newest, first.queued)
            if still:
                output.add(run_id, counts=Counts(waiting=still))
        yield from output.rest()

    return run


def _waiting(batches: Batches) -> Iterator[_Waiting]:
    for batch in batches:
        entries = values(batch["entry"], Entry | None)
        stamps = values(batch["queued"], COLUMNS["queued"] | None)
        for run_id, entry, queued in zip(batch["run_id"].to_pylist(), entries, stamps, strict=True):
            if entry is not None:
                yield _Waiting(run_id, entry.session, entry, -1)
            else:
                yield _Waiting(run_id, queued[0], None, queued[1])


def _judged(worlds: Worlds, of: Callable[[Batches, Mapping[str, World]], Iterator[Judged]]) -> Map:
    """A stage that hands on findings alone. `of` judges batches with the worlds of the runs, key by key."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        output = _Output()
        for run_id, found in of(batches, worlds.value):
            output.find(run_id, found)
            yield from output.full()
        yield from output.rest()

    return run


def topics(worlds: Worlds) -> Map:
    """Judge retained messages: by run, mountpoint and topic, in the order of `Retained.due`. Hands on findings."""

    def judged(batches: Batches, of_run: Mapping[str, World]) -> Iterator[Judged]:
        steps = (
            each
            for batch in batches
            for each in zip(batch["run_id"].to_pylist(), values(batch["retained"], Retained), strict=True)
        )
        for (run_id, _), of_topic in groupby(steps, lambda each: (each[0], each[1].key)):
            yield run_id, judge_topic((step for _, step in of_topic), of_run[run_id])

    return _judged(worlds, judged)


def retained(worlds: Worlds) -> Map:
    """Judge what nodes keep for a topic: rows by run, mountpoint and topic. Hands on findings."""

    def judged(batches: Batches, of_run: Mapping[str, World]) -> Iterator[Judged]:
        for (run_id, _, _), rows in groupby(rows_of(batches), itemgetter("run_id", "at", "topic")):
            yield run_id, judge_retained(rows, of_run[run_id])

    return _judged(worlds, judged)


def clients(worlds: Worlds) -> Map:
    """Judge clients: rows by run, mountpoint and client. Hands on findings."""

    def judged(batches: Batches, of_run: Mapping[str, World]) -> Iterator[Judged]:
        for (run_id, _, _), rows in groupby(rows_of(batches), itemgetter("run_id", "at", "client")):
            of_client = [row if row["mid"] is None else {**row, "mid": mid_of(row["mid"])} for row in rows]
            yield run_id, judge_client(of_client, of_run[run_id])

    return _judged(worlds, judged)


def writes(worlds: Worlds) -> Map:
    """Judge how soon other nodes learn of writes: rows by run and the boot that has written, in `a17_sub_lag.order`.
    Hands on findings."""

    def judged(batches: Batches, of_run: Mapping[str, World]) -> Iterator[Judged]:
        for (run_id, _, _), rows in groupby(rows_of(batches), itemgetter("run_id", "writer", "writer_boot")):
            yield run_id, judge_writes(rows, of_run[run_id])

    return _judged(worlds, judged)


def comparisons(worlds: Worlds) -> Map:
    """Judge comparisons of maps: rows by run and the node that asked, in `a22_non_convergence.order`. Hands on
    findings."""

    def judged(batches: Batches, of_run: Mapping[str, World]) -> Iterator[Judged]:
        for (run_id, _), rows in groupby(rows_of(batches), itemgetter("run_id", "asker")):
            yield run_id, judge_comparisons(rows, of_run[run_id])

    return _judged(worlds, judged)


def connections(worlds: Worlds) -> Map:
    """Judge connections: by run, node, boot and connection, first the messages that waited long for it, in the order of
    `begin`, then its rows in the order of `seq`. Hands on findings."""

    def judged(batches: Batches, of_run: Mapping[str, World]) -> Iterator[Judged]:
        for (run_id, *_), steps in groupby(_steps(batches), lambda each: each[0]):
            yield run_id, judge_connection((step for _, step in steps), of_run[run_id])

    return _judged(worlds, judged)


def _steps(batches: Batches) -> Iterator[tuple[tuple[Any, ...], a08_stall.Wait | Row]]:
    key = itemgetter("run_id", "node", "boot", "conn")
    for batch in batches:
        waits = values(batch["wait"], a08_stall.Wait | None)
        for wait, row in zip(waits, rows_of([batch.drop_columns(["wait"])]), strict=True):
            yield key(row), row if wait is None else wait


def refusals(worlds: Worlds) -> Map:
    """Judge refusals, each alone. Hands on findings."""

    def judged(batches: Batches, of_run: Mapping[str, World]) -> Iterator[Judged]:
        for run_id, rows in groupby(rows_of(batches), itemgetter("run_id")):
            yield run_id, judge_refusals(rows, of_run[run_id])

    return _judged(worlds, judged)


def boots(worlds: Worlds) -> Map:
    """Judge boots: stretches of rows by run, node and boot, in the order of `seq`. Hands on findings."""

    def judged(batches: Batches, of_run: Mapping[str, World]) -> Iterator[Judged]:
        for (run_id, node, boot), rows in groupby(rows_of(batches), itemgetter("run_id", "node", "boot")):
            where = {"node": node, "boot": boot}
            stretches = (Stretch({**where, **row["first"]}, {**where, **row["last"]}) for row in rows)
            yield run_id, judge_boot(stretches, of_run[run_id])

    return _judged(worlds, judged)
