"""Messages and their copies, as tables made of `events`: what became of each message, and when.

`messages` has a row for each message, `pairs` a row for each message and client that it was meant for. Both take the
rows of `by_message` and need no other shuffle than its own. All times are stamps (`hlc`), the first of their kind.

Rows about a delivery name the client, not the session, so a client has one row for a message, whatever its sessions.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from . import reading

STEPS = {
    "enqueued": "q.enq",
    "durable": "q.durable",
    "sent": "dlv.send",
    "acknowledged": "dlv.ack",
    "dropped": "q.drop",
    "expired": "q.expire",
}
"""The steps of a copy of a message, and the types of events that say so."""

_OF_MESSAGE = ("pub.recv", "pub.route", "pub.ack")
_NEEDED = reading.columns(
    "type", "hlc", "node", "run_id", "client", "conn", "topic", "qos", "bytes", "code", "right", "reason", "targets"
)


def by_message(events: DataFrame) -> DataFrame:
    """The rows of messages and of their copies, all rows of a message in one partition."""
    reading.require(events, "events", _NEEDED)
    types = (*_OF_MESSAGE, *STEPS.values())
    return events.where(F.col("mid").isNotNull() & F.col("type").isin(*types)).repartition("mid")


def messages(rows: DataFrame) -> DataFrame:
    """One row for each message of which the log has a row.

    Columns: mid, run_id. Of its `pub.recv`, null if the log lacks it (as for wills): node, client, conn, topic, qos,
    bytes, received. Of its `pub.ack`: acked, code, right. `routed`: the first `pub.route`; `targets`: sessions that
    nodes chose; `copies`: rows `q.enq`; `dropped`: rows `q.drop` and `q.expire`.
    """
    return rows.groupBy("mid").agg(
        F.min("run_id").alias("run_id"),
        *(_of("pub.recv", name).alias(name) for name in ("node", "client", "conn", "topic", "qos", "bytes")),
        _of("pub.recv", "hlc").alias("received"),
        _of("pub.ack", "hlc").alias("acked"),
        _of("pub.ack", "code").alias("code"),
        _of("pub.ack", "right").alias("right"),
        _of("pub.route", "hlc").alias("routed"),
        F.sum(F.when(F.col("type") == "pub.route", F.size("targets")).otherwise(0)).alias("targets"),
        _number("q.enq").alias("copies"),
        _number("q.drop", "q.expire").alias("dropped"),
    )


def pairs(rows: DataFrame) -> DataFrame:
    """One row for each message and client of which the log has a step.

    Columns: mid, client; for each of `STEPS` the first stamp, or null; `sends`: rows `dlv.send`; `code`: of the first
    `dlv.ack`; `reason`: of the first `q.drop`; `node`: where the message was enqueued, or else first sent or dropped.
    """
    steps = rows.where(F.col("type").isin(*STEPS.values()))
    places = [_of(kind, "node") for kind in ("q.enq", "dlv.send", "q.drop", "q.expire")]
    return steps.groupBy("mid", "client").agg(
        F.coalesce(*places).alias("node"),
        *(_of(kind, "hlc").alias(step) for step, kind in STEPS.items()),
        _number("dlv.send").alias("sends"),
        _of("dlv.ack", "code").alias("code"),
        _of("q.drop", "reason").alias("reason"),
    )


def _of(kind: str, name: str) -> Column:
    """The field of the first row of this type."""
    return F.min_by(F.when(F.col("type") == kind, F.col(name)), F.when(F.col("type") == kind, F.col("hlc")))


def _number(*kinds: str) -> Column:
    return F.count(F.when(F.col("type").isin(*kinds), 1))
