"""Brings the small tables of all runs to the driver, and makes the report of them. Each is cut, with a count of the
rest.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ...judge.findings import Verdict
from ...judge.lives import BootRows
from ...judge.rows import RowId
from ..audit.run_audit import RunAudit
from ..event_lines import TORN
from ..ingest_report import Report as Ingested
from ..sources import Tables
from . import timeline
from .facts import Facts, facts_of
from .intervals import interval_ms
from .proofs import ROWS, evidence_of, first_of_each_kind, shown
from .report_data import Count, Evidence, NotRead, Point, Report, RunReport, Shown, Timeline
from .timeline import Axis

RUNS: Final = 12
"""Most runs on a page."""
LANES: Final = 16
BOOTS: Final = 2_000
FACTS: Final = 20_000
SPLITS: Final = 200
FAULTS: Final = 500
SETTINGS: Final = 100
REASONS: Final = 60
NOT_READ: Final = 50
_WORST_FIRST: Final[tuple[Verdict, ...]] = ("invalid", "unknown", "valid")


def report(tables: Tables, audits: Sequence[RunAudit], title: str, source: str) -> Report:
    """Returns the report of the audited runs, the worst and largest ones first; those beyond `RUNS` are counted.
    `source`: the directory from which the tables were opened."""
    ordered = sorted(audits, key=lambda each: (_WORST_FIRST.index(each.verdict), -each.events, each.run_id))
    others = Counter(each.verdict for each in ordered[RUNS:])
    lines, omitted = _not_read(tables.rejects)
    return Report(
        title=title,
        source=source,
        runs=_runs(tables.events, ordered[:RUNS]),
        not_read=(*_files(tables.report), *lines),
        other_not_read=omitted,
        other_runs=tuple((verdict, others[verdict]) for verdict in _WORST_FIRST if others[verdict]),
    )


def _runs(events: DataFrame, audits: Sequence[RunAudit]) -> tuple[RunReport, ...]:
    runs = {each.run_id: each for each in audits}
    if not runs:
        return ()
    of_runs = events.where(F.col("run_id").isin(*runs))
    boots = _first(timeline.boots(of_runs), BOOTS, F.desc("events"), "node", "boot")
    told = _first(timeline.facts(of_runs), FACTS, "hlc", "node", "seq")
    facts = {run: facts_of(told.rows[run], _boots(boots.rows[run])) for run in runs}
    axes = {run: _axis(audit, boots.rows[run]) for run, audit in runs.items()}
    points = _points(of_runs, axes)
    counts = _first(timeline.counts(of_runs), REASONS, F.desc("number"), "type", "reason")
    findings = _findings(of_runs, runs.values())
    return tuple(
        RunReport(
            audit=audit,
            timeline=_timeline(audit, axes[run], facts[run], points[run], told.omitted[run] + boots.omitted[run]),
            findings=findings[run],
            counts=tuple(Count(**(each | {"nodes": tuple(each["nodes"])})) for each in counts.rows[run]),
            other_counts=counts.omitted[run],
            settings=facts[run].settings[:SETTINGS],
        )
        for run, audit in runs.items()
    )


def _files(report: Ingested) -> Iterator[NotRead]:
    """Returns the files that the ingest has not understood."""
    for trouble, names in (
        ("the name is not that of an event log", report.strangers),
        ("the content is not what an earlier run has read", report.changed),
        ("the compressed file is damaged", report.damaged),
    ):
        yield from (NotRead(trouble, name) for name in names[:NOT_READ])
        if len(names) > NOT_READ:
            yield NotRead(trouble, "other files", len(names) - NOT_READ)


def _not_read(rejects: DataFrame) -> tuple[tuple[NotRead, ...], int]:
    """Returns the rejected lines by reason and file, and how many such pairs are left out."""
    table = rejects.groupBy("reason", "file").agg(
        F.count("*").alias("number"), F.min_by("text", "line").alias("example")
    )
    # torn lines last: whether anything else is missing must not depend on their number
    found = table.orderBy(F.col("reason") == TORN, "reason", "file").limit(NOT_READ).collect()
    omitted = table.count() - len(found) if len(found) == NOT_READ else 0
    return tuple(NotRead(row["reason"], row["file"], row["number"], row["example"] or "") for row in found), omitted


class _First:
    """The first rows of each run, without its id, and how many more there are."""

    def __init__(self) -> None:
        self.rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.omitted: Counter[str] = Counter()


def _first(table: DataFrame, most: int, *order: Any) -> _First:
    """Returns the first rows of each run in an order."""
    numbered = table.withColumn("_place", F.row_number().over(Window.partitionBy("run_id").orderBy(*order)))
    whole = numbered.withColumn("_all", F.count("*").over(Window.partitionBy("run_id")))
    found = _First()
    for row in whole.where(F.col("_place") <= most).orderBy("run_id", "_place").collect():
        plain = row.asDict()
        run, place, number = plain.pop("run_id"), plain.pop("_place"), plain.pop("_all")
        found.rows[run].append(plain)
        found.omitted[run] = number - place
    return found


def _boots(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], BootRows]:
    return {(row["node"], row["boot"]): BootRows(*(row[name] for name in BootRows._fields)) for row in rows}


def _axis(audit: RunAudit, boots: Iterable[Mapping[str, Any]]) -> Axis:
    """Returns the axis of a run; the nodes with most events have lanes."""
    events: Counter[str] = Counter()
    for row in boots:
        events[row["node"]] += row["events"]
    most = sorted(events, key=lambda node: (-events[node], node))[:LANES]
    return Axis(interval_ms(audit.first_ms, audit.last_ms), tuple(sorted(most)))


def _points(events: DataFrame, axes: Mapping[str, Axis]) -> dict[str, tuple[Point, ...]]:
    key = ["run_id", "at_ms", "node"]
    both = timeline.activity(events, axes).join(timeline.times(events, axes), key, "full_outer").orderBy(*key)
    points: dict[str, list[Point]] = {run: [] for run in axes}
    for row in both.fillna(0, ["published", "acked", "delivered", "dropped", "refused"]).collect():
        plain = row.asDict()
        points[plain.pop("run_id")].append(Point(**plain))
    return {run: tuple(found) for run, found in points.items()}


def _timeline(audit: RunAudit, axis: Axis, facts: Facts, points: tuple[Point, ...], omitted: int) -> Timeline:
    nodes = frozenset(axis.nodes)
    return Timeline(
        begin_ms=audit.first_ms,
        end_ms=audit.last_ms,
        interval_ms=axis.interval_ms,
        nodes=axis.nodes,
        lives=tuple(each for each in facts.lives if each.node in nodes),
        minorities=tuple(each for each in facts.minorities if each.node in nodes),
        splits=facts.splits[:SPLITS],
        faults=facts.faults[:FAULTS],
        points=points,
        other_nodes=max(len(audit.nodes) - len(nodes), 0),
        other_facts=omitted + len(facts.splits[SPLITS:]) + len(facts.faults[FAULTS:]) + len(facts.settings[SETTINGS:]),
    )


def _findings(events: DataFrame, audits: Iterable[RunAudit]) -> dict[str, tuple[Shown, ...]]:
    """Returns the findings of each run with their rows."""
    chosen = {audit.run_id: [*first_of_each_kind(audit.findings)] for audit in audits}
    wanted = {(run, row) for run, found in chosen.items() for each in found for row in each.rows[:ROWS]}
    rows = _rows(events, wanted)
    return {
        run: tuple(shown(each, {name: row for (of, name), row in rows.items() if of == run}) for each in found)
        for run, found in chosen.items()
    }


def _rows(events: DataFrame, wanted: set[tuple[str, RowId]]) -> dict[tuple[str, RowId], Evidence]:
    """Returns the rows with these names. A data directory that was wiped gives its numbers again: the first row stands
    for the name."""
    found: dict[tuple[str, RowId], Evidence] = {}
    if wanted:
        for row in timeline.rows_of(events, sorted(wanted)).orderBy("hlc", "file", "line").collect():
            evidence = evidence_of(row.asDict())
            found.setdefault((row["run_id"], evidence.row), evidence)
    return found
