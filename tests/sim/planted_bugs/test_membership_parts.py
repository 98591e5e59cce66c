"""Planted parts of views and Raft: each overrides a method that exists."""

from __future__ import annotations

import pytest

from strogoff.sim.planted_bugs import membership_parts

KINDS = [
    membership_parts.FormerSelf,
    membership_parts.HearsEverybody,
    membership_parts.Hasty,
    membership_parts.TrustsWallClock,
    membership_parts.CountsLearners,
]


@pytest.mark.parametrize("kind", KINDS)
def test_each_part_overrides_a_method_of_the_product(kind: type) -> None:
    names = {name for name, value in vars(kind).items() if callable(value) and name != "_counted"}
    assert names and all(hasattr(kind.__mro__[1], name) for name in names)
