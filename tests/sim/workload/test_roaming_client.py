"""A client of a cluster."""

from __future__ import annotations

from strogoff.sim.cluster_plan import ClusterPlan, plan
from strogoff.sim.cluster_world import ClusterWorld


def _moves(each: ClusterPlan) -> bool:
    return bool(each.roaming) and "breaks" in each.swarm.features and each.swarm.clients[-1].name in each.roaming


def test_those_without_a_session_go_elsewhere_and_the_others_stay() -> None:
    seed = next(seed for seed in range(100) if _moves(plan(seed, 3, kinds=())))
    world = ClusterWorld(plan(seed, 3, kinds=()))
    assert world.run().violations == ()
    places = {name: {each.node for each in known} for name, known in world.history.connections.items()}
    assert all(places[name] == {world.plan.homes[name]} for name in places if name not in world.plan.roaming)
    assert any(len(places[name]) > 1 for name in world.plan.roaming)
