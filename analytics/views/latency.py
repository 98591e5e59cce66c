"""latency: how long messages take from step to step.

It needs logs of level `message`.

A hop is the time from one step of a message to a later one:

- `received-acknowledged`: PUBLISH came, its PUBACK or PUBREC was sent
- `received-routed`: PUBLISH came, the node knew who gets it
- `routed-enqueued-local`: a queue at the same node took it
- `routed-enqueued-remote`: a queue at another node took it
- `enqueued-durable`: the entry of the queue was safe as configured
- `enqueued-sent`: it was sent to the subscriber for the first time
- `sent-acknowledged`: it was sent for the last time, the same connection answered
- `received-sent`: PUBLISH came, it was sent to the subscriber for the first time

A message has the first two hops once, the others once for each subscriber. A step that the log lacks makes no hop.
Hops inside one boot of a node are measured with its monotonic clock. Other hops are differences of stamps, in whole
milliseconds.

Columns:
    run_id    the cluster
    node      where the hop ends
    hour      in which it begins, UTC
    level     first level of the topic; null: the log has neither the PUBLISH nor a queue's entry
    hop       see above
    count     number of hops
    p50_ms    so long took half of them at most, in milliseconds
    p95_ms    the same of 95 in 100
    p99_ms    the same of 99 in 100
    max_ms    the longest, in milliseconds
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from .. import reading
from ..messages import by_message
from .times import hour_of, ms_of

_NEEDED = reading.columns("mono_ns", "boot")
_MESSAGE = ["run_id", "mid"]
_SHARES = (0.5, 0.95, 0.99)


def view(events: DataFrame) -> DataFrame:
    """The hops of all messages by node, hour and first level of the topic."""
    reading.require(events, "events", _NEEDED)
    hops = _hops(_steps(by_message(events)))
    key = ["run_id", "node", "hour", "level", "hop"]
    shares = F.percentile_approx("ms", list(_SHARES)).alias("shares")
    table = hops.groupBy(*key).agg(F.count("*").alias("count"), shares, F.max("ms").alias("max_ms"))
    named = [F.col("shares")[at].alias(f"p{share * 100:.0f}_ms") for at, share in enumerate(_SHARES)]
    return table.select(*key, "count", *named, "max_ms").orderBy(*key)


def _steps(rows: DataFrame) -> DataFrame:
    """One row for each message and client, and one for the routing: the step itself, and `of_*` of the message."""
    steps = rows.groupBy(*_MESSAGE, "client").agg(
        F.max(F.when(F.col("type").isin("pub.recv", "q.enq"), F.col("topic"))).alias("topic"),
        F.min(_step("pub.recv")).alias("received"),
        F.min(_step("pub.route")).alias("routed"),
        F.min(_step("pub.ack")).alias("acked"),
        F.min(_step("q.enq")).alias("enqueued"),
        F.min(_step("q.durable")).alias("durable"),
        F.min(_step("dlv.send")).alias("sent"),
        F.max(_step("dlv.send")).alias("last_sent"),
        F.min(_step("dlv.ack")).alias("answered"),
    )
    whole = Window.partitionBy(*_MESSAGE)
    return steps.withColumns(
        {
            "of_received": F.min("received").over(whole),
            "of_routed": F.min("routed").over(whole),
            "level": F.substring_index(F.max("topic").over(whole), "/", 1),
        }
    )


def _step(kind: str) -> Column:
    # the stamp comes first, so that min and max are the first and the last
    return F.when(F.col("type") == kind, F.struct("hlc", "mono_ns", "node", "boot", "conn"))


def _hops(steps: DataFrame) -> DataFrame:
    """One row for each hop: run_id, level, hop, node, hour, ms."""
    local = F.col("enqueued.node") == F.col("of_routed.node")
    same = ["node", "boot", "conn"]
    answered = F.lit(True)
    for name in same:
        answered = answered & (F.col(f"last_sent.{name}") == F.col(f"answered.{name}"))
    hops = F.array(
        _hop("received-acknowledged", "received", "acked"),
        _hop("received-routed", "of_received", "routed"),
        F.when(local, _hop("routed-enqueued-local", "of_routed", "enqueued")),
        F.when(~local, _hop("routed-enqueued-remote", "of_routed", "enqueued")),
        _hop("enqueued-durable", "enqueued", "durable"),
        _hop("enqueued-sent", "enqueued", "sent"),
        F.when(answered, _hop("sent-acknowledged", "last_sent", "answered")),
        _hop("received-sent", "of_received", "sent"),
    )
    found = F.filter(hops, lambda hop: hop["ms"].isNotNull())
    return steps.select("run_id", "level", F.inline(found))


def _hop(name: str, begin: str, end: str) -> Column:
    """A hop; `ms` is null if the log lacks one of its steps."""
    first, last = F.col(begin), F.col(end)
    here = (first["node"] == last["node"]) & (first["boot"] == last["boot"])
    exact = F.round((last["mono_ns"] - first["mono_ns"]) / 1_000_000, 3)
    ms = F.when(here, exact).otherwise((ms_of(last["hlc"]) - ms_of(first["hlc"])).cast("double"))
    return F.struct(
        F.lit(name).alias("hop"), last["node"].alias("node"), hour_of(first["hlc"]).alias("hour"), ms.alias("ms")
    )
