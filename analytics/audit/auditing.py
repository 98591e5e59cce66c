"""The job `audit`: the judges of `judge` on the table `events`, grouped by Spark.

Each run is judged alone. First the driver builds its world (`worlds.py`). Then messages are judged, one after the
other, and hand on entries, which are judged by lane and then by queue, and retained messages, judged by topic.
Rows of clients, of boots and refusals are judged apart from that. All findings come together in one table.

The driver collects boots, what the world is built from, counts by place, and the first findings of each kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ...judge.alerts import DROP_TYPES
from ...judge.anomalies import a08_stall
from ...judge.findings import Finding, Severity, in_order, verdict_of
from ...judge.judging import (
    CLIENT_TYPES,
    COMPARISON_TYPES,
    CONNECTION_TYPES,
    RETAINED_TYPES,
    WRITE_TYPES,
    judge_cluster,
    judge_sessions,
)
from ...judge.message import FIELDS, TYPES
from ...judge.rows import ms_of
from ...judge.world import World
from . import judges, records, stretches, worlds
from .run_audit import Kind, RunAudit
from .worlds import Boot

FIRST: Final = 100
"""So many findings of a kind are in the result."""

MISSED: Final = DROP_TYPES - {"ret.refuse"}
"""Types of rows that say that somebody does not get a message, and why."""

_KIND: Final = ["run_id", "anomaly", "kind", "severity"]
_REFUSALS: Final = ("policy.deny",)
_TABLE: Final = StorageLevel.MEMORY_AND_DISK


@dataclass(frozen=True, slots=True)
class Audit:
    """The results by run, and all findings: `run_id`, `id`, and the fields of `judge.findings.Finding`."""

    runs: list[RunAudit]
    findings: DataFrame


def audit(spark: SparkSession, events: DataFrame, first: int = FIRST) -> list[RunAudit]:
    """Judge all runs in `events` (`silver.read_events`). Returns the first findings of each kind, and counts of all.
    Raises `Trouble`."""
    with audited(spark, events, first) as done:
        return done.runs


@contextmanager
def audited(spark: SparkSession, events: DataFrame, first: int = FIRST) -> Iterator[Audit]:
    """The same with the table of all findings, which lasts as long as the context."""
    job = _Audit(spark, events)
    try:
        yield job.run(first)
    finally:
        job.close()


class _Audit:
    """One audit, with the tables that several steps read."""

    def __init__(self, spark: SparkSession, events: DataFrame) -> None:
        self.spark = spark
        self.events = events
        self._kept: list[DataFrame] = []

    def close(self) -> None:
        for each in self._kept:
            each.unpersist()

    def run(self, first: int) -> Audit:
        words = self._keep(stretches.words(self.events))
        ends = self._keep(stretches.stretches(self.events, words))
        boots = worlds.collect_boots(stretches.boots(words, ends))
        others = self._keep(not_of_messages(self.events), StorageLevel.DISK_ONLY)
        of_run = worlds.build(self.events, others, boots)
        shared = self.spark.sparkContext.broadcast({run_id: each.packed() for run_id, each in of_run.items()})
        judged = self._keep(_mapped(by_message(self.events), judges.messages(shared)))
        of_lanes = self._keep(_mapped(by_lane(judged), judges.lanes))
        of_queues = self._keep(_mapped(by_queue(of_lanes, judged), judges.queues(shared)))
        found = [
            judged,
            of_lanes,
            of_queues,
            _mapped(by_session(judged), judges.sendings(shared)),
            _mapped(by_topic(judged), judges.topics(shared)),
            _mapped(by_retained(others), judges.retained(shared)),
            _mapped(by_client(others), judges.clients(shared)),
            _mapped(by_asker(others), judges.comparisons(shared)),
            _mapped(by_writer(self.events), judges.writes(shared)),
            _mapped(by_connection(self.events, judged), judges.connections(shared)),
            _mapped(_of_types(others, _REFUSALS), judges.refusals(shared)),
            _mapped(by_boot(ends), judges.boots(shared)),
            *self._of_driver(of_run, judged),
        ]
        findings = self._keep(_findings(found))
        runs = _results(of_run, boots, _counts([judged, of_queues]), _kinds(findings), _first(findings, first))
        dropped, levels = _dropped(self.events), _levels(others)
        return Audit(
            [replace(each, dropped=dropped.get(each.run_id, 0), levels=levels.get(each.run_id, ())) for each in runs],
            findings,
        )

    def _keep(self, table: DataFrame, where: StorageLevel = _TABLE) -> DataFrame:
        self._kept.append(table.persist(where))
        return table

    def _of_driver(self, of_run: dict[str, World], judged: DataFrame) -> Iterator[DataFrame]:
        """What is judged by world alone, or by counts of the run: a table, or none if nothing was found."""
        without_lease, exposed = _places(judged, "without_lease"), _places(judged, "exposed")
        rows = []
        for run_id, world in of_run.items():
            found = [each for owner in world.sessions for each in judge_sessions(owner, world)]
            found += judge_cluster(without_lease.get(run_id, {}), exposed.get(run_id, {}), world)
            rows += [(run_id, each) for each in found]
        if rows:
            yield self.spark.createDataFrame(judges.found(rows))


def by_message(events: DataFrame) -> DataFrame:
    """What the judge of messages reads, one message after the other."""
    rows = events.where(F.col("mid").isNotNull() & F.col("type").isin(*TYPES)).select("run_id", "mid", *FIELDS)
    return _grouped(rows, [F.col("run_id"), F.col("mid")], F.col("hlc"))


def not_of_messages(events: DataFrame) -> DataFrame:
    """The rows that are read for others than messages: few of them, so that only these are read again and again."""
    types = {*CLIENT_TYPES, *RETAINED_TYPES, *COMPARISON_TYPES, *_REFUSALS, *worlds.TYPES}
    return events.where(F.col("type").isin(*types)).select(*judges.fields_of(types))


def by_lane(judged: DataFrame) -> DataFrame:
    """Entries, one lane after the other, each in `judge.lanes.lane_order`."""
    rows = judged.where(F.col("entry").isNotNull()).select("run_id", "entry")
    key = [F.col("run_id"), F.col("entry.session"), F.col("entry.lane")]
    return _grouped(rows, key, F.col("entry.lifo").desc(), F.col("entry.accepted").desc())


def by_session(judged: DataFrame) -> DataFrame:
    """Entries that were sent, one session after the other, each in `judge.lanes.sending_order`."""
    rows = judged.where(F.col("entry.first_sent") >= 0).select("run_id", "entry")
    return _grouped(rows, [F.col("run_id"), F.col("entry.session")], F.col("entry.first_sent"), F.col("entry.message"))


def by_queue(of_lanes: DataFrame, judged: DataFrame) -> DataFrame:
    """Stamps of q.enq and entries that wait, one session after the other, each in `judge.lanes.queue_order`."""
    waiting = of_lanes.where(F.col("entry").isNotNull()).select("run_id", "entry", "queued")
    rows = waiting.unionByName(judged.where(F.col("queued").isNotNull()).select("run_id", "entry", "queued"))
    key = [F.col("run_id"), F.coalesce("entry.session", "queued._1")]
    order = F.col("entry.acked").desc_nulls_first(), F.col("entry.message").desc()
    return _grouped(rows, key, *order)


def by_topic(judged: DataFrame) -> DataFrame:
    """Retained messages, one topic after the other, each in the order of `Retained.due`."""
    rows = judged.where(F.col("retained").isNotNull()).select("run_id", "due", "retained")
    return _grouped(rows, [F.col("run_id"), F.col("retained.mountpoint"), F.col("retained.topic")], F.col("due"))


def by_retained(events: DataFrame) -> DataFrame:
    """The rows that say what a node keeps for a topic, one topic after the other; `at` is the mountpoint."""
    return _grouped(_of_types(events, RETAINED_TYPES), [F.col("run_id"), F.col("at"), F.col("topic")])


def by_client(events: DataFrame) -> DataFrame:
    """The rows that are judged by client, one client after the other; `at` is the mountpoint."""
    return _grouped(_of_types(events, CLIENT_TYPES), [F.col("run_id"), F.col("at"), F.col("client")])


def by_asker(events: DataFrame) -> DataFrame:
    """Comparisons of maps, one node that has asked after the other, each in
    `judge.anomalies.a22_non_convergence.order`."""
    rows = _of_types(events, COMPARISON_TYPES).withColumn("asker", F.coalesce("source", "node"))
    return _grouped(rows, [F.col("run_id"), F.col("asker")], F.col("exchange"), F.col("hlc"))


def by_writer(events: DataFrame) -> DataFrame:
    """The rows that name a write into the replicated map, one boot that has written after the other, each in
    `judge.anomalies.a17_sub_lag.order`."""
    writer = F.coalesce("source", "node").alias("writer"), F.coalesce("source_boot", "boot").alias("writer_boot")
    rows = _of_types(events, WRITE_TYPES).where(F.col("write").isNotNull()).select("*", *writer)
    key = [F.col(each) for each in ("run_id", "writer", "writer_boot")]
    return _grouped(rows, key, F.col("write").desc(), F.col("type") != "map.learn")


def by_connection(events: DataFrame, judged: DataFrame) -> DataFrame:
    """Connections that messages have waited long for, one after the other: these first, in the order of `begin`, then
    the rows in the order of `seq`."""
    key = ["run_id", "node", "boot", "conn"]
    waits = judged.where(F.col("wait").isNotNull()).select("run_id", "wait.node", "wait.boot", "wait.conn", "wait")
    rows = events.where(F.col("type").isin(*CONNECTION_TYPES)).select("run_id", *a08_stall.FIELDS)
    there = rows.join(waits.select(*key).distinct(), key, "left_semi")
    both = waits.unionByName(there, allowMissingColumns=True)
    order = F.col("wait").isNull(), F.col("wait.begin"), F.col("seq")
    return _grouped(both, [F.col(each) for each in key], *order)


def _of_types(events: DataFrame, types: Iterable[str]) -> DataFrame:
    at = F.coalesce("mountpoint", F.lit("")).alias("at")
    return events.where(F.col("type").isin(*types)).select(at, *judges.fields_of(types))


def by_boot(ends: DataFrame) -> DataFrame:
    """Stretches, one boot after the other, each in the order of `seq`."""
    return _grouped(ends, [F.col(each) for each in stretches.BOOT], F.col("first.seq"))


def _grouped(rows: DataFrame, key: list[Column], *order: Column) -> DataFrame:
    # Spark sorts by eight bytes of the first column first: those of keys are alike, those of hashes are not
    return rows.repartition(*key).sortWithinPartitions(F.xxhash64(*key), *key, *order)


def _mapped(rows: DataFrame, judge: judges.Map) -> DataFrame:
    return rows.mapInArrow(judge, judges.SQL)


def _findings(tables: Iterable[DataFrame]) -> DataFrame:
    found = None
    for each in tables:
        rows = each.where(F.col("finding").isNotNull()).select("run_id", "id", "finding.*")
        found = rows if found is None else found.unionByName(rows)
    assert found is not None
    return found


def _dropped(events: DataFrame) -> dict[str, int]:
    """The number of drops by run."""
    return dict(events.where(F.col("type").isin(*MISSED)).groupBy("run_id").agg(F.count("*")).collect())


def _levels(others: DataFrame) -> dict[str, tuple[str, ...]]:
    """The levels with which boots began, by run."""
    begins = others.where(F.col("type").isin("node.start", "node.join"))
    level = F.coalesce("level", F.lit("unknown"))
    rows = begins.groupBy("run_id").agg(F.sort_array(F.collect_set(level))).collect()
    return {run_id: tuple(levels) for run_id, levels in rows}


def _places(judged: DataFrame, name: str) -> dict[str, dict[Any, int]]:
    """How many messages by run and place."""
    rows = judged.where(F.col(name).isNotNull()).groupBy("run_id", F.col(f"{name}._1").alias("place"))
    places: dict[str, dict[Any, int]] = {}
    for run_id, place, number in rows.agg(F.sum(f"{name}._2")).collect():
        places.setdefault(run_id, {})[tuple(place)] = number
    return places


def _counts(tables: Iterable[DataFrame]) -> dict[str, judges.Counts]:
    names = records.names(judges.Counts)
    sums = [F.sum(f"counts.{name}").alias(name) for name in names]
    counts: dict[str, dict[str, int]] = {}
    for table in tables:
        for row in table.where(F.col("counts").isNotNull()).groupBy("run_id").agg(*sums).collect():
            of_run = counts.setdefault(row["run_id"], dict.fromkeys(names, 0))
            for name in names:
                of_run[name] += row[name]
    return {run_id: judges.Counts(**of_run) for run_id, of_run in counts.items()}


def _kinds(findings: DataFrame) -> dict[str, list[Kind]]:
    unsure = F.sum(F.when(F.col("sure"), 0).otherwise(1))
    kinds: dict[str, list[Kind]] = {}
    for run_id, *kind in findings.groupBy(*_KIND).agg(F.count("*"), unsure).collect():
        kinds.setdefault(run_id, []).append(Kind(*kind))
    return kinds


def _first(findings: DataFrame, number: int) -> dict[str, list[Finding]]:
    """The first findings of each kind, by run."""
    place = F.row_number().over(Window.partitionBy(*_KIND).orderBy("at", "id"))
    some = findings.withColumn("place", place).where(F.col("place") <= number)
    names = records.names(Finding)
    table = some.select("run_id", F.struct(*names).alias("finding")).toArrow()
    first: dict[str, list[Finding]] = {}
    for batch in table.to_batches():
        for run_id, each in zip(batch["run_id"].to_pylist(), records.values(batch["finding"], Finding), strict=True):
            first.setdefault(run_id, []).append(each)
    return first


def _results(
    of_run: dict[str, World],
    boots: list[Boot],
    counts: dict[str, judges.Counts],
    kinds: dict[str, list[Kind]],
    first: dict[str, list[Finding]],
) -> list[RunAudit]:
    results = []
    for run_id in sorted(of_run):
        here = [each for each in boots if each.run_id == run_id]
        last = max(each.rows.last_hlc for each in here)
        of_kind = sorted(kinds.get(run_id, []), key=lambda each: (int(each.anomaly[1:]), each.kind, each.severity))
        number = counts.get(run_id, judges.Counts())
        results.append(
            RunAudit(
                run_id=run_id,
                nodes=tuple(sorted({each.node for each in here})),
                events=sum(each.events for each in here),
                first_ms=ms_of(min(each.rows.first_hlc for each in here)),
                last_ms=ms_of(last),
                known_up_to_ms=ms_of(min(of_run[run_id].lives.known_everywhere, last)),
                verdict=verdict_of(_weights(of_kind)),
                **{name: getattr(number, name) for name in records.names(judges.Counts)},
                kinds=tuple(of_kind),
                findings=tuple(in_order(first.get(run_id, []))),
            )
        )
    return results


def _weights(kinds: Iterable[Kind]) -> Iterator[tuple[str, Severity, bool]]:
    for each in kinds:
        if each.unsure:
            yield each.anomaly, each.severity, False
        if each.number > each.unsure:
            yield each.anomaly, each.severity, True
