"""The summary of an event log: activity of each node by hour, completeness of the log, and malformed lines.

Connects, publishes, deliveries and drops come from two sources. The first are events with their times. The log has
events of connects and drops at every level, and those of publishes and deliveries at level `message`. The second are
the counters of `node.stats` (`counters.py`).

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

from . import counters, reading
from .counters import BOOT, COUNTERS, NEEDED
from .event_lines import TORN

KINDS = {
    "conn.open": "connects",
    "pub.recv": "publishes",
    "dlv.send": "deliveries",
}
"""Type of an event -> the count to which it belongs. Those of `counters.DROPS` are drops."""

_ALWAYS_EVENTS = ("connects", "drops")


@dataclass(frozen=True, slots=True)
class Summary:
    """Three tables: hours (activity), boots (completeness of the log), rejects (malformed lines)."""

    hours: DataFrame
    boots: DataFrame
    rejects: DataFrame


def compact(parsed: DataFrame) -> DataFrame:
    """The columns of `reading.parse` that a summary needs. Persist them, because three tables use them."""
    reading.require(parsed, "event log", NEEDED)
    return parsed.select(*NEEDED, "path", "line", "reject").withColumn(
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
    reading.require(events, "event log", NEEDED)
    tallies = _tallies(events, counters.intervals(events))
    per_reason = tallies.groupBy("run_id", "node", "hour", "kind", "reason").agg(
        F.sum("value").alias("value"), F.sum("logged").alias("logged")
    )
    dropped = F.when((F.col("kind") == "drops") & (F.col("value") > 0), F.struct("reason", "value"))
    table = per_reason.groupBy("run_id", "node", "hour").agg(
        F.sum("logged").alias("events"),
        *(_total(kind) for kind in (*COUNTERS, "drops")),
        F.map_from_entries(F.sort_array(F.collect_list(dropped))).alias("drops_by_reason"),
    )
    hour = counters.time_of(F.col("hour")).alias("hour")
    return table.select("run_id", "node", hour, "events", *COUNTERS, "drops", "drops_by_reason")


def boots(events: DataFrame, bad: DataFrame) -> DataFrame:
    """One row for each boot of a node, about the completeness of its log.

    Columns: run_id, node, boot, events, first_seq, last_seq; missing_before (numbers below the first: deleted with
    their day, or in another directory; not those of a node before it joined), given_up (dropped by the writer, with a
    row about it), holes (missing without a reason), torn (lines cut by a crash), ending: `stopped`, `crashed` (a later
    boot exists), `open` (running or crashed).
    """
    whole = counters.extent(events)
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


def _tallies(events: DataFrame, intervals: DataFrame) -> DataFrame:
    """Counts by boot, interval, hour, kind and reason: `logged` from events, `value` with the excess of counters."""
    kind = F.when(F.col("type") == "log.gap", "gap").when(F.col("type").isin(*counters.DROPS), "drops")
    for name, number in KINDS.items():
        kind = kind.when(F.col("type") == name, number)
    counted = events.select(
        *BOOT,
        "seq",
        "hlc",
        counters.hour("hlc").alias("hour"),
        kind.otherwise("other").alias("kind"),
        F.coalesce(counters.reason(), F.lit("")).alias("reason"),
    )
    found = counters.placed(counted, intervals)
    key = [*BOOT, "high", "kind", "reason"]
    nothing = F.lit(0).cast("long")
    logged = (
        found.groupBy(*key, "hour").agg(F.count("*").alias("logged")).withColumns({"total": nothing, "rows": nothing})
    )
    hour = counters.hour("low_hlc").alias("hour")
    gained = intervals.select(*BOOT, "high", hour, F.inline("totals"), (F.col("high") - F.col("low")).alias("rows"))
    both = logged.unionByName(gained.where(F.col("total") > 0).withColumn("logged", nothing))
    beyond = F.greatest(F.col("total") - F.sum("logged").over(Window.partitionBy(*key)), nothing)
    present = F.sum(F.when(F.col("kind") != "gap", F.col("logged"))).over(Window.partitionBy(*BOOT, "high"))
    complete = F.col("kind").isin(*_ALWAYS_EVENTS) & (F.coalesce(present, nothing) >= F.col("rows"))
    gain = F.when(complete, nothing).otherwise(beyond)
    return both.withColumn("value", F.when(F.col("total") > 0, gain).otherwise(F.col("logged")))
