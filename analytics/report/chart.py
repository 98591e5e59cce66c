"""The time axis: lanes of nodes and strips of numbers, as small SVG pictures that share one width.

Each picture is stretched to the width of the page, so it has shapes only. Its words are HTML beside it, and do not
shrink on a phone. Colour never stands alone: a node that is up is a full bar, one in a minority a hatched bar, one that
is down a dashed line; marks have forms of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from .markup import Html, join, tag, text
from .report_data import Life, Point, RunReport, Timeline
from .words import length, micros, number, time_within

WIDTH: Final = 1000.0
LANE: Final = 24.0
STRIP: Final = 48.0
_TICKS: Final = 4
_LABEL: Final = 8.0
"""The share of the width, in percent, from which on a shape has room for a word."""


class Mark(NamedTuple):
    """A sign on the axis. With `target` it is a link to that id."""

    at_ms: int
    sign: str
    about: str
    style: str = ""
    target: str = ""


class Axis:
    """From times to places: in a picture from 0 to `WIDTH`, on the page in percent."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self._span = max(timeline.end_ms - timeline.begin_ms, 1)

    def x(self, ms: int) -> float:
        """Returns the place of a time in a picture; times outside of the axis are at its ends."""
        return WIDTH * min(max(ms - self.timeline.begin_ms, 0), self._span) / self._span

    def percent(self, ms: int) -> float:
        """Returns the place of a time in percent of the width."""
        return self.x(ms) / WIDTH * 100

    def holds(self, ms: int) -> bool:
        """Whether a time is on the axis."""
        return self.timeline.begin_ms <= ms <= self.timeline.end_ms

    def time(self, ms: int) -> str:
        """Returns a time as text."""
        return time_within(ms, self.timeline.begin_ms, self.timeline.end_ms)

    def bar(self, begin_ms: int, end_ms: int, y: float, height: float, style: str, *about: Html) -> Html:
        """Returns a bar, which is never thinner than a line."""
        left, right = self.x(begin_ms), self.x(end_ms)
        return _rect(left, y, max(right - left, 1.5), height, style, *about)


def _rect(x: float, y: float, width: float, height: float, style: str, *inside: Html) -> Html:
    if not inside:
        return tag("rect", x=x, y=y, width=width, height=height, class_=style)
    return tag("g", *inside, tag("rect", x=x, y=y, width=width, height=height, class_=style))


def _about(words: str) -> Html:
    return tag("title", words)


def picture(words: str, height: float, *shapes: Html) -> Html:
    """Returns a picture with a description for those who do not see it."""
    view = f"0 0 {WIDTH:.0f} {height:.0f}"
    return tag("svg", _about(words), *shapes, viewBox=view, preserveAspectRatio="none", role="img", aria_label=words)


def row(label: str, drawn: Html, *over: Html, note: str = "", style: str = "") -> Html:
    """Returns a line of the axis: its label, its picture, and what lies over it."""
    small = tag("small", note) if note else None
    head = tag("div", tag("span", label), small, class_="label")
    return tag("div", head, tag("div", drawn, *over, class_=f"plot {style}".strip()), class_="row")


def shades(axis: Axis, height: float) -> Html:
    """Returns the incidents of all nodes as a background: the windows before they were detected, and the rest."""
    windows = {(each.begin_ms, each.detected_ms) for each in axis.timeline.splits}
    rest = {(each.detected_ms, each.healed_ms or axis.timeline.end_ms) for each in axis.timeline.splits}
    return join(
        *(axis.bar(begin, end, 0, height, "split") for begin, end in merged(rest)),
        *(axis.bar(begin, end, 0, height, "window") for begin, end in merged(windows)),
    )


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns spans without overlaps, in order: shades of several nodes do not add up."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def lane(axis: Axis, node: str) -> Html:
    """Returns the lane of one node: up, down, in a minority, its starts and ends."""
    timeline = axis.timeline
    lives = [each for each in timeline.lives if each.node == node]
    shapes, words, marks = [shades(axis, LANE)], [], []
    for begin, end in _gaps(lives):
        shapes.append(tag("line", x1=axis.x(begin), x2=axis.x(end), y1=LANE / 2, y2=LANE / 2, class_="down"))
        words.append(_word(axis, begin, end, "down"))
    for each in lives:
        about = f"{node}, boot {each.boot}: up from {axis.time(each.begin_ms)} to {axis.time(each.end_ms)}"
        shapes.append(axis.bar(each.begin_ms, each.end_ms, 6, LANE - 12, "up", _about(f"{about}, {each.ending}")))
        marks += _ends(axis, each)
    for alone in timeline.minorities:
        if alone.node == node:
            about = f"{node} without a lease for {length(alone.end_ms - alone.begin_ms)}"
            shapes.append(axis.bar(alone.begin_ms, alone.end_ms, 2, LANE - 4, "minority", _about(about)))
            words.append(_word(axis, alone.begin_ms, alone.end_ms, "minority"))
    marks += [
        Mark(each.at_ms, "⚡" if each.type != "fault.end" else "○", f"{axis.time(each.at_ms)} {each.type} injected")
        for each in timeline.faults
        if node in each.nodes
    ]
    return row(node, picture(_told(axis, node, lives), LANE, *shapes), *words, *signs(axis, marks), style="lane")


