"""The part of the page with the findings: by anomaly, each with its rows."""

from __future__ import annotations

import shlex
from itertools import groupby
from typing import Final

from ...judge.definitions import DEFINITIONS
from ...judge.findings import Subject
from .answers import title
from .markup import Html, join, tag
from .report_data import Evidence, RunReport, Shown
from .tables import Cell, table
from .words import number, plural, time_within

MEANING: Final = {
    "fatal": "◆ a broken promise",
    "error": "◇ an error, and no broken promise",
    "info": "○ allowed",
    "metric": "○ a number",
}
_OPEN: Final = ("fatal", "error")


def section(run: RunReport, source: str, place: str) -> Html:
    """Returns the findings of a run. `place`: id of the run's part of the page. Ids of findings begin with it, because
    two runs may have the same finding."""
    heading = tag("h3", "Findings")
    if not run.audit.kinds:
        return join(heading, tag("p", "None.", class_="none"))
    groups = [
        _group(run, source, anomaly, [_finding(run, source, each, place) for each in found])
        for anomaly, found in groupby(run.findings, _anomaly)
    ]
    shown = {each.finding.anomaly for each in run.findings}
    absent = [each for each in run.audit.kinds if each.anomaly not in shown]
    rest = (
        tag("p", f"Not shown: {', '.join(f'{title(each.anomaly)} ({each.number})' for each in absent)}.")
        if absent
        else None
    )
    return join(heading, *groups, rest)


def _anomaly(shown: Shown) -> str:
    return shown.finding.anomaly


def _group(run: RunReport, source: str, anomaly: str, found: list[Html]) -> Html:
    kinds = [each for each in run.audit.kinds if each.anomaly == anomaly]
    everything = sum(each.number for each in kinds)
    severities = dict.fromkeys(each.severity for each in kinds)
    known = DEFINITIONS.get(anomaly)
    told = "; ".join(
        f"{each.kind}: {number(each.number)}" + (f", {number(unsure)} not sure" if unsure else "")
        for each in kinds
        for unsure in [each.number if run.audit.doubts(anomaly) else each.unsure]
    )
    heading = tag(
        "summary",
        tag("h4", title(anomaly)),
        tag("span", f"{plural(everything, 'finding')}, {' and '.join(MEANING[each] for each in severities)}"),
    )
    parts = [tag("p", known.sentence) if known else None, tag("p", f"By kind: {told}.", class_="about")]
    parts += found
    if everything > len(found):
        command = (
            f"strogoff analytics audit {shlex.quote(source)} --run {shlex.quote(run.audit.run_id)} --limit {everything}"
        )
        words = f"{plural(everything - len(found), 'more finding')} not shown. This shows them: "
        parts.append(tag("p", words, tag("code", command), class_="more"))
    unfolded = "open" if any(each in _OPEN for each in severities) else None
    return tag("details", heading, *parts, class_=f"anomaly {next(iter(severities))}", open=unfolded)


def _finding(run: RunReport, source: str, shown: Shown, place: str) -> Html:
    found, audit = shown.finding, run.audit
    at = found.at >> 16
    when = time_within(at, audit.first_ms, audit.last_ms) if audit.first_ms <= at <= audit.last_ms else "the whole run"
    facts = [("when", when), *_subject(found.subject), ("finding", found.id)]
    if not found.sure or audit.doubts(found.anomaly):
        facts.insert(0, ("not sure", "rows that decide may have been lost"))
    listed = tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts")
    parts: list[Html] = [tag("h5", found.text), listed]
    if shown.rows:
        lines = [_row(run, each) for each in shown.rows]
        parts.append(
            table(f"Rows of {found.id}", ["time", "row", "event", "fields, and place in the log"], lines, "rows")
        )
    if missing := len(found.rows) - len(shown.rows):
        command = f"strogoff analytics audit {shlex.quote(source)} --explain {found.id}"
        parts.append(
            tag("p", f"{plural(missing, 'more row')} not shown. This shows them: ", tag("code", command), class_="more")
        )
    return tag("article", *parts, id=f"{place}-{found.id}", class_=found.severity)


def _subject(subject: Subject) -> list[tuple[str, str]]:
    message = subject.message
    facts = [
        ("node", subject.node),
        ("mountpoint", subject.mountpoint),
        ("client", subject.client),
        ("session", str(subject.session or "")),
        ("message", f"{message[0]}/{message[1]}/{message[2]}" if message else ""),
        ("topic", subject.topic),
        ("detail", subject.detail),
    ]
    return [(name, value) for name, value in facts if value]


def _row(run: RunReport, row: Evidence) -> list[Cell]:
    node, boot, seq = row.row
    return [
        time_within(row.at_ms, run.audit.first_ms, run.audit.last_ms),
        f"{node} · boot {boot} · {seq}",
        tag("code", row.type),
        join(row.text, tag("small", f"{row.file}:{row.line}") if row.file else None),
    ]
