"""Builds the world of each run on the driver, from few columns and rows that Spark has chosen and counted.

The judges of all keys need the whole world of their run, so each Python worker gets a copy. Its size depends on boots,
sessions, connections and subscriptions, not on messages. `WORLD_ROWS` is the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...judge.building import TYPES as _TYPES
from ...judge.building import Summary, world_of_ordered
from ...judge.lives import BootRows
from ...judge.rows import MessageId, Row
from ...judge.world import World
from ..decoding import mid_of
from ..trouble import Trouble
from .judges import fields_of, rows_of

WORLD_ROWS: Final = 1_000_000
"""Most rows about other things than messages, of all runs together. A worker needs about 0.1 GB for so many
(docs/analytics.md)."""

TYPES: Final = _TYPES | {"ret.deliver"}
"""The types of rows that worlds are built from, but for q.durable."""
_FIELDS: Final = tuple(each for each in fields_of(_TYPES) if each != "mid")
_SESSION: Final = ["run_id", "node", "boot", "mountpoint", "client", "epoch"]
_PIECE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Boot:
    """A boot of a node in a run, and how many rows it has."""

    run_id: str
    node: str
    boot: int
    rows: BootRows
    events: int


def collect_boots(boots: DataFrame) -> list[Boot]:
    """The boots in a table of `stretches.boots`."""
    found = []
    for row in boots.collect():
        first, last = row["first"], row["last"]
        rows = BootRows(first["seq"], first["hlc"], last["seq"], last["hlc"], last["type"] == "node.stop")
        found.append(Boot(row["run_id"], row["node"], row["boot"], rows, row["events"]))
    return found


def rows_of_worlds(events: DataFrame, others: DataFrame) -> DataFrame:
    """The rows that worlds are built from: some of `others`, and the first q.durable of each session of `events`."""
    plain = F.col("type").isin(*_TYPES) | ((F.col("type") == "ret.deliver") & F.col("mid").isNull())
    durable = events.where(F.col("type") == "q.durable").groupBy(*_SESSION)
    first = durable.agg(F.min("hlc").alias("hlc"), *(F.min_by(each, "hlc").alias(each) for each in ("seq", "v")))
    stored = first.withColumn("type", F.lit("q.durable"))
    return others.where(plain).select(*_FIELDS).unionByName(stored, allowMissingColumns=True)


def safe_wills(events: DataFrame, others: DataFrame) -> DataFrame:
    """The messages of wills that were safe in a queue of the node that published them: run_id and mid."""
    key = ["run_id", "mid", "node"]
    of_will = others.where(F.col("type") == "will.fire").select(*key).distinct()
    durable = events.where((F.col("type") == "q.durable") & F.col("mid").isNotNull()).select(*key)
    return durable.join(F.broadcast(of_will), key, "left_semi").select("run_id", "mid").distinct()


def build(events: DataFrame, others: DataFrame, boots: list[Boot], limit: int = WORLD_ROWS) -> dict[str, World]:
    """The worlds by run, of all events and those of `TYPES`. Raises `Trouble` if they would be too large."""
    table = rows_of_worlds(events, others).limit(limit + 1).toArrow()
    if table.num_rows > limit:
        raise Trouble(
            f"the log has more than {limit} rows about connections, sessions and subscriptions, and each worker must"
            " hold what they say; audit fewer days at a time, each from its own directory of logs"
        )
    wills: dict[str, set[MessageId]] = {}
    for run_id, mid in safe_wills(events, others).limit(limit).collect():
        wills.setdefault(run_id, set()).add(mid_of(mid))
    summaries: dict[str, dict[tuple[str, int], BootRows]] = {}
    for each in boots:
        summaries.setdefault(each.run_id, {})[each.node, each.boot] = each.rows
    rows = groupby(_in_order(table), itemgetter("run_id"))
    worlds = {run_id: world_of_ordered(of_run, _summary(summaries, wills, run_id)) for run_id, of_run in rows}
    for run_id in summaries.keys() - worlds.keys():
        worlds[run_id] = world_of_ordered((), _summary(summaries, wills, run_id))
    return worlds


def _summary(
    boots: Mapping[str, Mapping[tuple[str, int], BootRows]], wills: Mapping[str, set[MessageId]], run_id: str
) -> Summary:
    return Summary(boots[run_id], safe_wills=frozenset(wills.get(run_id, ())))


def _in_order(table: pa.Table) -> Iterator[Row]:
    """The rows by run, in the order of `judge.rows.in_order`."""
    order: list[tuple[str, Any]] = [(name, "ascending") for name in ("run_id", "hlc", "node", "seq")]
    return rows_of(table.sort_by(order).to_batches(_PIECE))
