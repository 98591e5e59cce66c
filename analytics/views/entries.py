"""Entries of queues: one row for each message and client whose queue took it, with the time at which it left.

An entry leaves its queue when the subscriber answers, when it is sent with QoS 0, when it is dropped or expires, or
when the session ends.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from .. import reading
from ..messages import by_message

REFUSED = 0x80
"""The least reason code of a refusal."""

_NEEDED = reading.columns("run_id", "boot", "mountpoint", "epoch", "lsn", "durability", "copied")
_MESSAGE = ["run_id", "mid"]
_SESSION = ["run_id", "mountpoint", "client", "epoch"]
_ENDS = ("dlv.ack", "q.drop", "q.expire")


def entries(events: DataFrame) -> DataFrame:
    """Columns: run_id, mid, client, mountpoint (empty: the default one), epoch, node (the first whose queue took it);
    the stamps `entered`, `left` (null: it waits), `acked` (of the message; null: it was not acknowledged); `safe`:
    stamp, node, boot, lsn, durability and copied of its first q.durable, or null.
    """
    reading.require(events, "events", _NEEDED)
    queued = F.struct("hlc", "node", F.coalesce("mountpoint", F.lit("")).alias("mountpoint"), "epoch", "qos")
    safe = F.struct("hlc", "node", "boot", "lsn", "durability", "copied")
    steps = (
        by_message(events)
        .groupBy(*_MESSAGE, "client")
        .agg(
            F.min(_of(queued, "q.enq")).alias("queued"),
            F.min(_of(safe, "q.durable")).alias("safe"),
            F.min(_of(F.col("hlc"), "dlv.send")).alias("sent"),
            # a session that went to another node has its entry there, too: what counts is the last end
            F.max(_of(F.col("hlc"), *_ENDS)).alias("ended"),
            F.min(F.when(F.coalesce("code", F.lit(0)) < REFUSED, _of(F.col("hlc"), "pub.ack"))).alias("acked"),
        )
    )
    of_message = F.min("acked").over(Window.partitionBy(*_MESSAGE))
    found = steps.withColumn("acked", of_message).where(F.col("queued").isNotNull())
    left = F.coalesce("ended", F.when(F.col("queued.qos") == 0, F.col("sent")))
    columns = [F.col(f"queued.{name}").alias(name) for name in ("mountpoint", "epoch", "node")]
    plain = found.select(
        *_MESSAGE, "client", *columns, F.col("queued.hlc").alias("entered"), left.alias("left"), "acked", "safe"
    )
    return _until_the_session_ended(plain, events)


def _of(value: Column, *kinds: str) -> Column:
    return F.when(F.col("type").isin(*kinds), value)


def _until_the_session_ended(found: DataFrame, events: DataFrame) -> DataFrame:
    """Entries that wait have left when their session ended: at its first end after them."""
    ends = events.where(F.col("type") == "sess.end").select(
        "run_id", F.coalesce("mountpoint", F.lit("")).alias("mountpoint"), "client", "epoch", F.col("hlc").alias("end")
    )
    both = found.unionByName(ends, allowMissingColumns=True)
    when = F.coalesce("entered", "end")
    # only entries that wait meet the ends of their session; the others are spread
    spread = F.when(F.col("left").isNotNull(), F.col("mid"))
    later = Window.partitionBy(*_SESSION, spread).orderBy(when.desc()).rowsBetween(Window.unboundedPreceding, 0)
    ended = both.withColumn("left", F.coalesce("left", F.min("end").over(later)))
    return ended.where(F.col("mid").isNotNull()).drop("end")
