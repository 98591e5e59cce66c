"""The page: HTML and SVG in one file, without scripts, links to the network or fonts of its own.

It is made of `report_data` alone. The same report gives the same page.
"""

from __future__ import annotations

import shlex
from importlib.resources import files
from typing import Final

from . import evidence_part, timeline_part
from .answers import Answer, answers, reason
from .chart import patterns
from .markup import Html, join, tag
from .report_data import DROPS, REFUSALS, Report, RunReport
from .tables import Cell, table
from .words import date_time, length, names, number, plural, time_within

BADGES: Final = {"valid": "✓ valid", "invalid": "✕ invalid", "unknown": "? unknown"}
_SAID: Final = {"no": "✓ no", "yes": "✕ yes", "allowed": "○ yes, allowed", "unknown": "? unknown"}


def page(report: Report) -> str:
    """Returns the whole page."""
    style = files(__package__ or "").joinpath("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", report.title),
        tag("style", Html(style)),
    )
    several = len(report.runs) > 1
    runs = [
        _run(f"run-{at}", each, report.source)
        for at, each in enumerate(report.runs, 1)
        if not (several and each.is_empty)
    ]
    body = tag("body", patterns(), _header(report), tag("main", *runs, _not_read(report)), _footer())
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(report: Report) -> Html:
    parts = [tag("h1", report.title), tag("p", "Event log ", tag("code", report.source), class_="source")]
    if len(report.runs) > 1:
        parts += _runs(report)
    if report.other_runs:
        told = ", ".join(f"{number(many)} {verdict}" for verdict, many in report.other_runs)
        command = tag("code", f"strogoff analytics audit {shlex.quote(report.source)}")
        parts.append(tag("p", f"Runs that are not shown: {told}. This shows them: ", command, class_="more"))
    if not report.is_whole:
        why = tag("a", "A part of the log was not understood", href="#not-read")
        parts.append(
            tag("p", why, ", so a verdict may rest on less than the nodes have written.", class_="verdict unknown")
        )
    if not report.runs:
        parts.append(tag("p", "The log has no events, so there is nothing to judge.", class_="verdict unknown"))
    return tag("header", *parts)


def _runs(report: Report) -> list[Html]:
    """Returns the table of the runs. Those that have nothing to show share a line below it."""
    lines: list[list[Cell]] = [
        [
            tag("span", BADGES[each.audit.verdict], class_=f"badge {each.audit.verdict}"),
            tag("a", each.audit.run_id, href=f"#run-{at}"),
            date_time(each.audit.first_ms)[:-4],
            reason(each),
        ]
        for at, each in enumerate(report.runs, 1)
        if not each.is_empty
    ]
    empty = [each.audit.run_id for each in report.runs if each.is_empty]
    told = f"Runs without messages and findings, as of a node before it joined a cluster: {names(empty)}."
    return [
        *(
            [table("Runs in this log", ["verdict", "run", "from (UTC)", "reason"], lines, "runs")]
            if len(lines) > 1
            else []
        ),
        *([tag("p", told, class_="more")] if empty else []),
    ]


def _run(place: str, run: RunReport, source: str) -> Html:
    audit = run.audit
    told = (
        f"{plural(len(audit.nodes), 'node')}, {plural(audit.events, 'event')}, "
        f"{date_time(audit.first_ms)} to {date_time(audit.last_ms)} UTC ({length(audit.last_ms - audit.first_ms)})"
    )
    return tag(
        "section",
        tag("h2", "Run ", tag("code", audit.run_id)),
        tag(
            "p",
            tag("strong", BADGES[audit.verdict], class_="badge"),
            " ",
            reason(run),
            class_=f"verdict {audit.verdict}",
        ),
        tag("p", told, class_="about"),
        _partly(run),
        _questions(answers(run)),
        tag("h3", "What was promised, and what happened"),
        tag("div", _happened(run), _promised(run), class_="pair"),
        timeline_part.section(run, place),
        evidence_part.section(run, source, place),
        _counts(run),
        id=place,
        class_="run",
    )


