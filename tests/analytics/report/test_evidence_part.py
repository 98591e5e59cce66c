"""The part with the findings."""

from __future__ import annotations

from dataclasses import replace

from strogoff.analytics.report.evidence_part import section
from strogoff.analytics.report.report_data import Evidence, RunReport, Shown
from strogoff.judge.findings import Finding, Subject

from .reports import BEGIN_MS, Parsed, run_of


def said(run: RunReport) -> Parsed:
    return Parsed(f"<body>{section(run, 'eventlog', 'run-1')}</body>")


def finding(anomaly: str, severity: str, at_ms: int = BEGIN_MS + 5, **given: object) -> Finding:
    subject = Subject("n1", "m", "c", 2, ("n1", 3, 4), "t/1", "d")
    return replace(Finding(anomaly, "k", severity, subject, at_ms << 16, "it happened"), **given)  # type: ignore[arg-type]


def test_a_finding_has_its_subject_time_and_rows() -> None:
    found = finding("A1", "fatal", rows=(("n1", 3, 9),))
    row = Evidence(("n1", 3, 9), BEGIN_MS + 7, "pub.recv", "client=c topic=t/1", "date=x/boot=3-1.jsonl", 12)
    part = said(replace(run_of([found]), findings=(Shown(found, (row,)),)))
    facts = dict(zip(part.texts["dt"], part.texts["dd"], strict=True))
    assert facts == {
        "when": "12:00:00.005",
        "node": "n1",
        "mountpoint": "m",
        "client": "c",
        "session": "2",
        "message": "n1/3/4",
        "topic": "t/1",
        "detail": "d",
        "finding": found.id,
    }
    assert part.texts["h4"] == ["A1 lost-acked"] and part.texts["h5"] == ["it happened"]
    assert "12:00:00.007" in part.texts["th"]
    assert {"n1 · boot 3 · 9", "pub.recv"} <= set(part.texts["td"])
    assert part.texts["td"][-1] == "client=c topic=t/1date=x/boot=3-1.jsonl:12"


def test_broken_promises_and_errors_are_unfolded() -> None:
    part = said(
        run_of([finding("A1", "fatal"), finding("A9", "info"), finding("A10", "error"), finding("A20", "metric")])
    )
    assert len([each for each in part.attributes if each[:2] == ("details", "open")]) == 2
    assert [each.split("finding, ")[1] for each in part.texts["summary"]] == [
        "◆ a broken promise",
        "○ allowed",
        "◇ an error, and no broken promise",
        "○ a number",
    ]


def test_kinds_are_counted() -> None:
    unsure = finding("A1", "fatal", sure=False, subject=Subject("n2"))
    assert "By kind: k: 2, 1 not sure." in said(run_of([finding("A1", "fatal"), unsure])).text
    hole = said(run_of([finding("A0", "fatal"), finding("A1", "fatal")])).text
    assert "By kind: k: 1." in hole and "By kind: k: 1, 1 not sure." in hole
    assert hole.count("rows that decide may have been lost") == 1


def test_a_stamp_outside_of_the_run_is_no_time() -> None:
    assert "the whole run" in said(run_of([finding("A23", "metric", 0)])).texts["dd"]


def test_an_anomaly_without_any_shown_finding_is_named() -> None:
    run = replace(run_of([finding("A6", "fatal")]), findings=())
    assert "Not shown: A6 reorder (1)." in said(run).text


def test_a_run_without_findings_says_so() -> None:
    assert "None." in said(run_of()).text