def _gaps(lives: Sequence[Life]) -> list[tuple[int, int]]:
    ordered = sorted(lives, key=lambda each: each.begin_ms)
    return [(one.end_ms, two.begin_ms) for one, two in pairwise(ordered)]


def _ends(axis: Axis, life: Life) -> list[Mark]:
    marks = [Mark(life.begin_ms, "▸", f"{axis.time(life.begin_ms)} boot {life.boot} started", "start")]
    if life.ending == "stopped":
        marks.append(Mark(life.end_ms, "■", f"{axis.time(life.end_ms)} boot {life.boot} stopped in order", "stop"))
    elif life.ending == "killed":
        marks.append(Mark(life.end_ms, "✕", f"{axis.time(life.end_ms)} boot {life.boot} ended without a stop", "kill"))
    return marks


def _told(axis: Axis, node: str, lives: Sequence[Life]) -> str:
    boots = "; ".join(
        f"boot {each.boot} from {axis.time(each.begin_ms)} to {axis.time(each.end_ms)}, {each.ending}" for each in lives
    )
    alone = sum(each.end_ms - each.begin_ms for each in axis.timeline.minorities if each.node == node)
    return f"{node}: {boots or 'no rows'}" + (f"; without a lease for {length(alone)}" if alone else "")


def _word(axis: Axis, begin_ms: int, end_ms: int, word: str) -> Html:
    left, right = axis.percent(begin_ms), axis.percent(end_ms)
    if right - left < _LABEL:
        return Html("")
    return tag(
        "span", tag("b", word), class_="word", style=f"left:{left:.2f}%;width:{right - left:.2f}%", aria_hidden="true"
    )


def signs(axis: Axis, marks: Iterable[Mark]) -> list[Html]:
    """Returns signs over a picture, those on the axis."""
    return [_sign(axis, each) for each in marks if axis.holds(each.at_ms)]


def _sign(axis: Axis, mark: Mark) -> Html:
    given = {"class_": f"sign {mark.style}".strip(), "style": f"left:{axis.percent(mark.at_ms):.2f}%"}
    if mark.target:
        return tag("a", mark.sign, href=f"#{mark.target}", title=mark.about, aria_label=mark.about, **given)
    return tag("span", mark.sign, title=mark.about, aria_hidden="true", **given)


