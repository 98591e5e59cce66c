"""The data of the page, and the same as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from strogoff.analytics.report.report_data import DROPS, REFUSALS, Count, NotRead, Point
from strogoff.analytics.schema import TYPES

from .reports import BEGIN_MS, planted, report_of, run_of


def test_json_has_everything_that_the_page_shows() -> None:
    run = replace(planted(["overtaken"]), counts=(Count("q.drop", "queue_full", 3, 1, 2, ("n1",)),))
    plain = json.loads(report_of(run, not_read=(NotRead("torn", "f", 1, "x"),)).as_json())
    (told,) = plain["runs"]
    assert told["audit"]["verdict"] == "invalid" and told["audit"]["acked"] == run.audit.acked
    assert "findings" not in told["audit"]
    assert [each["finding"]["id"] for each in told["findings"]] == [each.finding.id for each in run.findings]
    assert told["findings"][0]["finding"]["subject"]["client"] == run.findings[0].finding.subject.client
    assert told["findings"][0]["rows"][0]["type"] == run.findings[0].rows[0].type
    assert told["counts"] == [
        {"type": "q.drop", "reason": "queue_full", "number": 3, "first_ms": 1, "last_ms": 2, "nodes": ["n1"]}
    ]
    assert len(told["timeline"]["lives"]) == len(run.timeline.lives)
    assert plain["not_read"] == [{"reason": "torn", "place": "f", "number": 1, "example": "x"}]


def test_the_types_are_those_of_the_schema() -> None:
    assert {*DROPS, *REFUSALS} <= set(TYPES)
    assert not DROPS.keys() & REFUSALS.keys()


def test_totals_are_those_of_their_types() -> None:
    counts = tuple(Count(name, "r", 10**at, 0, 0, ()) for at, name in enumerate((*DROPS, *REFUSALS)))
    run = replace(run_of(), counts=counts)
    assert (run.total(DROPS), run.total(REFUSALS)) == (111, 1111000)


def test_a_run_is_empty_without_findings_activity_and_refusals() -> None:
    empty = run_of()
    assert empty.is_empty
    assert not planted(["overtaken"]).is_empty
    assert not replace(empty, counts=(Count("q.drop", "r", 1, 0, 0, ()),)).is_empty
    assert not replace(empty, timeline=replace(empty.timeline, points=(Point(BEGIN_MS, "n1"),))).is_empty


def test_a_line_that_a_crash_has_cut_is_expected() -> None:
    assert report_of(not_read=(NotRead("torn", "f"),)).is_whole
    assert not report_of(not_read=(NotRead("torn", "f"), NotRead("not_json", "f"))).is_whole
