"""drops: dropped messages by reason, node and hour, beside what the counters of the node say.

A difference that is not 0 says that log and counters disagree: rows are missing, or a drop was not counted.

Columns:
    run_id        the cluster
    node          that dropped
    hour          UTC
    reason        why; q.expire has the reason `expired`
    q_drop        rows q.drop: a queue dropped a message
    q_expire      rows q.expire: the expiry interval of a message was over
    fwd_drop      rows fwd.drop: a message was not forwarded to another node
    ret_refuse    rows ret.refuse: a retained message was not kept
    rows          all of them
    unconfirmed   rows that no later node.stats can count, such as those after the last one of a crashed boot
    counted       drops of this hour that node.stats counts; null: it does not count this reason
    difference    counted less the rows that are not unconfirmed; null likewise

node.stats counts each minute. A difference stands in the hour in which the minute began.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from .. import counters, reading
from ..counters import BOOT, DROPS

NOT_COUNTED: Final = (counters.EXPIRED, "unhandled", "unreadable")
"""Reasons that have rows, but are not among the drops of node.stats."""

_TYPES = {name.replace(".", "_"): name for name in DROPS}


def view(events: DataFrame) -> DataFrame:
    """The drops of all nodes."""
    reading.require(events, "events", counters.NEEDED)
    key = ["run_id", "node", "hour", "reason"]
    sums = [F.sum(name).alias(name) for name in (*_TYPES, "rows", "unconfirmed")]
    table = _compared(events).groupBy(*key).agg(*sums, F.sum("difference").alias("difference"))
    is_counted = ~F.col("reason").isin(*NOT_COUNTED)
    counted = F.col("rows") - F.col("unconfirmed") + F.col("difference")
    return (
        table.where((F.col("rows") > 0) | (F.col("difference") != 0))
        .select(
            "run_id",
            "node",
            counters.time_of(F.col("hour")).alias("hour"),
            "reason",
            *_TYPES,
            "rows",
            "unconfirmed",
            F.when(is_counted, counted).alias("counted"),
            F.when(is_counted, F.col("difference")).alias("difference"),
        )
        .orderBy("run_id", "hour", "node", F.desc("rows"), "reason")
    )


def _compared(events: DataFrame) -> DataFrame:
    """By boot, interval, reason and hour: the rows, and in the first hour of an interval the difference."""
    intervals = counters.intervals(events)
    dropped = events.where(F.col("type").isin(*DROPS)).select(
        *BOOT, "seq", "hlc", "type", counters.reason().alias("reason"), counters.hour("hlc").alias("hour")
    )
    key = [*BOOT, "high", "reason", "hour"]
    logged = (
        counters.placed(dropped, intervals)
        .groupBy(*key)
        .agg(
            *(F.count(F.when(F.col("type") == kind, 1)).alias(name) for name, kind in _TYPES.items()),
            F.count("*").alias("rows"),
            F.count(F.when(F.col("high").isNull(), 1)).alias("unconfirmed"),
        )
    )
    gained = intervals.select(*BOOT, "high", counters.hour("low_hlc").alias("hour"), F.inline("totals"))
    gained = gained.where((F.col("kind") == "drops") & (F.col("total") != 0)).drop("kind")
    both = logged.unionByName(gained, allowMissingColumns=True).na.fill(0, [*_TYPES, "rows", "unconfirmed", "total"])
    interval = Window.partitionBy(*BOOT, "high", "reason")
    difference = F.sum("total").over(interval) - F.sum("rows").over(interval)
    first = F.row_number().over(interval.orderBy("hour")) == 1
    return both.withColumn("difference", F.when(F.col("high").isNotNull() & first, difference).otherwise(0))
