"""The verdict on a world at its end."""

from __future__ import annotations

from pathlib import Path

import strogoff.sim.checkers
from strogoff.sim import invariants, verdict
from strogoff.sim.simulation import NodeSimulation
from strogoff.sim.verdict import CHECKERS, cluster_rests, judge, make_case, of_cluster
from strogoff.sim.workload.swarm import draw

from .clusters import joined, until, whole
from .histories import HistoryBuilder


def test_every_checker_is_asked() -> None:
    modules = {path.stem for path in Path(strogoff.sim.checkers.__file__).parent.glob("*.py")} - {"__init__", "case"}
    asked = {check.__module__.rpartition(".")[2] for check in CHECKERS}
    world = {
        name
        for name, value in {**vars(verdict), **vars(invariants)}.items()
        if getattr(value, "__package__", "") == "strogoff.sim.checkers"
    }
    assert asked | world == modules


def test_violations_of_several_promises() -> None:
    builder = HistoryBuilder()
    builder.connect("s", present=False)
    builder.subscribe("s", "t/#")
    builder.publish("w-1", mark=1)
    builder.history.problem("the sky falls")
    kinds = [text.split(":")[0] for text in judge(builder.case())]
    assert kinds == ["wrong", "lost", "early ack"]


def test_a_case_from_a_world() -> None:
    simulation = NodeSimulation(draw(1, "sync", 3.0))
    world = simulation.world
    simulation.run()
    assert world.machine.node is not None
    case = make_case(
        world.history, world.swarm, world.clients, world.machine.node, world.machine.messages.disk.content()
    )
    assert case.kept and case.pending == [] and case.end_s == world.loop.now_s
    assert set(case.sessions) == {client.name for client in world.clients if not client.gone}
    orphan = {b"q" + bytes(20): b"\x98\x00\x01\x01\xc2\x90\xc0\xc4\x00\xa0"}
    case = make_case(world.history, world.swarm, world.clients, world.machine.node, orphan)
    assert "without a session" in case.pending[0]


def test_a_cluster_at_rest_and_one_that_is_not() -> None:
    world = joined().world
    for client in world.clients:
        client.gone = True
    world.loop.run_for(1)
    assert cluster_rests(world) and list(of_cluster(world)) == []
    world.network.cut("n1", "n2")
    world.network.cut("n1", "n3")
    world.loop.run_for(4)
    assert not cluster_rests(world)
    assert any("n1 is minority" in text for text in of_cluster(world))


def test_the_world_rests_only_when_all_nodes_have_joined() -> None:
    """3 nodes, seed 2797: a node alone has a complete view, but lacks the metadata of the others."""
    simulation = joined()
    world = simulation.world
    for client in world.clients:
        client.gone = True
    simulation.injector.empty(world.machines["n3"])
    simulation.injector.start(world.machines["n3"])
    assert any("n3 has not joined" in text for text in of_cluster(world))
    until(world, lambda: cluster_rests(world))
    assert whole(world, "n3") and list(of_cluster(world)) == []
