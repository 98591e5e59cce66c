"""Reports without Spark: of planted logs, judged in memory, and of values written by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from strogoff.analytics.audit.run_audit import Kind, RunAudit
from strogoff.analytics.report.facts import facts_of
from strogoff.analytics.report.proofs import evidence_of, first_of_each_kind, shown
from strogoff.analytics.report.report_data import Point, Report, RunReport, Timeline
from strogoff.judge.findings import Finding, verdict
from strogoff.judge.lives import BootRows
from strogoff.judge.planted.generate import PlantedLog
from strogoff.judge.rows import Row, ms_of, row_id
from strogoff.judge.run import judge

BEGIN_MS = 1_772_366_400_000
"""2026-03-01, 12:00 UTC."""
EMPTY = {"br", "meta"}
"""Elements of HTML without an end tag. Those of SVG end themselves."""


def kinds_of(findings: Iterable[Finding]) -> tuple[Kind, ...]:
    numbers: Counter[tuple[str, str, str]] = Counter()
    unsure: Counter[tuple[str, str, str]] = Counter()
    for each in findings:
        key = each.anomaly, each.kind, each.severity
        numbers[key] += 1
        unsure[key] += not each.sure
    return tuple(Kind(*key, number, unsure[key]) for key, number in numbers.items())  # type: ignore[arg-type]


def audit_of(findings: Sequence[Finding] = (), **given: Any) -> RunAudit:
    """Returns the audit of a run of one second with these findings."""
    usual: dict[str, Any] = {
        "run_id": "r",
        "nodes": ("n1", "n2"),
        "events": 9,
        "first_ms": BEGIN_MS,
        "last_ms": BEGIN_MS + 1000,
        "known_up_to_ms": BEGIN_MS + 1000,
        "verdict": verdict(findings),
        "published": 5,
        "acked": 4,
        "delivered": 3,
    }
    return RunAudit(**(usual | given), kinds=kinds_of(findings), findings=tuple(findings))


def run_of(findings: Sequence[Finding] = (), **given: Any) -> RunReport:
    """Returns a run with these findings and without anything else; `given` are fields of its audit."""
    audit = audit_of(findings, **given)
    timeline = Timeline(audit.first_ms, audit.last_ms, 5, audit.nodes)
    return RunReport(audit, timeline, tuple(shown(each, {}) for each in first_of_each_kind(findings)))


def report_of(*runs: RunReport, **given: Any) -> Report:
    return Report("Event log report", "eventlog", runs, **given)


def planted(cases: Iterable[str], messages: int = 150, positions: int = 1) -> RunReport:
    """Returns the report of a planted log."""
    rows: list[Row] = list(PlantedLog(5, messages, cases, positions).rows())
    judged = judge(rows, complete=False)
    boots: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        boots.setdefault((row["node"], row["boot"]), []).append(row)
    facts = facts_of(_of_nodes(rows), {key: BootRows.of(of_boot) for key, of_boot in boots.items()})
    stamps = [ms_of(row["hlc"]) for row in rows]
    audit = audit_of(
        judged.findings,
        run_id="planted",
        nodes=tuple(sorted({row["node"] for row in rows})),
        events=len(rows),
        first_ms=min(stamps),
        last_ms=max(stamps),
        published=judged.published,
        acked=judged.acked,
        delivered=judged.delivered,
        waiting=judged.waiting,
        open=judged.open,
    )
    evidence = {row_id(row): evidence_of(row) for row in rows}
    timeline = Timeline(audit.first_ms, audit.last_ms, 20, audit.nodes, facts.lives, facts.minorities, facts.splits)
    return RunReport(
        replace(audit, verdict=judged.verdict),
        replace(timeline, points=(Point(audit.first_ms, audit.nodes[0], 3, 2, 1, 0, 0, 400, 900),)),
        tuple(shown(each, evidence) for each in first_of_each_kind(judged.findings)),
        settings=facts.settings,
    )


def _of_nodes(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["type"].split(".")[0] in ("node", "split", "config", "fault")]


class Parsed(HTMLParser):
    """A page as its elements: `texts` of all elements with a name, `ids`, `links` within the page. Raises ValueError
    where an element ends that has not begun, or that is not the last one that has."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(page)
        self.close()
        if self.open:
            raise ValueError(f"{self.open} have no end")

    @property
    def text(self) -> str:
        return " ".join("".join(each) for each in self.texts.get("body", []))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in EMPTY:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise ValueError(f"</{tag}> at {self.getpos()} ends nothing")

    def handle_data(self, data: str) -> None:
        for tag in dict.fromkeys(self.open):
            self.texts[tag][-1] += data
