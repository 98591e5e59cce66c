"""Walks under overlapping faults keep the promises; each planted mistake breaks one within its number of seeds."""

from __future__ import annotations

import pytest

from ...harness.membership import Parts
from ...harness.membership_bugs import PLANTS
from ...harness.membership_walks import first_seed_that_fails, walk
from ...harness.thinning import thinned


@pytest.mark.parametrize("seed", thinned(range(12), 3))
def test_a_random_walk_keeps_every_promise_about_leases(seed: int) -> None:
    walk(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", thinned(range(1000, 1200, 20), 5, pytest.mark.by_hand))
def test_more_random_walks_keep_every_promise_about_leases(first: int) -> None:
    for seed in range(first, first + 20):
        walk(seed)


@pytest.mark.parametrize("plant", thinned(PLANTS, 3))
def test_a_planted_mistake_is_found(plant: type[Parts]) -> None:
    assert first_seed_that_fails(plant, PLANTS[plant]) is not None
