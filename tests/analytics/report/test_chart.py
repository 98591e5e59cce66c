"""The pictures of the time axis: each number is at its place, and each state has a form."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import pytest

from strogoff.analytics.report import chart
from strogoff.analytics.report.chart import Axis
from strogoff.analytics.report.report_data import Fault, Life, Point, Span, Split, Timeline
from strogoff.judge.findings import Finding, Severity, Subject

from .reports import BEGIN_MS, run_of


def timeline(**given: Any) -> Timeline:
    """An axis of a second, in intervals of 100 ms."""
    return replace(Timeline(BEGIN_MS, BEGIN_MS + 1000, 100, ("n1", "n2")), **given)


def rects(markup: str, style: str) -> list[tuple[float, ...]]:
    """Returns x, y, width and height of the bars of a class."""
    found = re.findall(
        r'<rect x="([^"]+)" y="([^"]+)" width="([^"]+)" height="([^"]+)" class="' + style + '"/>', markup
    )
    return [tuple(map(float, each)) for each in found]


def test_times_have_their_places_and_others_are_at_the_ends() -> None:
    axis = Axis(timeline())
    assert [axis.x(BEGIN_MS + ms) for ms in (0, 250, 1000, 2000, -5)] == [0, 250, 1000, 1000, 0]
    assert axis.percent(BEGIN_MS + 250) == 25
    assert axis.holds(BEGIN_MS) and not axis.holds(BEGIN_MS - 1) and not axis.holds(BEGIN_MS + 1001)


def test_a_run_of_no_length_has_an_axis() -> None:
    point = replace(timeline(), end_ms=BEGIN_MS)
    assert chart.ticks(Axis(point)) and chart.strip(Axis(point), "published", {BEGIN_MS: 1}, "published")


def test_a_lane_shows_each_state_in_a_form_of_its_own() -> None:
    lives = (
        Life("n1", 1, BEGIN_MS, BEGIN_MS + 300, "killed"),
        Life("n1", 2, BEGIN_MS + 500, BEGIN_MS + 1000, "stopped"),
        Life("n2", 1, BEGIN_MS, BEGIN_MS + 1000, "open"),
    )
    alone = Span("n1", BEGIN_MS + 600, BEGIN_MS + 800)
    fault = Fault(BEGIN_MS + 290, "fault.kill", ("n1",))
    axis = Axis(timeline(lives=lives, minorities=(alone,), faults=(fault,)))
    made = chart.lane(axis, "n1")
    assert rects(made, "up") == [(0, 6, 300, 12), (500, 6, 500, 12)]
    assert rects(made, "minority") == [(600, 2, 200, 20)]
    assert '<line x1="300" x2="500"' in made and 'class="down"' in made
    assert [made.count(sign) for sign in "▸✕■⚡"] == [2, 1, 1, 1]
    assert ">down<" in made and ">minority<" in made
    assert (
        "n1: boot 1 from 12:00:00.000 to 12:00:00.300, killed; boot 2" in made and "without a lease for 200 ms" in made
    )
    other = chart.lane(axis, "n2")
    assert rects(other, "up") == [(0, 6, 1000, 12)] and not rects(other, "minority")
    assert [other.count(sign) for sign in "▸✕■⚡"] == [1, 0, 0, 0]


def test_the_window_and_the_incident_of_all_nodes_are_shaded_once() -> None:
    splits = (
        Split("n1", "incident 3", "minority", BEGIN_MS + 100, BEGIN_MS + 300, BEGIN_MS + 700),
        Split("n2", "incident 3", "majority", BEGIN_MS + 100, BEGIN_MS + 400, None),
    )
    made = chart.shades(Axis(timeline(splits=splits)), 10)
    assert rects(made, "window") == [(100, 0, 300, 10)]
    assert rects(made, "split") == [(300, 0, 700, 10)]
    assert splits[1].window_ms == 300


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], []),
        ([(5, 6), (1, 3), (2, 4)], [(1, 4), (5, 6)]),
        ([(1, 9), (2, 3)], [(1, 9)]),
        ([(1, 2), (2, 3)], [(1, 3)]),
    ],
)
def test_spans_are_merged(spans: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    assert chart.merged(spans) == expected


def test_bars_are_as_high_as_their_numbers() -> None:
    made = chart.strip(Axis(timeline()), "published", {BEGIN_MS: 10, BEGIN_MS + 500: 5, BEGIN_MS + 600: 0}, "published")
    assert rects(made, "published") == [(0, 4, 100, 44), (500, 26, 100, 22)]
    assert "published: 15 in all, at most 10 in 100 ms" in made and "max 10" in made
    assert "none" in chart.strip(Axis(timeline()), "refused", {}, "refused")


def test_the_scale_of_times_is_logarithmic() -> None:
    places = [chart.level(us) for us in (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)]
    steps = {round(one - two, 6) for one, two in itertools.pairwise(places)}
    assert len(steps) == 1 and steps.pop() > 0
    assert chart.level(1) == chart.level(100) and chart.level(10**9) == chart.level(10**8)


def test_a_line_of_times_breaks_where_nothing_was_answered() -> None:
    points = [
        Point(BEGIN_MS + at, node, p50_us=1_000, p99_us=p99)
        for node, at, p99 in (("n1", 0, 2_000), ("n1", 100, 5_000), ("n1", 500, 9_000), ("n2", 0, 80_000))
    ]
    made = chart.times(Axis(timeline()), "n1", [*points, Point(BEGIN_MS + 200, "n1", published=1)])
    lines = re.findall(r'<polyline points="([^"]+)" class="(p\d+)"/>', made)
    assert [(style, [float(each.split(",")[0]) for each in line.split()]) for line, style in lines] == [
        ("p50", [50, 150]),
        ("p50", [548, 552]),
        ("p99", [50, 150]),
        ("p99", [548, 552]),
    ]
    assert "max p99 9.00 ms" in made
    assert "1 ms" in made and "100 ms" in made


def test_findings_are_links_and_share_a_sign_within_an_interval() -> None:
    def finding(at: int, severity: Severity) -> Finding:
        return Finding(
            "A1", "k", severity, Subject("n1", detail=f"{at} {severity}"), (BEGIN_MS + at) << 16, "it happened"
        )

    found = [
        finding(10, "error"),
        finding(20, "fatal"),
        finding(150, "error"),
        finding(400, "info"),
        finding(9_000, "fatal"),
    ]
    run = replace(run_of(found), timeline=timeline())
    made = chart.findings_lane(Axis(run.timeline), run, "run-1")
    assert re.findall(r'href="#run-1-(\w+)"', made) == [found[1].id, found[2].id]
    assert [made.count(sign) for sign in "◆◇"] == [1, 1]
    assert "it happened and 1 more" in made


def test_a_pointer_over_an_interval_shows_its_lines() -> None:
    made = chart.hover(Axis(timeline()), {BEGIN_MS + 100: ["n<1: p99 2 ms", "n2"], BEGIN_MS: ["first"]})
    assert re.findall(r"<title>([^<]+)</title>", made) == [
        "12:00:00.000 + 100 ms\nfirst",
        "12:00:00.100 + 100 ms\nn&lt;1: p99 2 ms\nn2",
    ]
    assert rects(made, "field") == [(0, 0, 100, 48), (100, 0, 100, 48)]


def test_the_axis_has_five_times_and_dates_where_it_needs_them() -> None:
    assert chart.ticks(Axis(timeline())).count("<span>") == 5
    assert "<span>12:00:00.250</span>" in chart.ticks(Axis(timeline()))
    assert "<span>2026-03-02 12:00:00</span>" in chart.ticks(Axis(replace(timeline(), end_ms=BEGIN_MS + 86_400_000)))
