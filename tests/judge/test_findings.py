"""Findings: their ids, their order, and the verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strogoff.judge.findings import Finding, Severity, Subject, in_order, of_message, verdict

SUBJECT = Subject("n", "", "rx", 1, ("n", 1, 7))
FOUND = Finding("A1", "queue", "fatal", SUBJECT, 5, "lost")


def test_an_id_depends_on_anomaly_kind_and_subject() -> None:
    """It is the same in every process and every run."""
    assert FOUND.id == "43d2762de891cd27"
    assert replace(FOUND, at=9, text="other", rows=(("n", 1, 1),), sure=False).id == FOUND.id
    others = [
        replace(FOUND, anomaly="A3"),
        replace(FOUND, kind="gone"),
        *(replace(FOUND, subject=replace(SUBJECT, **{name: "x"})) for name in ("node", "mountpoint", "client")),  # type: ignore[arg-type]
        replace(FOUND, subject=replace(SUBJECT, session=2)),
        replace(FOUND, subject=replace(SUBJECT, message=("n", 1, 8))),
        replace(FOUND, subject=replace(SUBJECT, message=None)),
    ]
    assert len({each.id for each in (FOUND, *others)}) == 9


def test_findings_are_in_the_order_of_anomalies_then_of_time() -> None:
    ten, late = replace(FOUND, anomaly="A10"), replace(FOUND, at=6)
    assert in_order([ten, late, FOUND]) == [FOUND, late, ten]


@pytest.mark.parametrize(
    ("findings", "wanted"),
    [
        ([], "valid"),
        ([("A1", "fatal", True)], "invalid"),
        ([("A4", "info", True), ("A26", "metric", True), ("A7", "error", True)], "valid"),
        ([("A1", "fatal", False)], "unknown"),
        ([("A1", "fatal", False), ("A3", "fatal", True)], "invalid"),
        ([("A3", "fatal", True), ("A0", "fatal", True)], "unknown"),
        ([("A0", "info", True)], "valid"),
    ],
)
def test_the_verdict(findings: list[tuple[str, Severity, bool]], wanted: str) -> None:
    """A hole makes it unknown whatever else is found; a broken promise is certain only if the finding is."""
    found = [Finding(anomaly, "k", severity, Subject(), 0, "", (), sure) for anomaly, severity, sure in findings]
    assert verdict(found) == wanted


def test_the_text_of_a_message() -> None:
    found = of_message("A1", "queue", "fatal", SUBJECT, (5, "t/1", 1), ())
    assert str(found) == "A1 queue: message 7 of n (boot 1) on t/1 with QoS 1, for rx, session 1"
    assert of_message("A1", "queue", "fatal", SUBJECT, (5, "", 0), ()).text.endswith("(boot 1), for rx, session 1")
