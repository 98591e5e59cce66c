"""Two processes that serve for one node."""

from __future__ import annotations

from dataclasses import dataclass

from strogoff.sim.checkers.roles import judge


@dataclass
class Role:
    boot: int = 2
    row_boot: int = 2
    process: str = "p"
    row_process: str = "p"
    node: str = "a"


def test_roles() -> None:
    assert list(judge([Role()])) == []
    assert list(judge([Role(row_boot=1)])) == ["role: start 2 of a serves, and the view has start 1"]
    assert len(list(judge([Role(row_process="q")]))) == 1
