"""Each bug planted into a cluster is found within its number of seeds, and by what looks for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strogoff.sim.fleet.fleet import Fleet
from strogoff.sim.fleet.plants import FLEET_PLANTS
from strogoff.sim.running import Order, run_seed

QUICK = ("view-without-boot", "guard-off", "drained-at-heal")
"""Looked for on every check; the others with the slow tests."""
PLANTS = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in FLEET_PLANTS]


@pytest.mark.parametrize("name", PLANTS)
def test_found_by_its_checker(name: str) -> None:
    plant = FLEET_PLANTS[name]
    seen: list[str] = []
    for seed in range(plant.seeds):
        violations = run_seed(seed, Order(plant=name)).violations
        if any(text.startswith(plant.finds) for text in violations):
            return
        seen += violations
    pytest.fail(f"{name} was not found within {plant.seeds} seeds; found was {seen}")


@pytest.mark.parametrize("name", PLANTS)
def test_without_the_bug_nothing_is_found(name: str) -> None:
    """Under the same faults: what is found is the plant, not the schedule."""
    innocent = replace(FLEET_PLANTS[name], apply=lambda _: None)
    seed = innocent.first
    fleet = Fleet(innocent.plan(seed, innocent.nodes, None, 20.0), plant=innocent)
    assert fleet.run().violations == ()


def test_first_seeds_are_within_the_bounds() -> None:
    assert [plant.name for plant in FLEET_PLANTS.values() if not 0 <= plant.first < plant.seeds] == []
