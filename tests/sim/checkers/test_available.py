"""A CONNECT that waits at nodes that serve."""

from __future__ import annotations

from strogoff.sim.checkers.available import COMMITS, Connects
from strogoff.sim.checkers.unanswered import PATIENCE_S


def test_a_connect_that_waits_too_long() -> None:
    connects = Connects()
    assert list(connects.judge(PATIENCE_S, [("c", 1)], 0.0)) == []
    (text,) = connects.judge(0.5, [("c", 1), ("d", 1)], 0.0)
    assert text == "unavailable: connection 1 of c has no CONNACK, though its nodes serve"


def test_a_reason_to_wait_and_another_connection_begin_anew() -> None:
    connects = Connects()
    for waiting in ([("c", 1)], [], [("c", 1)], [("c", 2)]):
        assert list(connects.judge(PATIENCE_S, waiting, 0.0)) == []


def test_a_connect_may_wait_for_slow_commits() -> None:
    connects = Connects()
    assert list(connects.judge(PATIENCE_S + COMMITS * 0.4, [("c", 1)], 0.4)) == []
    assert len(list(connects.judge(0.1, [("c", 1)], 0.4))) == 1
