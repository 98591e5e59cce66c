"""Judges what is due in a batch of the stream, and writes its alerts.

Spark hands on what its parts have held. The driver collects the rows of the world, which are few. Python workers judge
messages and minutes, with a copy of the worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...judge.alerts import MINUTE_MS, Alert, Hit, Limits, Minute, judge_message, judge_minute, judge_splits
from ...judge.building import Summary, world_of_ordered
from ...judge.findings import Subject
from ...judge.presence import Presence, known_up_to
from ...judge.rows import LOGICAL_BITS
from ...judge.world import World
from ..decoding import mid_of
from ..trouble import Trouble
from . import alerts_table
from .held import KEPT_MS
from .items import BOOT, MESSAGE, MINUTE, WORLD, Counted, boot_of, counted, hit_of, minute_of, row_of
from .world_rows import MOST_ROWS, RunRows, WorldRows

SQL: Final = "run_id string, kind string, key string, number bigint, rows array<string>, watermark_ms bigint"
"""The columns of what is due."""
MOST_ALERTS: Final = 10_000
"""Most alerts of a batch; one more says how many others there were."""

_FOUND_SQL: Final = "at bigint, id string, minute string, found string"
_FOUND: Final = pa.schema([("at", pa.int64()), ("id", pa.string()), ("minute", pa.string()), ("found", pa.string())])
Records = list[dict[str, Any]]
_Found = tuple[int, str, str | None, str]
_Map = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class OfRun(NamedTuple):
    """What the judge of messages needs of a run."""

    world: World
    presence: Presence


class Shared(Protocol):
    """`OfRun` by run, at each worker: a broadcast of Spark."""

    @property
    def value(self) -> Mapping[str, OfRun]:
        """The worlds."""
        ...


class Batches:
    """Called with each batch and its number (`foreachBatch`). `tell` gets the alerts after they are written."""

    def __init__(self, out: Path, limits: Limits, tell: Callable[[Records], None]) -> None:
        self.out = out
        self.limits = limits
        self.trouble: Trouble | None = None
        """Why the query ended; Spark makes another error of it."""
        self._tell = tell
        self._world_rows = WorldRows(out / "world")

    def __call__(self, table: DataFrame, number: int) -> None:
        """Judge a batch. Raises `Trouble`, OSError and what Spark raises."""
        table = table.persist()
        try:
            (watermark_ms,) = table.agg(F.max("watermark_ms")).collect()[0]
            if watermark_ms is not None:
                self._judge(table, number, watermark_ms)
        except Trouble as trouble:
            self.trouble = trouble
            raise
        finally:
            table.unpersist()

    def _judge(self, table: DataFrame, number: int, watermark_ms: int) -> None:
        new = _new_rows(table)
        runs, minutes = self._world_rows.add(number, new)
        of_run = {run_id: _of_run(rows, watermark_ms) for run_id, rows in runs.items()}
        found, omitted = self._judged(table, of_run, minutes)
        for minute in [each for each in minutes if each.begin_ms + MINUTE_MS <= watermark_ms]:
            found += judge_minute(minute, *minutes.pop(minute), self.limits)
        for run_id, rows in new.items():
            found += judge_splits(of_run[run_id].world, rows.rows, run_id)
        records = records_of(found, omitted, number, watermark_ms)
        if records:
            alerts_table.write(self.out, number, records)
        self._world_rows.save(number, new, watermark_ms - self.limits.late_ms - KEPT_MS)
        self._tell(records)

    def _judged(
        self, table: DataFrame, of_run: Mapping[str, OfRun], minutes: dict[Minute, Counted]
    ) -> tuple[list[Alert], int]:
        """The first alerts, and how many others there are. Adds what counts for `minutes`."""
        due = table.where(F.col("kind").isin(MESSAGE, MINUTE)).select("run_id", "kind", "key", "number", "rows")
        if due.isEmpty():
            return [], 0
        shared = table.sparkSession.sparkContext.broadcast(dict(of_run))
        judged = due.mapInArrow(judge_due(shared, self.limits), _FOUND_SQL).persist()
        try:
            of_minutes = judged.where(F.col("minute").isNotNull()).limit(MOST_ROWS + 1).collect()
            if len(of_minutes) > MOST_ROWS:
                raise Trouble(f"more than {MOST_ROWS} clients are slow at the same time; run with --slow 0s")
            for row in of_minutes:
                minute = minute_of(row["minute"])
                minutes[minute] = counted(minutes.get(minute), msgspec.json.decode(row["found"], type=Counted))
            alerts = judged.where(F.col("minute").isNull())
            first = alerts.orderBy("at", "id").limit(MOST_ALERTS).collect()
            omitted = alerts.count() - len(first)
        finally:
            judged.unpersist()
            shared.destroy()
        return [msgspec.json.decode(row["found"], type=Alert) for row in first], omitted


def records_of(found: list[Alert], omitted: int, batch: int, watermark_ms: int) -> Records:
    """The alerts of a batch by time, and one more that says how many were omitted."""
    first = sorted(found, key=lambda each: (each.at, each.id))
    if omitted:
        text = f"{omitted} more alerts of this batch were omitted"
        at = watermark_ms << LOGICAL_BITS
        first.append(Alert("", "omitted", "", "error", Subject(detail=str(batch)), at, text, number=omitted))
    return [alerts_table.record_of(each) for each in first]


def judge_due(shared: Shared, limits: Limits) -> _Map:
    """A function for `mapInArrow`: what is due becomes alerts, and counts for minutes."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        of_run = shared.value
        minutes: dict[Minute, Counted] = {}
        for batch in batches:
            found: list[_Found] = []
            for row in batch.to_pylist():
                for each in _due(row, of_run, limits):
                    if isinstance(each, Alert):
                        found.append((each.at, each.id, None, _text(each)))
                    else:
                        minutes[each.minute] = counted(minutes.get(each.minute), (1, each.at, each.row))
            yield _batch(found)
        yield _batch([(each[1], "", _text(minute), _text(each)) for minute, each in minutes.items()])

    return run


