"""The machines of a simulation, and their entries in the history."""

from __future__ import annotations

from dataclasses import replace

from strogoff.sim.cluster_plan import plan
from strogoff.sim.recording_disk import RecordingDisk
from strogoff.sim.workload.swarm import draw
from strogoff.sim.world import ClusterWorld, NodeWorld


def test_a_node_comes_back_with_the_content_of_its_disk() -> None:
    world = NodeWorld(replace(draw(3, "sync"), latency_s=(0.001, 0.001)))
    machine = world.machine
    world.start(machine)
    assert machine.node is not None
    machine.node.env.store.put(b"x", b"1")
    world.loop.run_for(0.1)
    machine.crash(power=True)
    assert machine.node is None
    world.start(machine)
    assert machine.messages.get(b"x") == b"1" and machine.boot == 2


def test_the_limits_of_the_plan_are_those_of_the_member() -> None:
    world = ClusterWorld(replace(plan(3, 3, kinds=()), log_dots=7, sync_ms=1000))
    machine = world.machines["n1"]
    bound: list[str] = []
    machine.on_member = lambda machine: bound.append(machine.name)
    world.start(machine)
    assert bound == ["n1"] and machine.member is not None
    assert machine.member.metadata.log_limit == 7 and machine.member.metadata.sync_interval_ms == 1000
    assert isinstance(machine.messages, RecordingDisk)
