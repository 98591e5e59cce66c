"""A20: incidents."""

from __future__ import annotations

from ...testing.log_audit.log_builder import Log
from .found import findings


def test_an_incident_has_its_worst_state_and_its_window() -> None:
    log = Log()
    log.say("split.detect", nodes=["b"], state="majority", begin_ms=10, window_ms=30)
    log.say("split.change", nodes=["b"], state="minority")
    log.say("split.heal", nodes=["b"], state="minority")
    log.say("split.detect", nodes=["b"], state="majority", incident=2, begin_ms=90, window_ms=7)
    first, second = findings(log)
    assert (first.kind, first.value, len(first.rows), first.severity) == ("minority", 30, 3, "metric")
    assert (second.kind, second.value, len(second.rows)) == ("majority", 7, 1)
    assert "2 ms" not in second.text and "not over" in second.text and first.id != second.id


def test_a_node_may_be_in_one_incident_again() -> None:
    """It heals, and does not see the whole cluster again before the next view."""
    log = Log()
    for _ in range(2):
        log.say("split.detect", nodes=["b"], state="majority", incident=5)
        log.say("split.heal", nodes=["b"], state="majority", incident=5)
    first, second = findings(log)
    assert [each.subject.detail for each in (first, second)] == ["incident 5", "incident 5, occurrence 2"]
    assert first.id != second.id


def test_older_logs_do_not_number_incidents() -> None:
    log = Log()
    for begin in (10, 90):
        log.say("split.detect", nodes=["b"], state="majority", begin_ms=begin, window_ms=7)
        del log.rows[-1]["incident"]
    assert [each.subject.detail for each in findings(log)] == ["begin 10", "begin 90"]
