"""Planted parts of a cluster: each overrides a method that exists."""

from __future__ import annotations

import pytest

from strogoff.sim.planted_bugs import cluster_parts


@pytest.mark.parametrize("kind", [cluster_parts.ByArrival, cluster_parts.Credulous, cluster_parts.Forgetful])
def test_each_part_overrides_a_method_of_the_product(kind: type) -> None:
    names = {name for name, value in vars(kind).items() if callable(value) or isinstance(value, property)}
    assert names and all(hasattr(kind.__mro__[1], name) for name in names)


def test_nothing_is_parked() -> None:
    state = cluster_parts.Forgetful()
    state.deferred.append("a publish")
    assert not state.deferred