def findings_lane(axis: Axis, run: RunReport, place: str) -> Html:
    """Returns the findings that break a promise or are errors, each a link to its text, whose id begins with
    `place`. Those of one interval share a sign."""
    timeline = axis.timeline
    shown = sorted(
        (each.finding for each in run.findings if each.finding.severity in ("fatal", "error")), key=lambda one: one.at
    )
    marks = []
    for _, together in groupby(shown, key=lambda one: ((one.at >> 16) - timeline.begin_ms) // timeline.interval_ms):
        found = list(together)
        first = min(found, key=lambda one: one.severity != "fatal")
        more = f" and {number(len(found) - 1)} more" if len(found) > 1 else ""
        about = f"{axis.time(first.at >> 16)} {first.anomaly} {first.text}{more}"
        sign = "◆" if first.severity == "fatal" else "◇"
        marks.append(Mark(first.at >> 16, sign, about, first.severity, f"{place}-{first.id}"))
    told = f"{number(len(shown))} findings that break a promise or are errors"
    return row("findings", picture(told, LANE, shades(axis, LANE)), *signs(axis, marks), style="lane")


def strip(axis: Axis, label: str, values: dict[int, int], style: str, unit: str = "") -> Html:
    """Returns numbers over time as bars, as high as the picture for the largest one. `values`: interval -> number."""
    top = max(values.values(), default=0)
    wide = WIDTH * axis.timeline.interval_ms / max(axis.timeline.end_ms - axis.timeline.begin_ms, 1)
    bars = [
        _rect(x, STRIP - height, max(min(wide, WIDTH - x), 1.2), height, style)
        for at, value in sorted(values.items())
        if value and (x := max(axis.x(at), 0)) < WIDTH and (height := max((STRIP - 4) * value / top, 1.5))
    ]
    told = (
        f"{label}: {number(sum(values.values()))} in all, at most {number(top)} in {length(axis.timeline.interval_ms)}"
    )
    note = f"max {number(top)}{unit}" if top else "none"
    return row(label, picture(told, STRIP, shades(axis, STRIP), *bars), note=note)


LOWEST_US, HIGHEST_US = 100, 100_000_000
"""The range of the scale for times, which is logarithmic: 0.1 ms to 100 s."""


def level(us: int) -> float:
    """Returns the height of a time on the logarithmic scale."""
    share = math.log(min(max(us, LOWEST_US), HIGHEST_US) / LOWEST_US) / math.log(HIGHEST_US / LOWEST_US)
    return STRIP - 2 - (STRIP - 4) * share


def times(axis: Axis, node: str, points: Sequence[Point]) -> Html:
    """Returns p50 and p99 of one node over time, with lines at 1 ms, 100 ms and 10 s."""
    half = axis.timeline.interval_ms // 2
    scale = [
        tag("span", words, class_="scale", style=f"top:{level(us) / STRIP * 100:.0f}%", aria_hidden="true")
        for us, words in _SCALE.items()
    ]
    known = [each for each in points if each.node == node and each.p99_us is not None]
    grid = [tag("line", x1=0, x2=WIDTH, y1=level(us), y2=level(us), class_="grid") for us in _SCALE]
    lines = [
        _line(axis, [(each.at_ms + half, value) for each in part if (value := value_of(each)) is not None], style)
        for style, value_of in _QUANTILES.items()
        for part in _unbroken(known, axis.timeline.interval_ms)
    ]
    worst = max((each.p99_us or 0 for each in known), default=None)
    told = f"{node}: PUBLISH to PUBACK, largest p99 {micros(worst)}"
    note = f"max p99 {micros(worst)}"
    return row(node, picture(told, STRIP, shades(axis, STRIP), *grid, *lines), *scale, note=note)


_SCALE: Final = {1_000: "1 ms", 100_000: "100 ms", 10_000_000: "10 s"}
"""The lines of the scale for times, in us."""

_QUANTILES: Final[dict[str, Callable[[Point], int | None]]] = {
    "p50": lambda each: each.p50_us,
    "p99": lambda each: each.p99_us,
}


def _unbroken(points: Sequence[Point], interval_ms: int) -> list[list[Point]]:
    """Returns the points in parts without an interval between them that has none: a line does not hide a silence."""
    parts: list[list[Point]] = []
    for each in sorted(points, key=lambda one: one.at_ms):
        if parts and each.at_ms - parts[-1][-1].at_ms <= interval_ms:
            parts[-1].append(each)
        else:
            parts.append([each])
    return parts


def _line(axis: Axis, values: Sequence[tuple[int, int]], style: str) -> Html:
    places = [(axis.x(at), level(us)) for at, us in values]
    if len(places) == 1:
        x, y = places[0]
        places = [(max(x - 2, 0), y), (min(x + 2, WIDTH), y)]
    return tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places), class_=style)


def hover(axis: Axis, told: Mapping[int, Iterable[str]]) -> Html:
    """Returns a picture without colour, to lie over all strips: a pointer over an interval shows its lines."""
    step = axis.timeline.interval_ms
    fields = []
    for at, lines in sorted(told.items()):
        about = map(text, (f"{axis.time(at)} + {length(step)}", *lines))
        fields.append(axis.bar(at, at + step, 0, STRIP, "field", tag("title", Html("\n".join(about)))))
    view = f"0 0 {WIDTH:.0f} {STRIP:.0f}"
    return tag("svg", *fields, viewBox=view, preserveAspectRatio="none", class_="hover", aria_hidden="true")


def patterns() -> Html:
    """Returns the hatchings of all pictures, once for the page."""
    return tag(
        "svg", *(_pattern(*each) for each in (("hatch", 8), ("dense", 5))), class_="patterns", aria_hidden="true"
    )


def _pattern(name: str, size: int) -> Html:
    stripe = f"M-1,1 l2,-2 M0,{size} l{size},-{size} M{size - 1},{size + 1} l2,-2"
    filled = tag("rect", width=size, height=size), tag("path", d=stripe)
    return tag("pattern", *filled, id=name, width=size, height=size, patternUnits="userSpaceOnUse")


def ticks(axis: Axis) -> Html:
    """Returns the times below the axis."""
    begin, end = axis.timeline.begin_ms, axis.timeline.end_ms
    marks = [begin + (end - begin) * at // _TICKS for at in range(_TICKS + 1)]
    labels = [tag("span", axis.time(ms)[: -4 if end - begin >= 10_000 else None]) for ms in marks]
    return tag("div", tag("div", class_="label"), tag("div", *labels, class_="ticks"), class_="row")
