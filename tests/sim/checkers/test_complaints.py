"""Problems noted by clients and nodes are violations."""

from __future__ import annotations

from strogoff.sim.checkers.complaints import check

from ..histories import HistoryBuilder


def test_problems_are_passed_on() -> None:
    builder = HistoryBuilder()
    builder.history.problem("the sky falls")
    assert list(check(builder.case())) == ["wrong: the sky falls"]
