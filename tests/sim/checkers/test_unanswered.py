"""Publishes that wait without an excuse."""

from __future__ import annotations

from strogoff.sim.checkers.unanswered import Waits
from tests.sim.scene import Story


def test_only_time_without_an_excuse_counts() -> None:
    attempt = Story().publish("w-1", acked=False)
    waits = Waits()
    for _ in range(5):
        assert list(waits.judge(2.0, [attempt], {"n1": 1.0, "n2": 0.0})) == []
    for _ in range(3):
        assert list(waits.judge(2.0, [attempt], {"n1": 1.0})) == []
    assert list(waits.judge(2.0, [attempt], {"n1": 1.0})) == [
        "unanswered: w-1 at n1, though all it may wait for is there"
    ]
    assert list(waits.judge(2.0, [], {"n1": 1.0})) == []
