"""A client of a cluster."""

from __future__ import annotations

from strogoff.sim.fleet.fleet import Fleet
from strogoff.sim.fleet.plan import Plan, plan


def _moves(each: Plan) -> bool:
    return bool(each.roaming) and "breaks" in each.swarm.features and each.swarm.clients[-1].name in each.roaming


def test_those_without_a_session_go_elsewhere_and_the_others_stay() -> None:
    seed = next(seed for seed in range(100) if _moves(plan(seed, 3, kinds=())))
    fleet = Fleet(plan(seed, 3, kinds=()))
    assert fleet.run().violations == ()
    places = {name: {each.node for each in known} for name, known in fleet.history.connections.items()}
    assert all(places[name] == {fleet.plan.homes[name]} for name in places if name not in fleet.plan.roaming)
    assert any(len(places[name]) > 1 for name in fleet.plan.roaming)
