"""exposure: acknowledged messages that one machine alone keeps, second by second.

It needs logs of level `message`.

A message is exposed from its PUBACK or PUBREC on, while the queue of a durable session has it and

- `unsynced`: no fsync has put it on the disk of the node. With the durability `sync` it is there before q.durable;
- `uncopied`: no second node has it, until `slot.copied` says that one got a copy of the slot. What it had counts as
  copied also after that node has died;
- `alone`: both. So many messages a loss of the node's power may take. A23 counts them over the whole run.

A row stands for one second in which messages became exposed or ceased to be, and for the last second of the log. The
seconds behind it are as its end, until the next row. Older logs, which do not say how safe an entry is, have no rows.

Columns:
    run_id       the cluster
    node         whose queues have the messages
    risk         see above
    second       UTC
    messages     messages that were exposed in this second, for any time
    left         messages that are exposed at its end
    oldest_ms    how long the longest exposure had lasted by the end of the second, or by its own end, in milliseconds
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from .. import reading
from .entries import entries
from .times import SECOND_MS, begin_ms, ms_of

_NEEDED = reading.columns("run_id", "node", "boot", "type", "hlc", "lsn", "slot")
_SLOTS = 256
_BOOT = ["run_id", "node", "boot"]
_PLACE = ["run_id", "node", "risk"]


def view(events: DataFrame) -> DataFrame:
    """How many acknowledged messages were exposed at each node over time, and for how long."""
    reading.require(events, "events", _NEEDED)
    ends = events.groupBy("run_id").agg(F.max(ms_of(F.col("hlc"))).alias("last_ms"))
    spans = _spans(_synced(_copied(_kept(events), events), events)).join(F.broadcast(ends), "run_id")
    return _by_second(spans)


def _kept(events: DataFrame) -> DataFrame:
    """The entries of acknowledged messages that are on a disk. Columns: run_id, mid, mountpoint, client, left, acked,
    and those of q.durable."""
    found = entries(events).where(F.col("safe.durability").isNotNull() & F.col("acked").isNotNull())
    return found.select("run_id", "mid", "mountpoint", "client", "left", "acked", "safe.*")


def _copied(kept: DataFrame, events: DataFrame) -> DataFrame:
    """The entries of `kept`, and a column `copy`: the stamp at which their node first copied their slot after they had
    entered the queue, or null. Entries that had a copy from the begin on do not need it."""
    mountpoint = F.coalesce("mountpoint", F.lit("")).alias("mountpoint")
    told = events.where(F.col("client").isNotNull() & F.col("slot").isNotNull())
    slots = told.groupBy("run_id", mountpoint, "client").agg(F.min("slot").alias("told"))
    # as `cluster.identity.slot_of`; beside hashes of names the log tells the slot
    computed = F.crc32(F.concat("mountpoint", F.lit("\0"), "client").cast("binary")) % _SLOTS
    there = kept.join(slots, ["run_id", "mountpoint", "client"], "left").withColumn(
        "slot", F.coalesce("told", computed)
    )
    copies = events.where(F.col("type") == "slot.copied").select(
        "run_id", "node", "slot", "hlc", F.col("hlc").alias("copy")
    )
    spread = F.when(F.col("copied"), F.col("mid"))
    later = Window.partitionBy("run_id", "node", "slot", spread).orderBy(F.desc("hlc"))
    both = there.unionByName(copies, allowMissingColumns=True)
    found = both.withColumn("copy", F.min("copy").over(later.rowsBetween(Window.unboundedPreceding, 0)))
    return found.where(F.col("mid").isNotNull())


def _synced(kept: DataFrame, events: DataFrame) -> DataFrame:
    """With the stamp of the first fsync of the boot behind which the entry is on the disk, or null."""
    syncs = events.where((F.col("type") == "store.sync") & F.col("lsn").isNotNull())
    boots = F.broadcast(syncs.select(*_BOOT, F.lit(True).alias("syncs")).distinct())
    both = kept.join(boots, _BOOT, "left").unionByName(
        syncs.select(*_BOOT, "lsn", F.col("hlc").alias("sync"), F.lit(True).alias("syncs")), allowMissingColumns=True
    )
    # entries of boots without any fsync need no order, and are spread
    spread = F.when(F.col("syncs").isNull() | (F.col("durability") == "sync"), F.col("mid"))
    # of one lsn the fsync comes first
    later = Window.partitionBy(*_BOOT, spread).orderBy(F.desc("lsn"), F.col("mid").isNotNull())
    found = both.withColumn("sync", F.min("sync").over(later.rowsBetween(Window.unboundedPreceding, 0)))
    synced = F.when(F.col("durability") == "sync", F.col("hlc")).otherwise(F.col("sync"))
    return found.where(F.col("mid").isNotNull()).withColumn("synced", synced)


def _spans(synced: DataFrame) -> DataFrame:
    """From when to when a message was exposed at a node: run_id, node, risk, begin, end; end is null if it is yet."""
    copied = F.coalesce("copied", F.lit(False))
    until_sync = F.least("left", "synced")
    risks = F.array(
        _risk("unsynced", F.lit(True), until_sync),
        _risk("uncopied", ~copied, F.least("left", "copy")),
        _risk("alone", ~copied, F.least(until_sync, "copy")),
    )
    exposed = F.filter(risks, lambda each: each["exposed"])
    spans = synced.select("run_id", "node", "mid", "acked", F.inline(exposed))
    never = F.max(F.col("end").isNull()).alias("never")
    whole = spans.groupBy(*_PLACE, "mid").agg(F.min("acked").alias("begin"), F.max("end").alias("end"), never)
    return whole.select(*_PLACE, "begin", F.when(~F.col("never"), F.col("end")).alias("end"))


def _risk(name: str, applies: Column, end: Column) -> Column:
    exposed = applies & (end.isNull() | (end > F.col("acked")))
    return F.struct(F.lit(name).alias("risk"), exposed.alias("exposed"), end.alias("end"))


def _by_second(spans: DataFrame) -> DataFrame:
    """From spans, each with the last time of its run, to seconds."""
    begin, end, last = ms_of(F.col("begin")), ms_of(F.col("end")), F.col("last_ms")
    # a message that is exposed yet has its end behind the log
    first_s, last_s, log_s = (begin_ms(each, SECOND_MS) for each in (begin, end, last))
    open_ms = F.when(F.col("end").isNull(), begin)
    changes = F.array(
        _change(first_s, begun=F.lit(1)),
        _change(last_s, ended=F.lit(1), ended_begin=begin, ended_ms=end - begin),
        # the last second of the log says what is left
        _change(F.when(F.col("end").isNull(), log_s), open_begin=open_ms),
    )
    sums = ["begun", "ended"]
    found = (
        spans.select(*_PLACE, F.inline(changes))
        .where(F.col("second").isNotNull())
        .groupBy(*_PLACE, "second")
        .agg(
            *(F.sum(name).alias(name) for name in sums),
            F.min("ended_begin").alias("ended_begin"),
            F.max("ended_ms").alias("ended_ms"),
            F.min("open_begin").alias("open_begin"),
        )
    )
    earlier = Window.partitionBy(*_PLACE).orderBy("second")
    later = Window.partitionBy(*_PLACE).orderBy(F.desc("second"))
    left = F.sum(F.col("begun") - F.col("ended")).over(earlier)
    # those that end in later seconds, and those that are exposed yet; a begin behind this second is none of it
    behind = F.min("ended_begin").over(later.rowsBetween(Window.unboundedPreceding, -1))
    open_yet = F.min("open_begin").over(later.rowsBetween(Window.unboundedPreceding, 0))
    end_ms = F.col("second") + SECOND_MS
    oldest = F.least(behind, open_yet)
    age = F.when(oldest < end_ms, end_ms - oldest)
    table = found.withColumns({"left": left, "oldest_ms": F.greatest("ended_ms", age)})
    return table.select(
        *_PLACE,
        F.timestamp_millis("second").alias("second"),
        (F.col("left") + F.col("ended")).alias("messages"),
        "left",
        "oldest_ms",
    ).orderBy(*_PLACE, "second")


def _change(second: Column, **values: Column) -> Column:
    columns = [values.get(name, F.lit(0)).cast("long").alias(name) for name in ("begun", "ended")]
    nothing = F.lit(None).cast("long")
    columns += [values.get(name, nothing).alias(name) for name in ("ended_begin", "ended_ms", "open_begin")]
    return F.struct(second.alias("second"), *columns)
