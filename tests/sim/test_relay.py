"""Worlds in which clients connect to any node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from strogoff.broker.gateway import credit, outflow
from strogoff.sim.cluster_plan import ClusterPlan, plan
from strogoff.sim.machines import ClusterMachine
from strogoff.sim.relay import server_of, small_credit
from strogoff.sim.runner import RunOptions, run_seed
from strogoff.sim.simulation import ClusterSimulation

from .clusters import quiet


def relayed(seed: int) -> ClusterPlan:
    return replace(plan(seed, 3), relay=True, late=())


def test_clients_are_relayed_to_the_node_of_their_slot() -> None:
    simulation = ClusterSimulation(replace(quiet(720000), relay=True))
    assert simulation.run().violations == ()
    lists = simulation.world.history.connections
    assert any(each.relayed and each.present is not None for connections in lists.values() for each in connections)
    for name, connections in lists.items():
        assert {each.node for each in connections} <= {server_of(simulation.world.plan.nodes, name)}


def test_the_small_credit_ends_with_the_world() -> None:
    before = credit.BASE_BYTES, outflow.__dict__["BASE_BYTES"], credit.MOST_BYTES
    bases = set()
    for seed in range(10):
        with small_credit(relayed(seed)):
            assert credit.BASE_BYTES == outflow.__dict__["BASE_BYTES"] == credit.MOST_BYTES // 4
            bases.add(credit.BASE_BYTES)
    assert len(bases) == 3
    assert (credit.BASE_BYTES, outflow.__dict__["BASE_BYTES"], credit.MOST_BYTES) == before


@pytest.mark.parametrize("seed", [720063, 720071])
def test_seeds_that_failed(seed: int) -> None:
    """A gateway asked the same node twice for one CONNECT: a session was present that the client did not know of, and
    the will of a client was published whose socket was open."""
    assert run_seed(seed, RunOptions(nodes=3, relay=True, variants=None)).violations == ()


def serves_itself(machine: ClusterMachine) -> None:
    """The gateway serves the clients of all slots."""
    machine.node.services.relay = lambda connection: False  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("bug", "found"),
    [
        (serves_itself, ("primary", "two owners")),
    ],
)
def test_a_bug_of_the_relay_is_found(bug: Callable[[ClusterMachine], None], found: tuple[str, ...]) -> None:
    seen: list[str] = []
    for seed in range(5):
        seen += ClusterSimulation(relayed(seed), apply_bug=bug).run().violations
        if any(text.startswith(found) for text in seen):
            return
    pytest.fail(f"found was {seen}")
