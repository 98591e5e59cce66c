"""Each bug planted into a cluster is found within its number of seeds, and by what looks for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strogoff.sim.fleet.fleet import Fleet
from strogoff.sim.fleet.plants import FLEET_PLANTS
from strogoff.sim.running import Order, run_seed

KINDS = {
    "acknowledged-before-applied": ("lost", "early ack", "retained"),
    "ping-from-a-side": ("unanswered",),
    "one-shared-window": ("unanswered", "not at rest"),
}
"""Plant -> what must be among the violations, for those that have one plain symptom."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if plant.seeds > 5 else []) for name, plant in FLEET_PLANTS.items()],
)
def test_found(name: str) -> None:
    for seed in range(FLEET_PLANTS[name].seeds):
        violations = run_seed(seed, Order(plant=name)).violations
        if violations:
            kinds = {text.split(":")[0] for text in violations}
            assert not KINDS.get(name) or kinds & set(KINDS[name]), violations
            return
    pytest.fail(f"{name} was not found within {FLEET_PLANTS[name].seeds} seeds")


def test_without_the_bug_nothing_is_found() -> None:
    """Under the same faults: what is found is the plant, not the schedule."""
    for plant in FLEET_PLANTS.values():
        innocent = replace(plant, apply=lambda _: None)
        fleet = Fleet(innocent.plan(0, innocent.nodes, None, 20.0), plant=innocent)
        assert fleet.run().violations == (), plant.name
