"""topics: publishes, deliveries, fan-out and skew by topic, the busiest first.

It needs logs of level `message`.

Each run has rows for its 100 topics with the most publishes and deliveries, and one row for all others together.

Columns:
    run_id                the cluster
    topic                 null: all topics that have no row of their own, and messages whose topic the log lacks
    topics                number of topics in this row, 1 but for the last
    publishes             PUBLISH packets accepted
    bytes                 their payload, in bytes
    deliveries            PUBLISH packets sent to subscribers, repeated ones included
    delivered_bytes       their payload, in bytes; 0 for messages whose PUBLISH the log lacks
    fan_out               deliveries for each publish; null: nothing was published in this log
    share                 part of all publishes and deliveries of the run, 0 to 1
    publishers            clients that published
    largest_publisher     part of the busiest one in the publishes of the topic, 0 to 1; null: nothing was published
    subscribers           clients to which it was sent
    largest_subscriber    part of the busiest one in the deliveries of the topic, 0 to 1; null: nothing was sent

In the row of all others, the last four columns are null: a client may have many topics.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from .. import reading

TOP: Final = 100
"""How many topics of a run have rows of their own."""

_TYPES = ("pub.recv", "q.enq", "dlv.send", "ret.deliver", "will.fire")
_NEEDED = reading.columns("run_id", "type", "client", "topic", "bytes")
_MESSAGE = ["run_id", "mid"]


def view(events: DataFrame, top: int = TOP) -> DataFrame:
    """The busiest topics of each run, and the rest as one row."""
    reading.require(events, "events", _NEEDED)
    topics = _by_topic(_by_client(events))
    busiest = Window.partitionBy("run_id").orderBy(F.col("topic").isNull(), F.desc("heat"), "topic")
    whole = Window.partitionBy("run_id")
    ranked = topics.withColumns({"rank": F.row_number().over(busiest), "all": F.sum("heat").over(whole)})
    own = F.col("rank") <= top
    table = ranked.groupBy("run_id", F.least("rank", F.lit(top + 1)).alias("rank")).agg(
        F.max(F.when(own, F.col("topic"))).alias("topic"),
        F.count("*").alias("topics"),
        *(F.sum(name).alias(name) for name in ("publishes", "bytes", "deliveries", "delivered_bytes", "heat")),
        F.max("all").alias("all"),
        *(
            F.max(F.when(own, F.col(name))).alias(name)
            for name in ("publishers", "most_published", "subscribers", "most_delivered")
        ),
    )
    return table.orderBy("run_id", "rank").select(
        "run_id",
        "topic",
        "topics",
        "publishes",
        "bytes",
        "deliveries",
        "delivered_bytes",
        _part("deliveries", "publishes").alias("fan_out"),
        _part("heat", "all").alias("share"),
        "publishers",
        _part("most_published", "publishes").alias("largest_publisher"),
        "subscribers",
        _part("most_delivered", "deliveries").alias("largest_subscriber"),
    )


def _by_client(events: DataFrame) -> DataFrame:
    """One row for each message and client: what the client published and got, with topic and size of the message."""
    rows = events.where(F.col("mid").isNotNull() & F.col("type").isin(*_TYPES)).repartition("mid")
    received = F.col("type") == "pub.recv"
    steps = rows.groupBy(*_MESSAGE, "client").agg(
        F.max("topic").alias("topic"),
        F.max(F.when(received, F.col("bytes"))).alias("bytes"),
        F.count(F.when(received, 1)).alias("publishes"),
        F.count(F.when(F.col("type") == "dlv.send", 1)).alias("deliveries"),
    )
    whole = Window.partitionBy(*_MESSAGE)
    named = steps.withColumns({name: F.max(name).over(whole) for name in ("topic", "bytes")})
    return named.where(F.col("publishes") + F.col("deliveries") > 0)


def _by_topic(by_client: DataFrame) -> DataFrame:
    size = F.coalesce("bytes", F.lit(0))
    pairs = by_client.groupBy("run_id", "topic", "client").agg(
        F.sum("publishes").alias("publishes"),
        F.sum("deliveries").alias("deliveries"),
        F.sum(F.col("publishes") * size).alias("bytes"),
        F.sum(F.col("deliveries") * size).alias("delivered_bytes"),
    )
    topics = pairs.groupBy("run_id", "topic").agg(
        *(F.sum(name).alias(name) for name in ("publishes", "bytes", "deliveries", "delivered_bytes")),
        F.count(F.when(F.col("publishes") > 0, 1)).alias("publishers"),
        F.count(F.when(F.col("deliveries") > 0, 1)).alias("subscribers"),
        F.max("publishes").alias("most_published"),
        F.max("deliveries").alias("most_delivered"),
    )
    return topics.withColumn("heat", F.col("publishes") + F.col("deliveries"))


def _part(part: str, whole: str) -> Column:
    return F.when(F.col(whole) > 0, F.round(F.col(part) / F.col(whole), 4))
