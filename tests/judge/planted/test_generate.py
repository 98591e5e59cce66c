"""Each planted case is found, and nothing else, with the same ids in whatever order the rows are read."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from strogoff.analytics.schema import validate
from strogoff.cluster.identity import slot_of
from strogoff.judge.findings import Finding, verdict
from strogoff.judge.planted.expected import Expected
from strogoff.judge.planted.generate import CASES, PlantedLog
from strogoff.judge.run import judge

from ...harness.thinning import thinned

MESSAGES = 400


def short(found: list[Finding] | list[Expected]) -> list[tuple[str, str, str, bool, str]]:
    """What a finding and its expectation have in common."""
    return sorted((each.id, each.anomaly, each.kind, each.sure, each.severity) for each in found)


@pytest.mark.parametrize("seed", range(3))
def test_a_clean_log_is_valid(seed: int) -> None:
    """With everything that happens in it; the incidents of its split are reported."""
    log = PlantedLog(seed, 2000)
    rows = list(log.rows())
    for complete in (True, False):
        report = judge(rows, complete=complete)
        assert short(report.findings) == short(log.expected)
        assert (report.verdict, report.waiting, report.open) == ("valid", 0, 0)
        assert report.acked > 1000 and report.delivered > 1300


def test_rows_are_right_by_the_schema() -> None:
    log = PlantedLog(1, 2000, CASES)
    rows = list(log.rows())
    assert [text for row in rows for text in validate(row)] == []
    assert rows == sorted(rows, key=lambda row: row["hlc"])
    assert len({row["type"] for row in rows}) > 40


@pytest.mark.parametrize("name", thinned(sorted(CASES), 3))
def test_each_case_is_found_at_each_position(name: str) -> None:
    """Exactly the expected findings; a near miss has none, but perhaps a report of its incident."""
    log = PlantedLog(5, MESSAGES, [name], positions=3)
    rows = list(log.rows())
    random.Random(7).shuffle(rows)
    report = judge(rows, complete=False)
    assert short(report.findings) == short(log.expected)
    planted = [each for each in log.expected if each.case]
    if CASES[name].wrong:
        assert len({each.id for each in planted}) == len(planted) >= 3
        assert {int(str(each.anomaly)[1:]) for each in planted} >= {
            int(word[1:].rstrip(":,"))
            for word in CASES[name].about.split()[:3]
            if word[:1] == "A" and word[1:2].isdigit()
        }
    else:
        assert all(each.severity in ("metric", "info") for each in planted)
        assert report.verdict == "valid"


def test_all_cases_together() -> None:
    """They do not meet each other. The holes make the verdict unknown; without them it is invalid."""
    log = PlantedLog(11, 3000, CASES, positions=2)
    report = judge(log.rows(), complete=False)
    assert short(report.findings) == short(log.expected)
    assert report.verdict == "unknown"
    assert verdict(each for each in report.findings if each.anomaly != "A0") == "invalid"
    found = Counter(each.anomaly for each in report.findings)
    assert set(found) == {
        f"A{number}"
        for number in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24)
    }


@pytest.mark.parametrize("name", ["hole", "rows-given-up"])
def test_a_hole_makes_a_run_unknown(name: str) -> None:
    assert judge(PlantedLog(2, MESSAGES, [name]).rows()).verdict == "unknown"


def test_what_rests_on_a_lost_tail_makes_a_run_unknown() -> None:
    assert judge(PlantedLog(2, MESSAGES, ["lost-with-the-tail"]).rows()).verdict == "unknown"


def test_a_seed_gives_the_same_rows() -> None:
    first, second = (list(PlantedLog(3, MESSAGES, ["overtaken"]).rows()) for _ in range(2))
    assert first == second != list(PlantedLog(4, MESSAGES, ["overtaken"]).rows())


def test_no_two_cases_have_subscribers_in_one_slot() -> None:
    """One of them may say that the slot has moved."""
    log = PlantedLog(1, 300, CASES)
    found = {row["client"] for row in log.rows() if re.fullmatch(r"c\d+-0[a-z]*-rx", row.get("client") or "")}
    assert len(found) > 100 and len({slot_of("", client) for client in found}) == len(found)
