"""storms: minutes in which far more clients connected to a node than usual.

Usual is the median of the connects in all minutes of all nodes of the run, from the first to the last minute of each
node. A minute is a storm if it has 10 times as many connects, and 20 at least.

Columns:
    run_id      the cluster
    node        where the clients connected
    minute      UTC
    connects    connections that got a session
    clients     different client ids among them
    usual       the median
    times       connects for each usual one; null: the usual number is 0
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .. import reading
from .times import MINUTE_MS, begin_ms, ms_of

TIMES: Final = 10
"""A storm has so many times the usual number of connects."""
LEAST: Final = 20
"""A storm has so many connects at least."""

_NEEDED = reading.columns("run_id", "node", "type", "hlc", "client", "mountpoint")
_NODE = ["run_id", "node"]


def view(events: DataFrame) -> DataFrame:
    """The minutes of each node with far more connects than the median of the run."""
    reading.require(events, "events", _NEEDED)
    minute = begin_ms(ms_of(F.col("hlc")), MINUTE_MS)
    client = F.concat_ws("/", F.coalesce("mountpoint", F.lit("")), "client")
    minutes = (
        events.where(F.col("type") == "conn.open")
        .groupBy(*_NODE, minute.alias("minute_ms"))
        .agg(F.count("*").alias("connects"), F.count_distinct(client).alias("clients"))
    )
    busy = minutes.groupBy("run_id", "connects").agg(F.count("*").alias("minutes"))
    span = events.groupBy(*_NODE).agg(F.min(minute).alias("first"), F.max(minute).alias("last"))
    all_minutes = span.groupBy("run_id").agg(F.sum((F.col("last") - F.col("first")) / MINUTE_MS + 1).alias("minutes"))
    idle = all_minutes.join(busy.groupBy("run_id").agg(F.sum("minutes").alias("busy")), "run_id").select(
        "run_id", F.lit(0).cast("long").alias("connects"), (F.col("minutes") - F.col("busy")).cast("long")
    )
    usual = busy.union(idle).groupBy("run_id").agg(F.percentile("connects", 0.5, F.col("minutes")).alias("usual"))
    storm = (F.col("connects") >= LEAST) & (F.col("connects") >= TIMES * F.col("usual"))
    times = F.when(F.col("usual") > 0, F.round(F.col("connects") / F.col("usual"), 1))
    return (
        minutes.join(F.broadcast(usual), "run_id")
        .where(storm)
        .select(
            *_NODE,
            F.timestamp_millis("minute_ms").alias("minute"),
            "connects",
            "clients",
            "usual",
            times.alias("times"),
        )
        .orderBy(*_NODE, "minute")
    )
