"""The port between operators and the cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strogoff.broker.cluster_office import COUNTERS, counters


@pytest.mark.parametrize("office", [None, SimpleNamespace(), SimpleNamespace(counters={})])
def test_what_is_not_counted_is_nought(office: Any) -> None:
    assert counters(office) == dict.fromkeys(COUNTERS, 0)


def test_counters_are_passed_on_under_vernemqs_names_alone() -> None:
    office: Any = SimpleNamespace(counters={"netsplit_detected": 2, "of_its_own": 5})
    assert counters(office) == {**dict.fromkeys(COUNTERS, 0), "netsplit_detected": 2}
