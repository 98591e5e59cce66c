"""All checkers on one world."""

from __future__ import annotations

from pathlib import Path

import strogoff.sim.checkers
from strogoff.sim import cluster_verdict
from strogoff.sim.judge import CHECKERS, judge, make_case
from strogoff.sim.workload.swarm import draw
from strogoff.sim.world import World

from .histories import HistoryBuilder


def test_every_checker_is_asked() -> None:
    modules = {path.stem for path in Path(strogoff.sim.checkers.__file__).parent.glob("*.py")} - {"__init__", "case"}
    asked = {check.__module__.rpartition(".")[2] for check in CHECKERS}
    world = {
        name
        for name, value in vars(cluster_verdict).items()
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
    world = World(draw(1, "sync", 3.0))
    world.run()
    assert world.host.node is not None
    case = make_case(world.history, world.swarm, world.clients, world.host.node, world.recorder.disk.content())
    assert case.kept and case.pending == [] and case.end_s == world.loop.now_s
    assert set(case.sessions) == {client.name for client in world.clients if not client.gone}
    orphan = {b"q" + bytes(20): b"\x98\x00\x01\x01\xc2\x90\xc0\xc4\x00\xa0"}
    case = make_case(world.history, world.swarm, world.clients, world.host.node, orphan)
    assert "without a session" in case.pending[0]
