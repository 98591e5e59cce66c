"""The catalogue of cases."""

from __future__ import annotations

import pytest

from strogoff.judge.planted.catalogue import Catalogue, merged
from strogoff.judge.planted.generate import CASES
from strogoff.judge.planted.scene import Actor
from strogoff.judge.planted.stage import Stage


def test_names_and_kinds() -> None:
    catalogue = Catalogue()

    @catalogue.anomaly
    def one_thing(stage: Stage) -> Actor:
        """A1: it is wrong."""
        yield 0

    assert list(catalogue.cases) == ["one-thing"]
    case = catalogue.cases["one-thing"]
    assert case.wrong and case.about == "A1: it is wrong."
    assert case.anomalies == ("A1",)
    with pytest.raises(AssertionError):
        catalogue.near_miss(one_thing)
    with pytest.raises(AssertionError):
        merged(catalogue, catalogue)


def test_each_case_says_what_happens_and_an_anomaly_its_number() -> None:
    assert len(CASES) > 50 and sum(not case.wrong for case in CASES.values()) > 20
    for case in CASES.values():
        assert case.about
        assert not case.wrong or (case.about[0] == "A" and case.about[1].isdigit())
        assert bool(case.anomalies) == case.wrong
    assert CASES["unsubscribe-undone"].anomalies == ("A3", "A18")
