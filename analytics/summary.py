"""The summary of an event log: activity of each node by hour, completeness of the log, and malformed lines.

Connects, publishes, deliveries and drops come from two sources. The first are events with their times. The log has
events of connects and drops at every level, and those of publishes and deliveries at level `message`. The second are
snapshots of counters: `node.stats` has, each minute and at every level, the totals since the start of the boot.

Between two snapshots each event counts in its own hour. The counters may have more than the events: all publishes at
level `session`, QoS 0 deliveries, dropped rows. This excess counts in the hour in which the interval began. So totals
are right at both levels, and also if the level changes. For connects and drops the counters are used only if rows are
missing. After the last snapshot of a crashed boot there are events only.

All functions go from table to table and contain no Spark action.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from . import reading, schema
from .event_lines import TORN

BOOT = ["run_id", "node", "boot"]
"""The columns of one sequence of `seq`."""

KINDS = {
    "conn.open": "connects",
    "pub.recv": "publishes",
    "dlv.send": "deliveries",
    "q.drop": "drops",
    "q.expire": "drops",
}
"""Type of an event -> the count to which it belongs. A message that expired in its queue is a drop."""

_ALWAYS_EVENTS = ("connects", "drops")
_COUNTERS = ["connects", "publishes", "deliveries"]
_NEEDED = reading.columns(*BOOT, "seq", "hlc", "type", "reason", "first", *_COUNTERS, "drops")
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Summary:
    """Three tables: hours (activity), boots (completeness of the log), rejects (malformed lines)."""

    hours: DataFrame
    boots: DataFrame
    rejects: DataFrame


def compact(parsed: DataFrame) -> DataFrame:
    """The columns of `reading.parse` that a summary needs. Persist them, because three tables use them."""
    reading.require(parsed, "event log", _NEEDED)
    return parsed.select(*_NEEDED, "path", "line", "reject").withColumn(
        "line", F.when(F.col("reject").isNotNull(), F.col("line"))
    )


def summarize(parsed: DataFrame) -> Summary:
    """All three tables from the output of `compact`."""
    events = reading.rows(parsed)
    bad = reading.rejects(parsed)
    return Summary(hours(events), boots(events, bad), rejects(bad))


def hours(events: DataFrame) -> DataFrame:
    """One row for each node and hour (UTC) with anything in the log.

    Columns: run_id, node, hour, events (rows in the log), connects, publishes, deliveries, drops, drops_by_reason.
    """
    reading.require(events, "event log", _NEEDED)
    tallies = _tallies(events, _intervals(events))
    per_reason = tallies.groupBy("run_id", "node", "hour", "kind", "reason").agg(
        F.sum("value").alias("value"), F.sum("logged").alias("logged")
    )
    dropped = F.when((F.col("kind") == "drops") & (F.col("value") > 0), F.struct("reason", "value"))
    table = per_reason.groupBy("run_id", "node", "hour").agg(
        F.sum("logged").alias("events"),
        *(_total(kind) for kind in (*_COUNTERS, "drops")),
        F.map_from_entries(F.sort_array(F.collect_list(dropped))).alias("drops_by_reason"),
    )
    hour = F.timestamp_millis(F.col("hour") * _HOUR_MS).alias("hour")
    return table.select("run_id", "node", hour, "events", *_COUNTERS, "drops", "drops_by_reason")


def boots(events: DataFrame, bad: DataFrame) -> DataFrame:
    """One row for each boot of a node, about the completeness of its log.

    Columns: run_id, node, boot, events, first_seq, last_seq; missing_before (numbers below the first: deleted with
    their day, or in another directory; not those of a node before it joined), given_up (dropped by the writer, with a
    row about it), holes (missing without a reason), torn (lines cut by a crash), ending: `stopped`, `crashed` (a later
    boot exists), `open` (running or crashed).
    """
    whole = _extent(events)
    torn = bad.where(F.col("reason") == TORN).groupBy("node", "boot").agg(F.count("*").alias("torn"))
    later = F.lead("boot").over(Window.partitionBy("run_id", "node").orderBy("boot"))
    ending = F.when(F.col("stops") > 0, "stopped").when(later.isNotNull(), "crashed").otherwise("open")
    return whole.join(F.broadcast(torn), ["node", "boot"], "left").select(
        *BOOT,
        "events",
        "first_seq",
        "last_seq",
        F.when(F.col("joins") > 0, 0).otherwise(F.col("first_seq") - 1).alias("missing_before"),
        "given_up",
        F.greatest(F.col("last_seq") - F.col("first_seq") + 1 - F.col("covered"), F.lit(0)).alias("holes"),
        F.coalesce("torn", F.lit(0)).alias("torn"),
        ending.alias("ending"),
    )


def rejects(bad: DataFrame) -> DataFrame:
    """One row for each reason and file with rejected lines: reason, path, lines, example."""
    return bad.groupBy("reason", "path").agg(F.count("*").alias("lines"), F.min("line").alias("example"))


def _total(kind: str) -> Column:
    return F.sum(F.when(F.col("kind") == kind, F.col("value")).otherwise(0)).alias(kind)


def _extent(events: DataFrame) -> DataFrame:
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


def _intervals(events: DataFrame) -> DataFrame:
    """The intervals between snapshots of the counters. The first begins at the start of the boot, if the log has it.

    Columns: those of `BOOT`, low (seq before the first of the interval), high (seq of the snapshot), low_hlc, high_hlc,
    and `totals`: an array of (kind, reason, total) with the increase of the counters.
    """
    snapshots = events.where(F.col("type") == "node.stats").select(*BOOT, "seq", "hlc", *_COUNTERS, "drops")
    begun = _extent(events).where(F.col("first_seq") == 1).select(*BOOT, F.col("first_hlc").alias("start_hlc"))
    before = Window.partitionBy(*BOOT).orderBy("seq")
    pairs = snapshots.select("*", *(F.lag(name).over(before).alias(f"last_{name}") for name in (*_COUNTERS, "drops")))
    pairs = pairs.withColumn("low", F.lag("seq").over(before)).withColumn("low_hlc", F.lag("hlc").over(before))
    # counters begin at 0 with the boot; without its first rows the first snapshot is only a starting point
    known = pairs.join(F.broadcast(begun), BOOT, "left").where(
        F.col("low").isNotNull() | F.col("start_hlc").isNotNull()
    )
    gains = [
        F.struct(F.lit(name).alias("kind"), F.lit("").alias("reason"), _gain(F.col(name), F.col(f"last_{name}")))
        for name in _COUNTERS
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


_TOTALS = "array<struct<kind:string,reason:string,total:bigint>>"


def _gain(now: Column, before: Column) -> Column:
    return (F.coalesce(now, F.lit(0)) - F.coalesce(before, F.lit(0))).alias("total")


def _unit(hlc: str, length_ms: int) -> Column:
    return F.floor(F.shiftright(hlc, schema.LOGICAL_BITS) / length_ms)


def _tallies(events: DataFrame, intervals: DataFrame) -> DataFrame:
    """Counts by boot, interval, hour, kind and reason: `logged` from events, `value` with the counters' excess added.

    A join over the minutes of the intervals finds the interval of each event without sorting a boot.
    """
    minutes = F.sequence(_unit("low_hlc", _MINUTE_MS), _unit("high_hlc", _MINUTE_MS))
    spans = intervals.select(*BOOT, F.explode(minutes).alias("minute"), "low", "high")
    kind = F.when(F.col("type") == "log.gap", "gap").otherwise("other")
    for name, number in KINDS.items():
        kind = F.when(F.col("type") == name, number).otherwise(kind)
    reason = F.when(F.col("type") == "q.drop", F.coalesce("reason", F.lit("unknown"))).when(
        F.col("type") == "q.expire", "expired"
    )
    counted = events.select(
        *BOOT,
        "seq",
        _unit("hlc", _MINUTE_MS).alias("minute"),
        _unit("hlc", _HOUR_MS).alias("hour"),
        kind.alias("kind"),
        F.coalesce(reason, F.lit("")).alias("reason"),
    )
    inside = [F.col(f"event.{name}") == F.col(f"span.{name}") for name in (*BOOT, "minute")]
    inside += [F.col("event.seq") > F.col("span.low"), F.col("event.seq") <= F.col("span.high")]
    joined = counted.alias("event").join(F.broadcast(spans).alias("span"), inside, "left")
    found = joined.select("event.*", "span.high")
    key = [*BOOT, "high", "kind", "reason"]
    nothing = F.lit(0).cast("long")
    logged = (
        found.groupBy(*key, "hour").agg(F.count("*").alias("logged")).withColumns({"total": nothing, "rows": nothing})
    )
    hour = _unit("low_hlc", _HOUR_MS).alias("hour")
    gained = intervals.select(*BOOT, "high", hour, F.inline("totals"), (F.col("high") - F.col("low")).alias("rows"))
    both = logged.unionByName(gained.where(F.col("total") > 0).withColumn("logged", nothing))
    beyond = F.greatest(F.col("total") - F.sum("logged").over(Window.partitionBy(*key)), nothing)
    present = F.sum(F.when(F.col("kind") != "gap", F.col("logged"))).over(Window.partitionBy(*BOOT, "high"))
    complete = F.col("kind").isin(*_ALWAYS_EVENTS) & (F.coalesce(present, nothing) >= F.col("rows"))
    gain = F.when(complete, nothing).otherwise(beyond)
    return both.withColumn("value", F.when(F.col("total") > 0, gain).otherwise(F.col("logged")))
