"""From events to the small tables of the report, for all runs at once: activity by interval, boots, facts, rows.

All functions go from table to table and contain no Spark action. What they return is bounded by the number of
intervals, nodes, boots and reasons, but for `facts`, which its caller cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ...judge.message import REFUSED
from ...judge.rows import RowId
from .. import reading, schema
from .report_data import DROPS, REFUSALS

FACTS: Final = tuple(
    name
    for name in schema.TYPES
    if name in ("node.start", "node.join", "config.change", "split.detect", "split.change", "split.heal")
    or name.startswith("fault.")
)
"""The types of events that tell lives of nodes, incidents, settings and injected faults."""

BOOT: Final = ("run_id", "node", "boot")
QUANTILES: Final = (0.5, 0.99)
_ACTIVITY: Final = reading.columns("run_id", "node", "hlc", "type", "code")
_TIMES: Final = reading.columns("run_id", "node", "boot", "hlc", "mono_ns", "type", "code") | {"mid": T.StringType()}
_COUNTS: Final = reading.columns("run_id", "node", "hlc", "type", "reason", "operation", "code")


class Axis(NamedTuple):
    """How the time of a run is cut: the length of its intervals, and the nodes that have a lane of their own."""

    interval_ms: int
    nodes: tuple[str, ...]


def boots(events: DataFrame) -> DataFrame:
    """One row for each boot: run_id, node, boot, events, first_seq, first_hlc, last_seq, last_hlc, stopped (its last
    row is node.stop)."""
    reading.require(events, "events", reading.columns(*BOOT, "seq", "hlc", "type"))
    return events.groupBy(*BOOT).agg(
        F.count("*").alias("events"),
        F.min("seq").alias("first_seq"),
        F.min_by("hlc", "seq").alias("first_hlc"),
        F.max("seq").alias("last_seq"),
        F.max_by("hlc", "seq").alias("last_hlc"),
        (F.max_by("type", "seq") == "node.stop").alias("stopped"),
    )


def activity(events: DataFrame, axes: Mapping[str, Axis]) -> DataFrame:
    """What each node did in each interval in which it did anything. `node` is "" for all nodes without a lane.

    Columns: run_id, at_ms (begin of the interval), node, published, acked, delivered, dropped, refused.
    """
    reading.require(events, "events", _ACTIVITY)
    refused = _is(*REFUSALS) & (~_is("pub.ack") | _is_refused())
    counted = {
        "published": _is("pub.recv"),
        "acked": _is("pub.ack") & ~_is_refused(),
        "delivered": _is("dlv.send"),
        "dropped": _is(*DROPS),
        "refused": refused,
    }
    of_interest = events.where(F.col("run_id").isin(*axes) & _is("pub.recv", "dlv.send", *DROPS, *REFUSALS))
    return _placed(of_interest, axes).agg(*(F.count(F.when(test, 1)).alias(name) for name, test in counted.items()))


def times(events: DataFrame, axes: Mapping[str, Axis]) -> DataFrame:
    """How long the publishers waited for PUBACK or PUBREC, by the monotonic clock of the node that answered.

    Columns: run_id, at_ms (interval of the PUBLISH), node, p50_us, p99_us.
    """
    reading.require(events, "events", _TIMES)
    rows = events.where(F.col("run_id").isin(*axes) & F.col("mid").isNotNull() & _is("pub.recv", "pub.ack"))
    received = _is("pub.recv")
    answered = _is("pub.ack") & ~_is_refused()
    each = rows.groupBy("mid", *BOOT).agg(
        F.min(F.when(received, F.col("hlc"))).alias("hlc"),
        F.min(F.when(received, F.col("mono_ns"))).alias("begin"),
        F.min(F.when(answered, F.col("mono_ns"))).alias("end"),
    )
    took = each.where("hlc is not null and end >= begin").withColumn(
        "us", F.floor((F.col("end") - F.col("begin")) / 1000)
    )
    quantiles = F.percentile_approx("us", list(QUANTILES))
    found = _placed(took, axes).agg(quantiles.alias("us"))
    return found.select("run_id", "at_ms", "node", F.col("us")[0].alias("p50_us"), F.col("us")[1].alias("p99_us"))


def counts(events: DataFrame) -> DataFrame:
    """What was dropped or refused, by reason: run_id, type, reason, number, first_ms, last_ms, nodes (sorted)."""
    reading.require(events, "events", _COUNTS)
    reason = (
        F.when(_is("pub.ack"), F.concat(F.lit("reason code 0x"), F.hex("code")))
        .when(_is("policy.deny"), F.concat_ws(": ", "operation", "reason"))
        .when(_is("q.expire"), F.lit("expired"))
        .otherwise(F.coalesce("reason", F.lit("unknown")))
    )
    rows = events.where(_is(*DROPS, *REFUSALS) & (~_is("pub.ack") | _is_refused()))
    return rows.groupBy("run_id", "type", reason.alias("reason")).agg(
        F.count("*").alias("number"),
        F.min(_ms()).alias("first_ms"),
        F.max(_ms()).alias("last_ms"),
        F.sort_array(F.collect_set("node")).alias("nodes"),
    )


def facts(events: DataFrame) -> DataFrame:
    """The rows about lives of nodes, incidents, settings and injected faults, all columns."""
    reading.require(events, "events", reading.columns("run_id", "type"))
    return events.where(_is(*FACTS))


def rows_of(events: DataFrame, wanted: Iterable[tuple[str, RowId]]) -> DataFrame:
    """The rows with these names, each a run and a row id. The names are a small table that is sent to all workers."""
    reading.require(events, "events", reading.columns(*BOOT, "seq"))
    names = [(run, *row) for run, row in wanted]
    table = events.sparkSession.createDataFrame(names, "run_id string, node string, boot bigint, seq bigint")
    return events.join(F.broadcast(table), [*BOOT, "seq"], "left_semi")


def _placed(rows: DataFrame, axes: Mapping[str, Axis]) -> GroupedData:
    """Rows of these runs by run, interval and lane."""
    length = _by_run({run: F.lit(axis.interval_ms) for run, axis in axes.items()})
    lanes = _by_run({run: F.array(*map(F.lit, axis.nodes)) for run, axis in axes.items()})
    return rows.groupBy(
        "run_id",
        (F.floor(_ms() / length) * length).alias("at_ms"),
        F.when(F.array_contains(lanes, F.col("node")), F.col("node")).otherwise("").alias("node"),
    )


def _by_run(values: Mapping[str, Column]) -> Column:
    return F.create_map(*(part for run, value in values.items() for part in (F.lit(run), value)))[F.col("run_id")]


def _ms() -> Column:
    return F.shiftright("hlc", schema.LOGICAL_BITS)


def _is(*kinds: str) -> Column:
    return F.col("type").isin(*kinds)


def _is_refused() -> Column:
    return F.coalesce("code", F.lit(0)) >= REFUSED
