"""Which anomalies the cases of `stranded_cases.py` have. `test_generate.py` looks for each case."""

from __future__ import annotations

import re

from strogoff.judge.planted.stranded_cases import CASES


def test_which_anomalies_are_planted() -> None:
    """Beside them there are near misses."""
    words = " ".join(case.about for case in CASES.cases.values() if case.wrong)
    assert sorted({int(each) for each in re.findall(r"\bA(\d+)", words)}) == [7]
    assert any(not case.wrong for case in CASES.cases.values())
