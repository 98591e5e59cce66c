"""The part of the page with the time axis, and the same in tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .chart import Axis, findings_lane, hover, lane, strip, ticks, times
from .markup import Html, join, tag
from .report_data import Point, RunReport, Timeline
from .tables import Cell, table
from .words import length, micros, names, number, plural

_STRIPS: Final = (
    ("published", "published"),
    ("acknowledged", "acked"),
    ("delivered", "delivered"),
    ("dropped", "dropped"),
    ("refused", "refused"),
)
"""The strips of rates, and their fields of a point."""

OTHERS: Final = "other nodes"
"""What stands for the nodes without a lane."""


def section(run: RunReport, place: str) -> Html:
    """Returns the time axis of a run: lanes of nodes, rates, times to the acknowledgement, and tables of the same.
    `place`: the id of the run's part of the page."""
    timeline = run.timeline
    axis = Axis(timeline)
    answered = {each.node for each in timeline.points if each.p99_us is not None}
    silent = [node for node in timeline.nodes if node not in answered]
    by_node = [times(axis, node, timeline.points) for node in timeline.nodes if node in answered]
    sums = {label: _sums(timeline, field) for label, field in _STRIPS}
    unit = f" in {length(timeline.interval_ms)}"
    rates = [strip(axis, label, sums[label], field, unit) for label, field in _STRIPS]
    figure = tag(
        "figure",
        tag(
            "figcaption",
            f"Each bar and point stands for {length(timeline.interval_ms)}. Grey: an incident at any node.",
        ),
        _legend(),
        tag("div", *(lane(axis, node) for node in timeline.nodes), findings_lane(axis, run, place), class_="lanes"),
        ticks(axis),
        tag("h4", "Per interval, all nodes"),
        tag("div", *rates, hover(axis, _rates_told(sums)), class_="strips"),
        ticks(axis),
        tag("h4", "From PUBLISH to PUBACK or PUBREC, by node"),
        tag("p", "Thin line: p50. Thick line: p99. The scale is logarithmic.", class_="about") if by_node else None,
        tag("div", *by_node, hover(axis, _times_told(timeline)), class_="strips") if by_node else None,
        ticks(axis) if by_node else None,
        tag("p", f"Without acknowledgements: {names(silent)}.", class_="about") if silent else None,
        class_="axis",
    )
    return join(tag("h3", "When and where"), figure, _omitted(timeline), _splits(axis), _boots(axis), _numbers(axis))


def _legend() -> Html:
    samples = (
        ("up", "up"),
        ("minority", "up without a lease (minority)"),
        ("down", "down"),
        ("window", "window: cut off, and not known yet"),
        ("split", "incident known"),
    )
    shapes = [tag("span", _sample(style), words) for style, words in samples]
    signs = [
        tag("span", tag("b", sign), f" {words}")
        for sign, words in (
            ("▸", "start"),
            ("■", "stop"),
            ("✕", "end without a stop"),
            ("⚡", "injected fault"),
            ("◆", "broken promise"),
            ("◇", "error"),
        )
    ]
    return tag("p", *shapes, *signs, class_="legend")


def _sample(style: str) -> Html:
    shape = (
        tag("line", x1=0, x2=28, y1=7, y2=7, class_=style)
        if style == "down"
        else tag("rect", x=0, y=1, width=28, height=12, class_=style)
    )
    return tag("svg", shape, viewBox="0 0 28 14", width=28, height=14, aria_hidden="true")


def _sums(timeline: Timeline, field: str) -> dict[int, int]:
    sums: dict[int, int] = {}
    for each in timeline.points:
        sums[each.at_ms] = sums.get(each.at_ms, 0) + getattr(each, field)
    return sums


def _rates_told(sums: Mapping[str, Mapping[int, int]]) -> dict[int, list[str]]:
    times = dict.fromkeys(at for each in sums.values() for at in each)
    return {at: [f"{label}: {number(values[at])}" for label, values in sums.items()] for at in times}


def _times_told(timeline: Timeline) -> dict[int, list[str]]:
    told: dict[int, list[str]] = {}
    for each in timeline.points:
        if each.node and each.p99_us is not None:
            line = f"{each.node}: p50 {micros(each.p50_us)}, p99 {micros(each.p99_us)}"
            told.setdefault(each.at_ms, []).append(line)
    return told


def _omitted(timeline: Timeline) -> Html | None:
    told = []
    if timeline.other_nodes:
        told.append(f"{plural(timeline.other_nodes, 'node')} with fewer events have no lane.")
    if timeline.other_facts:
        told.append(f"Of boots, incidents, faults and settings {number(timeline.other_facts)} more are not shown.")
    return tag("p", " ".join(told), class_="more") if told else None


def _splits(axis: Axis) -> Html:
    if not axis.timeline.splits:
        return tag("p", "No incident: every node saw the whole cluster.", class_="none")
    lines: list[list[Cell]] = [
        [
            each.name,
            each.node,
            each.state or "-",
            axis.time(each.begin_ms),
            axis.time(each.detected_ms),
            length(each.window_ms),
            axis.time(each.healed_ms) if each.healed_ms is not None else "not in the log",
            length(each.healed_ms - each.detected_ms) if each.healed_ms is not None else "-",
        ]
        for each in axis.timeline.splits
    ]
    columns = ["incident", "node", "saw", "last contact", "detected", "window", "healed", "lasted"]
    return table("Incidents", columns, lines)


def _boots(axis: Axis) -> Html:
    lines: list[list[Cell]] = [
        [each.node, each.boot, axis.time(each.begin_ms), axis.time(each.end_ms), each.ending]
        for each in axis.timeline.lives
    ]
    made = table("Boots of nodes", ["node", "boot", "first row", "last row", "ended"], lines)
    return tag("details", tag("summary", f"Boots of nodes ({number(len(lines))})"), made)


def _numbers(axis: Axis) -> Html:
    lines: list[list[Cell]] = [_line(axis, each) for each in axis.timeline.points]
    columns = ["time", "node", "published", "acknowledged", "delivered", "dropped", "refused", "p50", "p99"]
    made = table("Numbers of the time axis", columns, lines)
    heading = tag("summary", f"Numbers of the time axis ({plural(len(lines), 'line')})")
    return tag("details", heading, made, class_="numbers")


def _line(axis: Axis, point: Point) -> list[Cell]:
    counts = [point.published, point.acked, point.delivered, point.dropped, point.refused]
    return [axis.time(point.at_ms), point.node or OTHERS, *counts, micros(point.p50_us), micros(point.p99_us)]
