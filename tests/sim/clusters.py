"""Clusters that tests drive by hand: no faults, and nodes that have joined."""

from __future__ import annotations

from collections.abc import Callable

from strogoff.sim.cluster_plan import ClusterPlan, plan
from strogoff.sim.simulation import ClusterSimulation
from strogoff.sim.world import ClusterWorld

PATIENCE_S = 20.0


def quiet(seed: int = 3, nodes: int = 3) -> ClusterPlan:
    return plan(seed, nodes, kinds=())


def joined(seed: int = 3, nodes: int = 3, trace: bool = False) -> ClusterSimulation:
    """A simulation whose nodes are one cluster and see each other."""
    simulation = ClusterSimulation(quiet(seed, nodes), trace)
    world = simulation.world
    simulation.begin()
    until(world, lambda: all(machine.up and whole(world, name) for name, machine in world.machines.items()))
    return simulation


def whole(world: ClusterWorld, name: str) -> bool:
    node = world.machines[name].node
    member = world.machines[name].member
    return (
        node is not None
        and member is not None
        and node.policy.view_state.value == "whole"
        and len(member.view.rows) > 1
    )


def until(world: ClusterWorld, true: Callable[[], bool], step_s: float = 0.05) -> float:
    begin = world.loop.now_s
    while not true():
        assert world.loop.now_s - begin < PATIENCE_S, "the condition did not become true in time"
        world.loop.run_for(step_s)
    return world.loop.now_s - begin
