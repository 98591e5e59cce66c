"""A fleet that tests drive by hand: no clients, no faults, nodes that have joined."""

from __future__ import annotations

from collections.abc import Callable

from strogoff.sim.fleet.fleet import Fleet
from strogoff.sim.fleet.plan import Plan, plan

PATIENCE_S = 20.0


def quiet(seed: int = 3, nodes: int = 3) -> Plan:
    return plan(seed, nodes, kinds=())


def joined(seed: int = 3, nodes: int = 3, trace: bool = False) -> Fleet:
    """A fleet whose nodes are one cluster and see each other."""
    fleet = Fleet(quiet(seed, nodes), trace)
    fleet.begin()
    until(fleet, lambda: all(machine.up and whole(fleet, name) for name, machine in fleet.machines.items()))
    return fleet


def whole(fleet: Fleet, name: str) -> bool:
    node = fleet.machines[name].node
    member = fleet.machines[name].member
    return node is not None and member is not None and node.view_state.value == "whole" and len(member.view.rows) > 1


def until(fleet: Fleet, true: Callable[[], bool], step_s: float = 0.05) -> float:
    begin = fleet.loop.now_s
    while not true():
        assert fleet.loop.now_s - begin < PATIENCE_S, "it did not become so in time"
        fleet.loop.run_for(step_s)
    return fleet.loop.now_s - begin
