"""The result of an audit."""

from __future__ import annotations

from strogoff.analytics.audit.run_audit import Kind, RunAudit, without_messages
from strogoff.judge.findings import Finding, Subject


def test_findings_that_are_counted_and_not_named_are_omitted() -> None:
    kinds = (Kind("A1", "queue", "fatal", 5, 1), Kind("A4", "again", "metric", 2, 0))
    finding = Finding("A1", "queue", "fatal", Subject("n1"), 0, "lost")
    assert RunAudit("r", ("n1",), 9, 0, 1, 1, "invalid", kinds=kinds, findings=(finding,)).omitted == 6
    assert RunAudit("r", ("n1",), 9, 0, 1, 1, "valid").omitted == 0


def test_a_hole_casts_doubt_on_all_findings_but_itself() -> None:
    hole, deleted = Kind("A0", "gap", "fatal", 1, 0), Kind("A0", "deleted", "info", 1, 0)
    missing = RunAudit("r", ("n1",), 9, 0, 1, 1, "unknown", kinds=(hole, deleted))
    assert missing.holes == (hole,)
    assert missing.doubts("A1") and not missing.doubts("A0")
    assert not RunAudit("r", ("n1",), 9, 0, 1, 1, "valid", kinds=(deleted,)).doubts("A1")


def test_the_level_that_writes_messages_is_no_reason_for_a_log_without_them() -> None:
    assert without_messages(("message",)) == without_messages(()) == "the log has no messages"
    assert without_messages(("session",)) == "the log has no messages (eventlog.level = session)"
