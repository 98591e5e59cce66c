"""The planted cases of losses of power and of other nodes that go on."""

from __future__ import annotations

from strogoff.judge.planted.failover_cases import CASES


def test_each_case_has_a_near_miss_or_an_anomaly_beside_it() -> None:
    wrong = [name for name, case in CASES.cases.items() if case.wrong]
    right = [name for name, case in CASES.cases.items() if not case.wrong]
    assert len(wrong) >= 7 and len(right) >= 8
    assert all(case.anomalies for case in CASES.cases.values() if case.wrong)
