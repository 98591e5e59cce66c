"""The demo: three brokers, a kill, a pause and a netsplit, and what the event log says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.demo import Outcome, differences, outcome_of, written
from strogoff.judge.findings import Finding, Severity, Subject
from strogoff.judge.planted.generate import PlantedLog
from strogoff.judge.run import Report, judge
from strogoff.testing.log_audit.log_files import write_log

pytestmark = [pytest.mark.system]


def found(anomaly: str, severity: Severity = "metric") -> Finding:
    """Returns a finding."""
    return Finding(anomaly, "kind", severity, Subject("n1"), 0, "text")


SPLIT = found("A20")


def test_what_a_policy_promises() -> None:
    alone, lost = found("A21", "info"), found("A1", "fatal")

    def doubts(policy: str, *findings: Finding, wrong: tuple[str, ...] = ()) -> list[str]:
        return Outcome(policy, "r", Report([*findings]), [*wrong], 0).doubts()

    for policy in ("off", "majority"):
        assert doubts(policy, SPLIT) == []
        assert doubts(policy) == ["the log shows no incident"]
        assert doubts(policy, SPLIT, lost) == ["the verdict is invalid"]
        assert doubts(policy, SPLIT, alone) == ["a node acknowledged without a lease"]
        assert doubts(policy, SPLIT, wrong=("reader: lost",)) == ["reader: lost"]
    assert doubts("on", SPLIT, alone) == doubts("on", SPLIT, alone, lost, wrong=("lost",)) == []
    assert doubts("on", SPLIT) == ["no node acknowledged without a lease"]


def test_the_outcome_in_words() -> None:
    lines = Outcome("on", "r", Report([SPLIT, SPLIT], 5, 4, 3), [], 7).lines()
    assert lines[0] == "policy on: VALID. 5 messages published, 4 acknowledged, 3 delivered"
    assert lines[1] == "    A20 kind (metric): 2"
    assert lines[2].startswith("    7 messages that n3 acknowledged alone did not reach their new subscriber")
    assert lines[3] == "    NOT AS PROMISED: no node acknowledged without a lease"


def test_the_report_must_have_the_same_verdicts() -> None:
    outcomes = [Outcome("off", "a", Report([]), [], 0), Outcome("on", "b", Report([found("A1", "fatal")]), [], 0)]
    assert differences(outcomes, {"a": "valid", "b": "invalid"}) == []
    assert differences(outcomes, {"a": "unknown"}) == [
        "policy off: valid in memory, unknown in the report",
        "policy on: invalid in memory, missing in the report",
    ]


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
@pytest.mark.by_hand
def test_the_report_of_the_logs(tmp_path: Path) -> None:
    rows = [dict(row) for row in PlantedLog(1, 200).rows()]
    write_log(rows, tmp_path / "log" / "off")
    outcome = Outcome("off", "planted", judge(rows, complete=False), [], 0)
    assert differences([outcome], written(tmp_path, [outcome])) == []
    assert "off is run planted" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("policy", ["majority", pytest.param("on", marks=pytest.mark.by_hand)])
def test_a_short_demo(tmp_path: Path, policy: str) -> None:
    outcome = asyncio.run(outcome_of(policy, tmp_path, 0.5))
    assert outcome.doubts() == []
    assert outcome.report.acked > 50
    kinds = {each.kind for each in outcome.report.findings if each.anomaly == "A20"}
    assert kinds == {"minority", "majority"}
    assert (outcome.lost_for_late > 0) == (policy == "on")
