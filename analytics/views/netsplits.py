"""netsplits: incidents of each node, with what it accepted and refused meanwhile.

An incident is what `judge/incidents.py` takes for one: from the detection at a node to its heal there. Each node has
its own row, with the same name of the incident. Times are cluster time, UTC.

Columns:
    run_id        the cluster
    incident      the name of the incident, the same at all nodes
    node          whose rows say so
    nodes         members that were missing at the detection
    begin         last common contact; null: the log lacks it
    detected      when the node knew; null: the log lacks it
    healed        when the node was whole again and had merged; null: not in this log
    converged     when the last node with this incident had healed; null: one has not in this log
    window_ms     from begin to detected, the Window of Uncertainty, in milliseconds
    split_ms      from detected to healed, in milliseconds; null: not healed
    state         majority, or minority if the node ever was without a lease in it
    accepted      operations that the node accepted since the begin; null: not healed, then the log has no number
    refused       operations that it refused since the begin; null likewise
    operations    operations since the begin by outcome, as the node counted them; null likewise
    denied        rows policy.deny from detected to healed, by operation and policy, or reason where no policy decided
    wills         wills that the node published from begin to healed

An incident without a heal lasts until the last row of its boot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...judge.incidents import Incident, Incidents
from ...judge.rows import LOGICAL_BITS, NEVER, Row, RowId, ms_of, row_id
from .. import reading
from ..trouble import Trouble

MOST: Final = 10_000
"""So many rows of incidents are read by the driver."""

_ROW = [
    *("run_id", "node", "boot", "seq", "hlc", "type", "incident", "nodes", "state", "counts"),
    *("begin_ms", "detected_ms", "healed_ms", "window_ms", "split_ms"),
]
_NEEDED = reading.columns(*_ROW, "operation", "policy", "reason")
_TYPES = ("split.detect", "split.change", "split.heal")
_TIMES = ("begin", "detected", "healed", "converged")
_FOUND = (
    "id long, run_id string, incident string, node string, boot long, nodes array<string>, begin long, detected long,"
    " healed long, converged long, window_ms long, split_ms long, state string, accepted long, refused long,"
    " operations map<string, long>, from_hlc long, detected_hlc long, healed_hlc long"
)


def view(events: DataFrame, most: int = MOST) -> DataFrame:
    """The incidents of all nodes. It collects the rows `split.*`: raises `Trouble` if there are more than `most`."""
    reading.require(events, "events", _NEEDED)
    rows = events.where(F.col("type").isin(*_TYPES)).select(*_ROW).orderBy("hlc", "node", "seq").limit(most + 1)
    collected = [row.asDict() for row in rows.collect()]
    if len(collected) > most:
        raise Trouble(f"more than {most} rows of incidents (split.*); choose a shorter time with --since and --until")
    found = events.sparkSession.createDataFrame([*_incidents(collected)], _FOUND)
    within = (
        _within(found, events)
        .groupBy("id")
        .agg(
            F.sum(F.when(F.col("what").isNull(), F.col("number"))).alias("wills"),
            F.map_from_entries(
                F.sort_array(F.collect_list(F.when(F.col("what").isNotNull(), F.struct("what", "number"))))
            ).alias("denied"),
        )
    )
    named = [name for name in found.columns if name not in ("id", "boot", "from_hlc", "detected_hlc", "healed_hlc")]
    return (
        found.join(within, "id", "left")
        .withColumns({name: F.timestamp_millis(name) for name in _TIMES})
        .orderBy("run_id", "from_hlc", "incident", "node")
        .select(
            *named,
            F.coalesce("denied", F.create_map().cast("map<string, bigint>")).alias("denied"),
            F.coalesce("wills", F.lit(0)).alias("wills"),
        )
    )


def _within(found: DataFrame, events: DataFrame) -> DataFrame:
    """Rows within incidents: id, what (operation and policy of a denial, null for a will), number."""
    last = events.groupBy("run_id", "node", "boot").agg(F.max("hlc").alias("last_hlc"))
    incidents = found.join(last, ["run_id", "node", "boot"], "left").select(
        "id",
        "run_id",
        "node",
        "from_hlc",
        "detected_hlc",
        F.coalesce("healed_hlc", F.col("last_hlc") + 1).alias("until"),
    )
    is_will, cause = F.col("type") == "will.fire", F.coalesce("policy", "reason")
    # a plugin that forbids something gives neither: this has nothing to do with an incident
    is_denied = (F.col("type") == "policy.deny") & cause.isNotNull()
    rows = events.where(is_will | is_denied).select(
        F.col("run_id").alias("run"),
        F.col("node").alias("at"),
        "hlc",
        is_will.alias("is_will"),
        F.when(~is_will, F.concat_ws(" ", "operation", cause)).alias("what"),
    )
    begin = F.when(F.col("is_will"), F.col("from_hlc")).otherwise(F.col("detected_hlc"))
    inside = (F.col("run") == F.col("run_id")) & (F.col("at") == F.col("node"))
    inside = inside & (F.col("hlc") >= begin) & (F.col("hlc") < F.col("until"))
    return rows.join(F.broadcast(incidents), inside).groupBy("id", "what").agg(F.count("*").alias("number"))


def _incidents(rows: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
    """The incidents, as rows of `_FOUND`."""
    by_run: dict[str, Incidents] = {}
    by_id: dict[tuple[str, RowId], Row] = {}
    for row in rows:
        by_run.setdefault(row["run_id"], Incidents()).note(row)
        by_id[row["run_id"], row_id(row)] = row
    found = [(run, each) for run, incidents in by_run.items() for each in incidents.all]
    healed: dict[tuple[str, str], list[int | None]] = {}
    for run, each in found:
        healed.setdefault((run, each.name), []).append(_healed_ms(each, by_id[run, each.rows[-1]]))
    for number, (run, each) in enumerate(found):
        of_all = healed[run, each.name]
        converged = None if None in of_all else max(ms for ms in of_all if ms is not None)
        yield (number, run, *_row(each, by_id[run, each.rows[0]], by_id[run, each.rows[-1]], converged))


def _row(incident: Incident, detect: Row, last: Row, converged: int | None) -> tuple[Any, ...]:
    is_healed = incident.healed != NEVER
    counts: dict[str, int] | None = (last["counts"] or {}) if is_healed else None
    begin_ms = detect["begin_ms"]
    from_hlc = incident.detected if begin_ms is None else min(begin_ms << LOGICAL_BITS, incident.detected)
    return (
        *(incident.name, incident.node, detect["boot"], detect["nodes"]),
        *(begin_ms, detect["detected_ms"], _healed_ms(incident, last), converged),
        *(incident.window_ms, last["split_ms"] if is_healed else None, incident.state),
        *(_sum(counts, "_accepted"), _sum(counts, "_refused"), counts),
        *(from_hlc, incident.detected, incident.healed if is_healed else None),
    )


def _sum(counts: dict[str, int] | None, outcome: str) -> int | None:
    """The operations with this outcome, of all kinds."""
    return None if counts is None else sum(number for name, number in counts.items() if name.endswith(outcome))


def _healed_ms(incident: Incident, last: Row) -> int | None:
    if incident.healed == NEVER:
        return None
    return ms_of(incident.healed) if last["healed_ms"] is None else int(last["healed_ms"])
