"""The result of an audit."""

from __future__ import annotations

from strogoff.analytics.audit.run_audit import Kind, RunAudit
from strogoff.judge.findings import Finding, Subject


def test_findings_that_are_counted_and_not_named_are_omitted() -> None:
    kinds = (Kind("A1", "queue", "fatal", 5, 1), Kind("A4", "again", "metric", 2, 0))
    finding = Finding("A1", "queue", "fatal", Subject("n1"), 0, "lost")
    assert RunAudit("r", ("n1",), 9, 0, 1, 1, "invalid", kinds=kinds, findings=(finding,)).omitted == 6
    assert RunAudit("r", ("n1",), 9, 0, 1, 1, "valid").omitted == 0