def _due(row: dict[str, Any], of_run: Mapping[str, OfRun], limits: Limits) -> Iterator[Alert | Hit]:
    if row["kind"] == MINUTE:
        return judge_minute(minute_of(row["key"]), row["number"], *hit_of(row["rows"][0]), limits)
    here = of_run.get(row["run_id"])
    if here is None:
        return iter(())
    rows = [row_of(text) for text in row["rows"]]
    return judge_message(row["run_id"], mid_of(row["key"]), rows, here.world, here.presence, limits)


def _new_rows(table: DataFrame) -> dict[str, RunRows]:
    """The rows of the world in a batch, and what was read of each boot, by run."""
    rows = table.where(F.col("kind").isin(WORLD, BOOT)).select("run_id", "kind", F.explode("rows").alias("row"))
    found = rows.limit(MOST_ROWS + 1).collect()
    if len(found) > MOST_ROWS:
        raise Trouble(f"an hour of the log has more than {MOST_ROWS} rows about connections and subscriptions")
    new: dict[str, tuple[list[Any], list[Any]]] = {}
    for run_id, kind, text in found:
        of_world, of_boots = new.setdefault(run_id, ([], []))
        if kind == WORLD:
            of_world.append(row_of(text))
        else:
            of_boots.append(boot_of(text))
    runs: dict[str, RunRows] = {}
    for run_id, each in new.items():
        runs[run_id] = RunRows()
        runs[run_id].add(*each)
    return runs


def _of_run(rows: RunRows, watermark_ms: int) -> OfRun:
    boots = known_up_to(rows.boots, watermark_ms << LOGICAL_BITS)
    world = world_of_ordered(rows.rows, Summary(boots))
    return OfRun(world, Presence(rows.rows, world))


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _batch(rows: list[_Found]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(_FOUND)
    return pa.RecordBatch.from_arrays(
        [pa.array(each, field.type) for each, field in zip(columns, _FOUND, strict=True)], schema=_FOUND
    )
