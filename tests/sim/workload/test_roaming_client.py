"""A client of a cluster."""

from __future__ import annotations

from strogoff.netsplit.policy import ViewState
from strogoff.sim.cluster_plan import ClusterPlan, plan
from strogoff.sim.simulation import ClusterSimulation

from ..clusters import joined


def _moves(each: ClusterPlan) -> bool:
    return bool(each.roaming) and "breaks" in each.swarm.features and each.swarm.clients[-1].name in each.roaming


def test_clients_without_a_session_change_their_node() -> None:
    seed = next(seed for seed in range(100) if _moves(plan(seed, 3, kinds=())))
    simulation = ClusterSimulation(plan(seed, 3, kinds=()))
    world = simulation.world
    assert simulation.run().violations == ()
    places = {name: {each.gateway for each in known} for name, known in world.history.connections.items()}
    assert all(places[name] == {world.plan.homes[name]} for name in places if name not in world.plan.roaming)
    assert any(len(places[name]) > 1 for name in world.plan.roaming)


def test_a_refusal_is_right_as_soon_as_the_node_has_lost_its_view() -> None:
    """The node refuses before the monitor checks it again (3 nodes, seed 229188)."""
    world = joined().world
    client = world.clients[0]
    assert not client._lacked_whole_view(world.loop.now_s)
    assert client.host.node is not None
    client.host.node.policy.view_state = ViewState.MINORITY
    assert client._lacked_whole_view(world.loop.now_s)
