"""The part with the time axis says in tables what its pictures show."""

from __future__ import annotations

from dataclasses import replace

from strogoff.analytics.report.report_data import Life, Point, RunReport, Split
from strogoff.analytics.report.timeline_part import section

from .reports import BEGIN_MS, Parsed, run_of


def said(run: RunReport) -> Parsed:
    return Parsed(f"<body>{section(run, 'run-1')}</body>")


def test_all_numbers_are_in_tables() -> None:
    run = run_of()
    points = (Point(BEGIN_MS, "n1", 11, 12, 13, 14, 15, 1_600, 17_000), Point(BEGIN_MS, "", 21, 22, 23, 24, 25))
    lives = (Life("n1", 4, BEGIN_MS, BEGIN_MS + 77, "killed"),)
    splits = (Split("n1", "incident 3", "minority", BEGIN_MS + 10, BEGIN_MS + 30, BEGIN_MS + 95),)
    timeline = replace(run.timeline, points=points, lives=lives, splits=splits)
    cells = said(replace(run, timeline=timeline)).texts["td"]
    assert cells[cells.index("11") - 1 :][:8] == ["n1", "11", "12", "13", "14", "15", "1.60 ms", "17 ms"]
    assert cells[cells.index("21") - 1 :][:8] == ["other nodes", "21", "22", "23", "24", "25", "-", "-"]
    assert cells[cells.index("4") :][:4] == ["4", "12:00:00.000", "12:00:00.077", "killed"]
    incident = ["n1", "minority", "12:00:00.010", "12:00:00.030", "20 ms", "12:00:00.095", "65 ms"]
    assert incident == cells[cells.index("minority") - 1 :][:7]


def test_strips_add_up_all_nodes() -> None:
    points = (Point(BEGIN_MS, "n1", 2), Point(BEGIN_MS, "", 3), Point(BEGIN_MS + 5, "n1", 4))
    run = run_of()
    assert (
        "published: 9 in all, at most 5 in 5 ms"
        in said(replace(run, timeline=replace(run.timeline, points=points))).text
    )


def test_a_pointer_shows_the_sums_and_the_times_of_each_node() -> None:
    points = (Point(BEGIN_MS, "n1", 2, 1, p50_us=500, p99_us=900), Point(BEGIN_MS, "", 3, 1, 4, 5, 6, 7, 8))
    run = run_of()
    titles = said(replace(run, timeline=replace(run.timeline, points=points))).texts["title"]
    sums = "12:00:00.000 + 5 ms\npublished: 5\nacknowledged: 2\ndelivered: 4\ndropped: 5\nrefused: 6"
    assert sums in titles
    assert "12:00:00.000 + 5 ms\nn1: p50 0.50 ms, p99 0.90 ms" in titles


def test_nodes_without_acknowledgements_are_named_and_have_no_strip() -> None:
    run = run_of()
    points = (Point(BEGIN_MS, "n1", 1, 1, p50_us=5, p99_us=9),)
    part = said(replace(run, timeline=replace(run.timeline, points=points)))
    assert "Without acknowledgements: n2." in part.text
    assert "n1: PUBLISH to PUBACK, largest p99 0.01 ms" in part.text
    assert "n2: PUBLISH" not in part.text


def test_an_incident_that_is_not_over_has_no_length() -> None:
    run = run_of()
    splits = (Split("n1", "incident 3", "", BEGIN_MS, BEGIN_MS, None),)
    assert "not in the log" in said(replace(run, timeline=replace(run.timeline, splits=splits))).texts["td"]
    assert "No incident" in said(run).text


def test_what_is_left_out_is_counted() -> None:
    run = run_of()
    part = said(replace(run, timeline=replace(run.timeline, other_nodes=3, other_facts=1)))
    assert (
        "3 nodes with fewer events have no lane. Of boots, incidents, faults and settings 1 more are not shown."
        in part.text
    )
    assert "no lane" not in said(run).text