def _partly(run: RunReport) -> Html | None:
    """Returns a warning if some nodes have logged messages, and others have not."""
    levels = run.audit.levels
    others = [each for each in levels if each != "message"]
    if not others or "message" not in levels:
        return None
    told = f"Some boots had another eventlog.level ({names(others)}): what they did with messages is not in the log."
    return tag("p", told, class_="verdict unknown")


def _questions(given: list[Answer]) -> Html:
    cards = [
        tag(
            "div",
            tag("dt", each.question),
            tag("dd", tag("b", _SAID[each.said]), tag("p", each.because)),
            class_=each.said,
        )
        for each in given
    ]
    return tag("dl", *cards, class_="questions")


def _happened(run: RunReport) -> Html:
    audit = run.audit
    known = time_within(audit.known_up_to_ms, audit.first_ms, audit.last_ms)
    lines: list[list[Cell]] = [
        ["published", audit.published, "PUBLISH packets that a node accepted, of QoS 0, too"],
        ["acknowledged", audit.acked, "the publisher has PUBACK or PUBREC: these must not get lost"],
        ["delivered", audit.delivered, "sent to a session, each message and session once"],
        ["waiting", audit.waiting, "acknowledged, and still in a session's queue"],
        ["open", audit.open, f"acknowledged, and cannot be judged: the logs of all nodes are known up to {known}"],
        ["dropped", run.total(DROPS), "with a reason in the log"],
        ["refused", run.total(REFUSALS), "with a reason in the log"],
    ]
    return table("Messages", ["what", "number", "meaning"], lines)


def _promised(run: RunReport) -> Html:
    if not run.settings:
        return tag("p", "The log names no settings that promises depend on.", class_="none")
    everywhere = {node for each in run.settings for node in each.nodes}
    lines: list[list[Cell]] = [
        [
            tag("code", each.key),
            tag("code", each.value or "(empty)"),
            "all nodes" if len(each.nodes) == len(everywhere) > 1 else names(each.nodes, 4),
        ]
        for each in run.settings
    ]
    return table("Settings that promises depend on", ["setting", "value", "in force at"], lines)


def _counts(run: RunReport) -> Html:
    if not run.counts:
        return join(tag("h3", "Drops and refusals"), tag("p", "Nothing was dropped or refused.", class_="none"))
    words = DROPS | REFUSALS
    audit = run.audit
    lines: list[list[Cell]] = [
        [
            words.get(each.type, each.type),
            each.reason,
            each.number,
            time_within(each.first_ms, audit.first_ms, audit.last_ms),
            time_within(each.last_ms, audit.first_ms, audit.last_ms),
            names(each.nodes, 4),
        ]
        for each in run.counts
    ]
    more = f"{plural(run.other_counts, 'rarer reason')} not shown." if run.other_counts else ""
    return join(
        tag("h3", "Drops and refusals"),
        table("By reason", ["what", "reason", "number", "first", "last", "nodes"], lines),
        tag("p", more, class_="more") if more else None,
    )


def _not_read(report: Report) -> Html:
    title = tag("h2", "Parts of the log that were not understood", id="not-read")
    if not report.not_read:
        return tag("section", title, tag("p", "None: every file and every line was read.", class_="none"))
    lines: list[list[Cell]] = [
        [each.reason, tag("code", each.place), each.number, tag("code", each.example) if each.example else "-"]
        for each in report.not_read
    ]
    more = f"{number(report.other_not_read)} more not shown." if report.other_not_read else ""
    return tag(
        "section",
        title,
        table("Files and lines", ["why", "where", "number", "begins with"], lines),
        tag("p", more, class_="more") if more else None,
    )


def _footer() -> Html:
    told = "Made by strogoff analytics report. Times are UTC. docs/anomalies.md defines the anomalies."
    return tag("footer", tag("p", told))
