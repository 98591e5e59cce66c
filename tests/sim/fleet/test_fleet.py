"""Whole seeds of a cluster."""

from __future__ import annotations

import pytest

from strogoff.sim.running import Order, run_seed


@pytest.mark.parametrize(
    ("nodes", "seed"), [(2, 1), (3, 0), (3, 9), (3, 25), (3, 26), (3, 390), (3, 4691), (3, 10667), (4, 2)]
)
def test_seeds(nodes: int, seed: int) -> None:
    outcome = run_seed(seed, Order(nodes=nodes))
    assert outcome.violations == () and outcome.messages > 0


def test_a_seed_replays_exactly_and_its_trace_has_all() -> None:
    first, second = (run_seed(2, Order(nodes=3), trace=True) for _ in range(2))
    assert first.lines == second.lines
    text = "\n".join(first.lines)
    for part in ("FAULT", " leads, whole, view ", "--> PUBLISH", "conn.open"):
        assert part in text, part
