"""sessions: connects, ends, takeovers and online time by client and node.

The client with the most connects comes first.

Columns:
    run_id               the cluster
    node                 where the client connected
    mountpoint           of the client; empty: the default one
    client               client id
    connects             connections that got a session
    session_present      connects that continued a session
    closes               connections that ended, by reason
    takeovers            connections that another one of the client id ended
    most_in_a_minute     the most connects within one minute of the clock
    flapping             whether there were 10 or more in a minute
    online_ms            how long it was connected, all connections together, in milliseconds
    longest_online_ms    its longest connection, in milliseconds; null: the log has no begin of a connection

A connection without an end in the log lasts until the last row of its boot. Connections of which the log lacks the
begin count as ends alone. Older logs do not number connections: then online times are 0 and null.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .. import reading
from .times import MINUTE_MS, begin_ms, ms_of

FLAPPING: Final = 10
"""So many connects of a client within a minute are flapping."""

CLIENT: Final = ["run_id", "node", "mountpoint", "client"]
BOOT: Final = ["run_id", "node", "boot"]

_TYPES = ("conn.open", "conn.close", "sess.takeover.start")
_NEEDED = reading.columns(*CLIENT, "boot", "conn", "type", "hlc", "mono_ns", "reason", "present")


def view(events: DataFrame) -> DataFrame:
    """What the connections of each client at each node were like."""
    reading.require(events, "events", _NEEDED)
    tallies = _connections(events).select(*CLIENT, F.inline(F.array(_opened(), _closed(), _taken())))
    # many connections of a client become one row for each minute and each reason before they come together
    sums = ["connects", "session_present", "closes", "takeovers", "online_ms"]
    counted = tallies.groupBy(*CLIENT, "minute", "reason").agg(
        *(F.sum(name).alias(name) for name in sums), F.max("longest_online_ms").alias("longest_online_ms")
    )
    reasons = F.collect_list(F.when(F.col("closes") > 0, F.struct("reason", "closes")))
    table = counted.groupBy(*CLIENT).agg(
        F.map_from_entries(F.sort_array(reasons)).alias("reasons"),
        F.max("connects").alias("most_in_a_minute"),
        *(F.sum(name).alias(name) for name in sums if name != "closes"),
        F.max("longest_online_ms").alias("longest_online_ms"),
    )
    return table.select(
        *CLIENT,
        "connects",
        "session_present",
        F.col("reasons").alias("closes"),
        "takeovers",
        "most_in_a_minute",
        (F.col("most_in_a_minute") >= FLAPPING).alias("flapping"),
        "online_ms",
        "longest_online_ms",
    ).orderBy(F.desc("connects"), *CLIENT)


def _connections(events: DataFrame) -> DataFrame:
    """One row for each connection. Rows without a number of a connection are together in one."""
    last = events.groupBy(*BOOT).agg(F.max("mono_ns").alias("last_ns"))
    rows = events.where(F.col("type").isin(*_TYPES)).withColumn("mountpoint", F.coalesce("mountpoint", F.lit("")))
    opened, closed = F.col("type") == "conn.open", F.col("type") == "conn.close"
    # older logs lack the numbers: there each row is a connection of its own
    each = F.when(F.col("conn").isNull(), F.col("hlc"))
    found = rows.groupBy(*CLIENT, "boot", "conn", each.alias("each")).agg(
        F.count(F.when(opened, 1)).alias("connects"),
        F.count(F.when(opened & F.col("present"), 1)).alias("session_present"),
        F.min(F.when(opened, F.col("hlc"))).alias("opened"),
        F.min(F.when(opened, F.col("mono_ns"))).alias("opened_ns"),
        F.count(F.when(closed, 1)).alias("closes"),
        F.max(F.when(closed, F.coalesce("reason", F.lit("unknown")))).alias("reason"),
        F.max(F.when(closed, F.col("mono_ns"))).alias("closed_ns"),
        F.count(F.when(F.col("type") == "sess.takeover.start", 1)).alias("takeovers"),
    )
    online = (F.coalesce("closed_ns", "last_ns") - F.col("opened_ns")) / 1_000_000
    number = F.when(F.col("conn").isNotNull(), F.round(online).cast("long"))
    return found.join(F.broadcast(last), BOOT, "left").withColumn("online", number)


def _tally(**values: Column) -> Column:
    """A part of the sums of a client, under its minute or its reason."""
    columns = [values.get(name, F.lit(None).cast("string")).alias(name) for name in ("minute", "reason")]
    counts = ("connects", "session_present", "closes", "takeovers", "online_ms")
    columns += [values.get(name, F.lit(0).cast("long")).alias(name) for name in counts]
    longest = values.get("longest_online_ms", F.lit(None).cast("long")).alias("longest_online_ms")
    return F.struct(*columns, longest)


def _opened() -> Column:
    return _tally(
        minute=begin_ms(ms_of(F.col("opened")), MINUTE_MS).cast("string"),
        connects=F.col("connects"),
        session_present=F.col("session_present"),
        online_ms=F.coalesce("online", F.lit(0).cast("long")),
        longest_online_ms=F.col("online"),
    )


def _closed() -> Column:
    return _tally(reason=F.col("reason"), closes=F.col("closes"))


def _taken() -> Column:
    return _tally(takeovers=F.col("takeovers"))
