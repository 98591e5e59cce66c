"""The port that gives operators the state of the cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strogoff.broker.clustering.operator_port import COUNTERS, GAUGES, counters, gauges
from strogoff.netsplit.incidents import METRICS


@pytest.mark.parametrize("office", [None, SimpleNamespace(), SimpleNamespace(counters={})])
def test_counters_that_are_not_kept_are_zero(office: Any) -> None:
    assert counters(office) == dict.fromkeys(COUNTERS, 0)
    assert gauges(office) == dict.fromkeys(GAUGES, 0)


def test_only_counters_with_vernemq_names_are_passed_on() -> None:
    office: Any = SimpleNamespace(counters={"netsplit_detected": 2, "of_its_own": 5})
    assert counters(office) == {**dict.fromkeys(COUNTERS, 0), "netsplit_detected": 2}


def test_figures_of_incidents_are_counters_or_gauges() -> None:
    assert {*COUNTERS, *GAUGES} >= {*METRICS} and not {*COUNTERS} & {*GAUGES}
    office: Any = SimpleNamespace(counters=dict.fromkeys(METRICS, 3))
    assert gauges(office) == {"netsplit_open": 3, "netsplit_last_window_ms": 3, "netsplit_longest_window_ms": 3}
    assert counters(office)["netsplit_suspected"] == 3
