"""Each bug planted into a cluster is found within its number of seeds, by its checkers."""

from __future__ import annotations

import pytest

from strogoff.sim.planted_bugs.cluster_bugs import CLUSTER_BUGS
from strogoff.sim.runner import RunOptions, run_seed
from strogoff.sim.simulation import ClusterSimulation

QUICK = ("view-without-boot", "guard-off", "drained-at-heal")
"""Run on every check; the others run with the slow tests."""
BUGS = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in CLUSTER_BUGS]


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found_by_its_checker(name: str) -> None:
    bug = CLUSTER_BUGS[name]
    seen: list[str] = []
    for seed in range(bug.seeds):
        violations = run_seed(seed, RunOptions(bug=name)).violations
        if any(text.startswith(bug.finds) for text in violations):
            return
        seen += violations
    pytest.fail(f"{name} was not found within {bug.seeds} seeds; found was {seen}")


@pytest.mark.parametrize("name", BUGS)
def test_without_the_bug_nothing_is_found(name: str) -> None:
    """The faults are the same: so the violations come from the bug, and not from the schedule."""
    innocent = CLUSTER_BUGS[name]
    seed = innocent.first
    simulation = ClusterSimulation(innocent.plan(seed, innocent.nodes, None, 20.0), script=innocent.begin)
    assert simulation.run().violations == ()


def test_first_seeds_are_within_the_bounds() -> None:
    assert [bug.name for bug in CLUSTER_BUGS.values() if not 0 <= bug.first < bug.seeds] == []
