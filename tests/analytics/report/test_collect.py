"""What comes to the driver: the first rows of each table, with a count of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from strogoff.analytics.report.report_data import NotRead
from strogoff.judge.findings import Finding, Subject

from ..test_silver import event_table
from .reports import BEGIN_MS, audit_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from strogoff.analytics.report.report_data import Report
    from strogoff.analytics.sources import Tables

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


def tables_of(spark: SparkSession, rows: list[dict[str, Any]], rejects: list[tuple[Any, ...]] = ()) -> Tables:  # type: ignore[assignment]
    from strogoff.analytics.ingest_report import Report
    from strogoff.analytics.sources import Tables

    events: DataFrame = event_table(
        spark, [{"hlc": (BEGIN_MS + at) << 16, "seq": at, **row} for at, row in enumerate(rows, 1)]
    )
    names = "file string, line int, reason string, text string"
    return Tables(events, spark.createDataFrame([*rejects], names), Report())


def made(tables: Tables, *audits: Any) -> Report:
    from strogoff.analytics.report.collect import report

    return report(tables, audits, "T", "log")


def test_each_table_is_cut_and_the_rest_is_counted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from strogoff.analytics.report import collect

    for name, most in (("LANES", 2), ("FACTS", 1), ("BOOTS", 2), ("REASONS", 2), ("NOT_READ", 2)):
        monkeypatch.setattr(collect, name, most)
    rows: list[dict[str, Any]] = [{"type": "node.start", "settings": ["a=1"], "node": "n1"}]
    rows += [{"type": "node.start", "settings": ["a=2"], "node": "n2"}]
    rows += [{"type": "q.drop", "reason": reason, "node": "n3"} for reason in ("x", "y", "y", "z", "z", "z")]
    rows += [{"type": "pub.recv", "mid": "n1/000001/000000000001", "node": "n1"}]
    rejects = [
        ("f", 2, "torn", "second"),
        ("f", 1, "torn", "first"),
        ("g", 1, "wrong_type", "x"),
        ("g", 2, "torn", "y"),
    ]
    found = made(tables_of(spark, rows, rejects), audit_of(nodes=("n1", "n2", "n3")))
    (run,) = found.runs
    assert (run.timeline.nodes, run.timeline.other_nodes) == (("n1", "n3"), 1)
    assert [(each.key, each.value) for each in run.settings] == [("a", "1")]
    assert run.timeline.other_facts == 2  # a boot and a row
    assert [(each.reason, each.number) for each in run.counts] == [("z", 3), ("y", 2)] and run.other_counts == 1
    assert [(each.at_ms - BEGIN_MS, each.node, each.published, each.dropped) for each in run.timeline.points] == [
        (0, "n3", 0, 2),
        (5, "n1", 1, 0),
        (5, "n3", 0, 4),
    ]
    assert found.not_read == (NotRead("wrong_type", "g", 1, "x"), NotRead("torn", "f", 2, "first"))
    assert found.other_not_read == 1


def test_the_worst_and_largest_runs_come_first(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from strogoff.analytics.report import collect

    monkeypatch.setattr(collect, "RUNS", 3)
    audits = [
        audit_of(run_id="small", events=1),
        audit_of(run_id="large", events=5),
        audit_of(run_id="hole", verdict="unknown"),
        audit_of(run_id="wrong", verdict="invalid"),
        audit_of(run_id="other", events=2),
    ]
    found = made(tables_of(spark, [{"type": "node.stop", "run_id": "large"}]), *audits)
    assert [each.audit.run_id for each in found.runs] == ["wrong", "hole", "large"]
    assert found.other_runs == (("valid", 2),)
    assert made(tables_of(spark, [])).runs == ()


def test_findings_have_the_rows_of_their_run(spark: SparkSession) -> None:
    rows = [{"type": "node.stop", "reason": run, "run_id": run, "seq": 7, "boot": 2, "file": run} for run in "rs"]
    finding = Finding("A6", "k", "fatal", Subject("n1"), 0, "t", (("n1", 2, 7), ("n1", 2, 8)))
    found = made(tables_of(spark, rows), audit_of([finding], run_id="r"), audit_of([finding], run_id="s"))
    assert [[(row.text, row.file) for row in run.findings[0].rows] for run in found.runs] == [
        [("reason=r", "r")],
        [("reason=s", "s")],
    ]


def test_files_that_an_ingest_has_not_understood_are_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strogoff.analytics.ingest_report import Report
    from strogoff.analytics.report import collect

    monkeypatch.setattr(collect, "NOT_READ", 2)
    ingested = Report(strangers=["a", "b", "c"], changed=["d"], damaged=["e"])
    found = made(tables_of(spark, [])._replace(report=ingested))
    assert [(each.place, each.number) for each in found.not_read] == [
        ("a", 1),
        ("b", 1),
        ("other files", 1),
        ("d", 1),
        ("e", 1),
    ]
    assert not found.is_whole


def test_incidents_faults_and_settings_are_cut(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from strogoff.analytics.report import collect

    for name in ("SPLITS", "FAULTS", "SETTINGS"):
        monkeypatch.setattr(collect, name, 1)
    rows: list[dict[str, Any]] = [{"type": "node.start", "settings": ["a=1", "b=2"], "node": "n1"}]
    for number in (1, 2):
        rows += [{"type": "split.detect", "incident": number, "state": "majority", "nodes": ["n2"]}]
        rows += [{"type": "split.heal", "incident": number, "nodes": ["n2"]}, {"type": "fault.loss", "nodes": ["n1"]}]
    (run,) = made(tables_of(spark, rows), audit_of()).runs
    assert [each.name for each in run.timeline.splits] == ["incident 1"]
    assert (len(run.timeline.faults), len(run.settings), run.timeline.other_facts) == (1, 1, 3)
