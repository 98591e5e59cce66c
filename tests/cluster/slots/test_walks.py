"""Random histories keep every rule of the slot table; each planted mistake breaks one within its number of seeds."""

from __future__ import annotations

import pytest

from strogoff.cluster.slots.update import TableUpdate

from ...harness.thinning import thinned
from .planted_bugs import PLANTS
from .random_walk import first_seed_that_fails, walk


@pytest.mark.slow
def test_random_histories_keep_every_rule() -> None:
    done = [walk(seed) for seed in range(12)]
    assert sum(each.accepted for each in done) > 1000 and sum(each.refused for each in done) > 1000
    assert sum(each.lost for each in done) > 100
    assert min(sum(numbers) for numbers in zip(*[each.happened for each in done], strict=True)) > 20


@pytest.mark.slow
@pytest.mark.parametrize("first", thinned(range(1000, 1200, 20), 5, pytest.mark.by_hand))
def test_more_random_histories_keep_every_rule(first: int) -> None:
    for seed in range(first, first + 20):
        walk(seed, steps=150)


@pytest.mark.parametrize("plant", thinned(PLANTS, 2))
def test_a_planted_mistake_is_found(plant: type[TableUpdate]) -> None:
    assert first_seed_that_fails(plant, PLANTS[plant]) is not None
