"""queues: how many messages wait for each client, and which queues grow.

It needs logs of level `message`.

The queue with the most messages at the end of the log comes first. Messages that a queue had before the log begins do
not count.

Columns:
    run_id            the cluster
    mountpoint        of the client; empty: the default one
    client            client id
    node              where the last message entered the queue
    entered           messages that entered the queue
    left              messages that left it: answered, sent with QoS 0, dropped, expired, or gone with the session
    depth             messages in it at the end of the log
    most              the most at the end of a minute
    rising_minutes    the longest row of minutes with traffic in each of which more entered than left
    growing           whether these are 5 or more
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from .entries import entries
from .times import MINUTE_MS, begin_ms, ms_of

GROWING: Final = 5
"""A queue grows if it rose in so many minutes with traffic, one after the other."""

_CLIENT = ["run_id", "mountpoint", "client"]


def view(events: DataFrame) -> DataFrame:
    """What entered and left the queue of each client."""
    minutes = _by_minute(entries(events))
    so_far = Window.partitionBy(*_CLIENT).orderBy("minute")
    rose = F.col("entered") > F.col("left")
    runs = minutes.withColumns(
        {
            "depth": F.sum(F.col("entered") - F.col("left")).over(so_far),
            "rose": rose,
            "falls": F.count(F.when(~rose, 1)).over(so_far),
        }
    )
    sums = [F.sum(name).alias(name) for name in ("entered", "left")]
    by_run = runs.groupBy(*_CLIENT, "falls").agg(
        *sums,
        F.max("depth").alias("most"),
        F.count(F.when(F.col("rose"), 1)).alias("rising"),
        F.max("last").alias("last"),
    )
    table = by_run.groupBy(*_CLIENT).agg(
        *sums,
        F.max("most").alias("most"),
        F.max("rising").alias("rising_minutes"),
        F.max("last").alias("last"),
    )
    return table.select(
        *_CLIENT,
        F.col("last.node").alias("node"),
        "entered",
        "left",
        (F.col("entered") - F.col("left")).alias("depth"),
        "most",
        "rising_minutes",
        (F.col("rising_minutes") >= GROWING).alias("growing"),
    ).orderBy(F.desc("depth"), *_CLIENT)


def _by_minute(found: DataFrame) -> DataFrame:
    """One row for each client and minute with traffic. `last`: stamp and node of the last entry."""
    changes = found.select(*_CLIENT, F.inline(F.array(_change("entered", 1, 0), _change("left", 0, 1))))
    return (
        changes.where(F.col("minute").isNotNull())
        .groupBy(*_CLIENT, "minute")
        .agg(F.sum("entered").alias("entered"), F.sum("left").alias("left"), F.max("last").alias("last"))
    )


def _change(stamp: str, entered: int, left: int) -> Column:
    return F.struct(
        begin_ms(ms_of(F.col(stamp)), MINUTE_MS).alias("minute"),
        F.lit(entered).alias("entered"),
        F.lit(left).alias("left"),
        F.struct(F.col("entered").alias("hlc"), "node").alias("last"),
    )
