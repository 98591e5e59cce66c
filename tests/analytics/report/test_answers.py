"""The reason of a verdict, and the answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strogoff.analytics.report.answers import QUESTIONS, Answer, answers, reason, title
from strogoff.analytics.report.report_data import Count, RunReport
from strogoff.judge.findings import Finding, Subject

from .reports import BEGIN_MS, run_of


def found(anomaly: str, kind: str = "k", severity: Any = "fatal", sure: bool = True, number: int = 1) -> list[Finding]:
    subjects = (Subject("n1", detail=f"{anomaly} {kind} {at}") for at in range(number))
    return [Finding(anomaly, kind, severity, each, 0, "what happened", sure=sure) for each in subjects]


def said(run: RunReport) -> list[str]:
    return [each.said for each in answers(run)]


def test_a_run_without_findings_answers_no() -> None:
    run = run_of()
    assert said(run) == ["no"] * 5
    told = "The cluster kept its promises for 4 acknowledged messages with QoS 1 or 2; 5 were published with any QoS."
    assert reason(run) == told
    assert answers(run)[0] == Answer("Was anything lost?", "no", "None was found. 4 messages acknowledged.")


@pytest.mark.parametrize(
    ("anomaly", "kind", "severity", "expected"),
    [
        ("A1", "queue", "fatal", 0),
        ("A12", "forgotten", "fatal", 0),
        ("A14", "lost", "fatal", 0),
        ("A5", "k", "fatal", 1),
        ("A14", "dup", "fatal", 1),
        ("A6", "k", "fatal", 2),
        ("A19", "refused", "error", 3),
        ("A19", "accepted", "fatal", 4),
        ("A14", "spurious", "fatal", 4),
        ("A2", "disk", "fatal", 4),
        ("A10", "overlap", "error", 4),
    ],
)
def test_each_finding_says_yes_to_its_question_alone(anomaly: str, kind: str, severity: str, expected: int) -> None:
    run = run_of(found(anomaly, kind, severity, number=3))
    assert said(run) == ["yes" if at == expected else "no" for at in range(5)]
    assert f"{title(anomaly)}: 3" in answers(run)[expected].because
    if severity == "fatal":
        assert reason(run) == f"The cluster broke its promises ({title(anomaly)}: 3)."


def test_what_is_allowed_breaks_no_promise() -> None:
    run = run_of(found("A4", severity="info", number=2))
    assert said(run) == ["no", "allowed", "no", "no", "no"]
    assert answers(run)[1].because == "MQTT allows it: A4 duplicate: 2."


def test_a_hole_makes_all_answers_unknown() -> None:
    """The missing rows may explain what was found."""
    run = run_of([*found("A0", "gap"), *found("A6")])
    assert run.audit.verdict == "unknown"
    assert said(run) == ["unknown"] * 5
    assert answers(run)[1].because == "None was found, but rows of the log are missing."
    assert answers(run)[2].because == "Possible: A6 reorder: 1, but rows of the log are missing."
    assert reason(run) == "Rows of the log are missing (A0 log-hole: 1), and nobody can tell what they had."


def test_the_end_of_a_log_that_was_deleted_or_lost_is_no_hole() -> None:
    assert said(run_of(found("A0", "deleted", "info"))) == ["no"] * 5


def test_messages_that_logs_leave_out_are_mentioned() -> None:
    """They are no hole: what the log has can be judged."""
    run = run_of(found("A0", "left-out", "metric"))
    assert said(run) == ["no"] * 5 and run.audit.verdict == "valid"
    told = "Nodes left other messages out of the log as a whole."
    assert reason(run).endswith(f"5 were published with any QoS. {told}") and answers(run)[0].because.endswith(told)


def test_what_rests_on_lost_rows_is_unknown() -> None:
    run = run_of(found("A1", "queue", sure=False))
    assert said(run) == ["unknown", "no", "no", "no", "no"]
    assert reason(run) == "Rows that decide may have been lost with the end of a boot (A1 lost-acked: 1)."
    assert said(run_of([*found("A1", "queue", sure=False), *found("A1", "forward")]))[0] == "yes"


def test_a_log_without_messages_cannot_say_that_none_was_lost() -> None:
    run = run_of(published=0, acked=0, levels=("session",))
    assert said(run) == ["unknown", "unknown", "unknown", "no", "no"]
    assert reason(run) == "Nothing in the log breaks a promise, but the log has no messages (eventlog.level = session)."
    assert "no messages (eventlog.level = session)" in answers(run)[0].because
    nobody = run_of(published=0, acked=0, levels=("message",))
    assert reason(nobody) == "Nothing in the log breaks a promise, but the log has no messages."


def test_refusals_and_drops_are_named() -> None:
    counts = (
        Count("policy.deny", "publish: netsplit", 3, BEGIN_MS, BEGIN_MS, ("n1",)),
        Count("conn.refuse", "bad_password", 1, BEGIN_MS, BEGIN_MS, ("n1",)),
        Count("q.drop", "queue_full", 1200, BEGIN_MS, BEGIN_MS, ("n1",)),
    )
    lost, _, _, refused, _ = answers(replace(run_of(waiting=2, open=7), counts=counts))
    assert refused.said == "allowed"
    assert refused.because == "4 refused with a reason in the log (publish: netsplit, bad_password)."
    assert lost.said == "allowed"
    assert lost.because.startswith("None without a reason.")
    assert "2 still wait for their subscribers" in lost.because
    assert "7 cannot be judged: the logs end too early, or a node wrote no rows of messages" in lost.because
    assert "1,200 dropped with a reason in the log (queue_full)" in lost.because


def test_there_is_a_question_for_each_word_of_the_page() -> None:
    assert [question.split()[-1] for question, _ in QUESTIONS] == [
        "lost?",
        "doubled?",
        "reordered?",
        "refused?",
        "wrong?",
    ]


def test_an_anomaly_of_a_later_version_has_its_number_as_title() -> None:
    assert title("A1") == "A1 lost-acked"
    assert title("A99") == "A99"
