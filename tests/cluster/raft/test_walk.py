"""Random walks find no error, and each planted bug is found within its number of seeds."""

from __future__ import annotations

import pytest

from strogoff.cluster.raft.core import Raft
from strogoff.cluster.raft.interface import Contradicted

from .planted_bugs import PLANTS
from .random_walk import Walk


def a_walk(seed: int, core: type[Raft] = Raft, eager: bool = False) -> Walk:
    """Three voters and two learners, five voters, or three voters whose configuration changes."""
    kind = seed % 3
    return Walk(seed, (3, 5, 3)[kind], (0, 0, 2)[kind], (2, 0, 0)[kind], core, eager)


@pytest.mark.parametrize("seed", range(60))
def test_a_random_walk_keeps_every_promise_of_raft(seed: int) -> None:
    a_walk(seed).walk(2500)


def test_walks_make_progress() -> None:
    walks = [a_walk(seed) for seed in range(12)]
    for walk in walks:
        walk.walk(2500)
    assert sum(len(walk.leader_of) for walk in walks) > 30
    assert sum(len(walk.index_of) for walk in walks) > 80


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    seeds, core, eager = PLANTS[name]
    for seed in seeds:
        try:
            a_walk(seed, core, eager).walk(2000)
        except (AssertionError, Contradicted):
            return
    pytest.fail(f"{name}: not found in {len(seeds)} walks")


def test_a_walk_replays() -> None:
    one, other = a_walk(7), a_walk(7)
    one.walk(1500)
    other.walk(1500)
    assert (one.chosen, one.leader_of, one.now_ms) == (other.chosen, other.leader_of, other.now_ms)
