"""Random walks under faults end in equal maps; every planted bug is found by one of `SEEDS`, or by one of `CALM_SEEDS`
of the calm ones.
"""

from __future__ import annotations

import pytest

from tests.harness.thinning import thinned

from .planted_bugs import CALM_PLANTS, PLANTS
from .random_walk import calm_walk, walk

SEEDS = range(66, 71)
CALM_SEEDS = range(30, 40)


@pytest.mark.parametrize("seed", thinned(range(30), 6))
def test_after_the_heal_all_maps_equal_the_model(seed: int) -> None:
    assert walk(seed) == []


@pytest.mark.parametrize("seed", thinned(range(100), 8))
def test_after_a_calm_walk_all_maps_equal_the_model(seed: int) -> None:
    assert calm_walk(seed) == []


@pytest.mark.parametrize("plant", sorted(PLANTS))
def test_planted_bugs_are_found(plant: str) -> None:
    assert any(_fails(seed, plant) for seed in SEEDS), f"{plant} not found in {SEEDS}"


@pytest.mark.parametrize("plant", sorted(CALM_PLANTS))
def test_planted_bugs_are_found_by_calm_walks(plant: str) -> None:
    found = any(calm_walk(seed, plant=CALM_PLANTS[plant]) != [] for seed in CALM_SEEDS)
    assert found, f"{plant} not found in {CALM_SEEDS}"


def _fails(seed: int, plant: str) -> bool:
    return walk(seed, plant=PLANTS[plant]) != []
