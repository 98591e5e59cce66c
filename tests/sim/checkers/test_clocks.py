"""Cluster time that jumps from one lease to the next."""

from __future__ import annotations

from strogoff.sim.checkers.clocks import APART_MS, GAP_S, Clocks


def test_leases_may_differ_a_little() -> None:
    clocks = Clocks()
    assert list(clocks.judge(1.0, {"a": 0.0, "b": 2000.0})) == []
    assert list(clocks.judge(1.05, {"b": float(APART_MS)})) == []


def test_a_jump_is_reported_once() -> None:
    clocks = Clocks()
    assert list(clocks.judge(1.0, {"a": 0.0})) == [] and list(clocks.judge(1.05, {})) == []
    assert list(clocks.judge(1.0 + GAP_S, {"b": -60_000.0})) == [
        "clock: cluster time jumps by -60 s, from the lease of a to that of b"
    ]
    assert list(clocks.judge(2.0, {"a": 0.0})) == []


def test_a_jump_after_a_time_without_leases_may_be_right() -> None:
    """The next leader may have heard nobody who knows cluster time. A node that comes back later knows the old one."""
    clocks = Clocks()
    assert list(clocks.judge(1.0, {"a": 0.0})) == []
    assert list(clocks.judge(1.01 + GAP_S, {"b": 60_000.0})) == []
    assert list(clocks.judge(1.05 + GAP_S, {"a": 0.0})) == []
