"""Faults of one node, and their end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strogoff.sim.faults.node_injector import FAILS
from strogoff.sim.simulation import NodeSimulation
from strogoff.sim.workload.swarm import FAULTS, draw
from strogoff.sim.world import NodeWorld


def run(kind: str, seed: int = 3) -> NodeWorld:
    swarm = replace(draw(seed, "sync", 10.0), faults=(kind,), fault_count=3)
    simulation = NodeSimulation(swarm, trace=True)
    assert simulation.run().violations == ()
    return simulation.world


@pytest.mark.parametrize("kind", [*FAULTS, FAILS])
def test_each_kind_happens_and_passes(kind: str) -> None:
    world = run(kind)
    words = {
        "kill": "kill", "power": "power loss", "restart": "restart", "stall": "disk stalls", "full": "disk full",
        "wall": "wall clock", "cut": "connections break", "slow_net": "the network is slow", FAILS: "a write fails",
    }  # fmt: skip
    assert any(each.kind.startswith(words[kind]) for each in world.history.faults)
    assert world.machine.wall_off_ms == 0.0 and not world.machine.messages.disk.full


def test_crashes_end_processes_and_start_others() -> None:
    world = run("kill")
    kills = sum(each.kind == "kill" for each in world.history.faults)
    assert len(world.history.life().starts) == world.machine.boot == kills + 2
    assert len(world.history.life().ends) == kills + 1


def test_a_node_whose_disk_has_failed_is_restarted() -> None:
    world = run(FAILS)
    assert FAILS not in FAULTS
    assert any("store.state {'state': 'failed'" in line for line in world.history.lines or ())
    assert len(world.history.life().starts) > 2  # the first, that of the operator, and that of the healing


def test_no_faults_at_all() -> None:
    simulation = NodeSimulation(replace(draw(3, "sync", 5.0), faults=()), trace=True)
    world = simulation.world
    assert simulation.run().violations == () and world.history.faults == []
