"""The query of the job `stream`: the log is read, held by parts until it is due, and judged batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from .batches import SQL, Batches
from .held import Held
from .items import Item
from .log_source import NAME, EventLogSource

CHECKPOINT: Final = "checkpoint"
PARTS: Final = 16
"""Messages and minutes are held in so many parts. What a checkpoint holds is in them, so the number stays."""

_COLUMNS: Final = [each.split()[0] for each in SQL.split(", ")]


@dataclass(frozen=True, slots=True)
class Pace:
    """`delay_ms`: a row may come so much later than a younger one of another node; later ones are dropped. `every_ms`:
    a batch begins so often. `once`: read what is there, and end."""

    delay_ms: int = 10_000
    every_ms: int = 5_000
    once: bool = False


def start(spark: SparkSession, logdir: Path, batches: Batches, pace: Pace) -> StreamingQuery:
    """Start the query, or go on with it where its checkpoint is, beside the alerts. The caller stops it."""
    # of a new checkpoint; Spark keeps the number of an old one
    spark.conf.set("spark.sql.shuffle.partitions", min(spark.sparkContext.defaultParallelism, PARTS))
    spark.dataSource.register(EventLogSource)
    items = (
        spark.readStream.format(NAME)
        .option("path", str(logdir.resolve()))
        .option("late_ms", batches.limits.late_ms)
        .option("parts", PARTS)
        .load()
        .withColumn("time", F.timestamp_millis("ms"))
        .withWatermark("time", f"{pace.delay_ms} milliseconds")
    )
    due = items.groupBy("run_id", "part").applyInPandasWithState(
        hold, SQL, "held binary", "append", GroupStateTimeout.EventTimeTimeout
    )
    checkpoint = str(batches.out / CHECKPOINT)
    writer = due.writeStream.foreachBatch(batches).option("checkpointLocation", checkpoint)
    if pace.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{pace.every_ms} milliseconds").start()


class Dropped:
    """Counts the items that came too late, after their time was over."""

    def __init__(self) -> None:
        self._batch = -1

    def look(self, query: StreamingQuery) -> int:
        """Returns how many there were since the last look. Spark knows the last 100 batches."""
        number, last = 0, query.lastProgress
        if last is None:
            return 0
        # to ask for all of them takes Spark a second
        for each in [last] if last.batchId <= self._batch + 1 else query.recentProgress:
            if each.batchId > self._batch:
                self._batch = each.batchId
                number += sum(operator.numRowsDroppedByWatermark for operator in each.stateOperators)
        return number


def hold(key: tuple[Any, ...], tables: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Hold the items of one part of a run, and hand on what is due."""
    held = Held(bytes(state.get[0]) if state.exists else b"")
    for table in tables:
        held.add(map(Item._make, table[list(Item._fields)].itertuples(index=False, name=None)))
    watermark_ms = max(state.getCurrentWatermarkMs(), 0)
    rows = [(key[0], *each, watermark_ms) for each in held.take(watermark_ms)]
    next_ms = held.next_ms
    if next_ms is None:
        if state.exists:
            state.remove()
    else:
        state.update((held.state,))
        state.setTimeoutTimestamp(max(next_ms, watermark_ms + 1))
    if rows:
        yield pd.DataFrame(rows, columns=_COLUMNS)
