"""What the counters of `node.stats` say: the intervals between two snapshots, and in which interval an event is.

`node.stats` has, each minute and at every level, totals since the start of the boot. After the last snapshot of a
crashed boot there is no interval.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from . import reading, schema

BOOT: Final = ["run_id", "node", "boot"]
"""The columns of one sequence of `seq`."""

COUNTERS: Final = ["connects", "publishes", "deliveries"]
"""The counters that are one number. `drops` has one for each reason."""

DROPS: Final = ("q.drop", "q.expire", "fwd.drop", "ret.refuse")
"""The types of events that a message, or its retained copy, was dropped."""

EXPIRED: Final = "expired"
"""The reason of `q.expire`, which has none."""

NEEDED: Final = reading.columns(*BOOT, "seq", "hlc", "type", "reason", "first", *COUNTERS, "drops")

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_TOTALS = "array<struct<kind:string,reason:string,total:bigint>>"


def extent(events: DataFrame) -> DataFrame:
    """The range of `seq` that the rows of each boot cover. A `log.gap` row covers the numbers that it names."""
    gap = F.col("type") == "log.gap"
    low = F.when(gap, F.col("first")).otherwise(F.col("seq"))
    covers = F.col("seq") - low + 1
    return events.groupBy(*BOOT).agg(
        F.count("*").alias("events"),
        F.min(low).alias("first_seq"),
        F.max("seq").alias("last_seq"),
        F.min("hlc").alias("first_hlc"),
        F.sum(covers).alias("covered"),
        F.sum(F.when(gap, covers).otherwise(0)).alias("given_up"),
        F.sum(F.when(F.col("type") == "node.stop", 1).otherwise(0)).alias("stops"),
        F.sum(F.when(F.col("type") == "node.join", 1).otherwise(0)).alias("joins"),
    )


def intervals(events: DataFrame) -> DataFrame:
    """The intervals between snapshots of the counters. The first begins at the start of the boot, if the log has it.

    Columns: those of `BOOT`, low (seq before the first of the interval), high (seq of the snapshot), low_hlc, high_hlc,
    and `totals`: an array of (kind, reason, total) with the increase of the counters.
    """
    snapshots = events.where(F.col("type") == "node.stats").select(*BOOT, "seq", "hlc", *COUNTERS, "drops")
    begun = extent(events).where(F.col("first_seq") == 1).select(*BOOT, F.col("first_hlc").alias("start_hlc"))
    before = Window.partitionBy(*BOOT).orderBy("seq")
    pairs = snapshots.select("*", *(F.lag(name).over(before).alias(f"last_{name}") for name in (*COUNTERS, "drops")))
    pairs = pairs.withColumn("low", F.lag("seq").over(before)).withColumn("low_hlc", F.lag("hlc").over(before))
    # counters begin at 0 with the boot; without its first rows the first snapshot is only a starting point
    known = pairs.join(F.broadcast(begun), BOOT, "left").where(
        F.col("low").isNotNull() | F.col("start_hlc").isNotNull()
    )
    gains = [
        F.struct(F.lit(name).alias("kind"), F.lit("").alias("reason"), _gain(F.col(name), F.col(f"last_{name}")))
        for name in COUNTERS
    ]
    drops = F.transform(
        F.map_entries("drops"),
        lambda entry: F.struct(
            F.lit("drops").alias("kind"),
            entry["key"].alias("reason"),
            _gain(entry["value"], F.col("last_drops")[entry["key"]]),
        ),
    )
    return known.select(
        *BOOT,
        F.coalesce("low", F.lit(0)).alias("low"),
        F.col("seq").alias("high"),
        F.coalesce("low_hlc", "start_hlc").alias("low_hlc"),
        F.col("hlc").alias("high_hlc"),
        F.concat(F.array(*gains), F.coalesce(drops, F.array().cast(_TOTALS))).alias("totals"),
    )


def placed(rows: DataFrame, spans: DataFrame) -> DataFrame:
    """The rows with `high` of the interval in which each is, or null. They have the columns of `BOOT`, seq and hlc.

    A join over the minutes of the intervals finds the interval of each row without sorting a boot.
    """
    minutes = F.sequence(_minute("low_hlc"), _minute("high_hlc"))
    by_minute = spans.select(*BOOT, F.explode(minutes).alias("minute"), "low", "high")
    inside = [F.col(f"event.{name}") == F.col(f"span.{name}") for name in (*BOOT, "minute")]
    inside += [F.col("event.seq") > F.col("span.low"), F.col("event.seq") <= F.col("span.high")]
    marked = rows.withColumn("minute", _minute("hlc")).alias("event")
    return (
        marked.join(F.broadcast(by_minute).alias("span"), inside, "left").select("event.*", "span.high").drop("minute")
    )


def reason() -> Column:
    """The reason of a drop; null for other events."""
    kind = F.col("type")
    return F.when(kind == "q.expire", EXPIRED).when(kind.isin(*DROPS), F.coalesce("reason", F.lit("unknown")))


def hour(stamp: str) -> Column:
    """The hours from 1970 to a stamp."""
    return F.floor(F.shiftright(stamp, schema.LOGICAL_BITS) / _HOUR_MS)


def time_of(hours: Column) -> Column:
    """The timestamp of such a number of hours."""
    return F.timestamp_millis(hours * _HOUR_MS)


def _gain(now: Column, before: Column) -> Column:
    return (F.coalesce(now, F.lit(0)) - F.coalesce(before, F.lit(0))).alias("total")


def _minute(stamp: str) -> Column:
    return F.floor(F.shiftright(stamp, schema.LOGICAL_BITS) / _MINUTE_MS)
