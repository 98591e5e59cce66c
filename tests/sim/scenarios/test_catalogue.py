"""Scripts of faults and clients: what they do, and that a broker without a bug keeps its promises on them."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.forward_sender import ForwardSender, OutstandingForward
from strogoff.sim.cluster_world import ClusterWorld
from strogoff.sim.planted_bugs.cluster_bugs import CLUSTER_BUGS
from strogoff.sim.runner import RunOptions, run_seed
from strogoff.sim.scenarios.catalogue import SCENARIOS, at_suback

OWN = sorted(set(SCENARIOS) - set(CLUSTER_BUGS))


@pytest.mark.parametrize("name", OWN)
def test_without_a_bug_there_is_no_violation(name: str) -> None:
    outcome = run_seed(0, RunOptions(nodes=3, scenario=name))
    assert outcome.violations == () and outcome.clients >= 3


def test_a_plant_has_a_stage_without_its_bug() -> None:
    assert set(CLUSTER_BUGS) < set(SCENARIOS)
    assert run_seed(0, RunOptions(nodes=3, bug="guard-off")).violations
    assert run_seed(0, RunOptions(nodes=3, scenario="guard-off")).violations == ()


def test_a_copy_that_is_dropped_while_its_node_is_away_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    away = ForwardSender.away

    def forgetful(self: ForwardSender, name: str) -> bool:
        for copy in self._under_way.get(name, ()):
            assert isinstance(copy, OutstandingForward)
            copy.durable = False
        return away(self, name)

    monkeypatch.setattr(ForwardSender, "away", forgetful)
    assert any(text.startswith("lost: ") for text in run_seed(0, RunOptions(nodes=3, scenario="away")).violations)


def test_a_suback_sets_off_what_waits_for_it_once() -> None:
    plan = SCENARIOS["known-by-two"].plan(1, 3, "sync", 5.0)
    world = ClusterWorld(plan)
    world.begin()
    happened: list[float] = []
    _, listen = at_suback(0.0, "c0", lambda world: happened.append(world.loop.now_s))
    listen(world)
    world.loop.run_for(2.0)
    reader = next(each for each in world.clients if each.name == "c0")
    assert len(happened) == 1 and reader.on_granted is None
    reader.unsubscribe("t/0")
    reader.subscribe(["t/0"])
    world.loop.run_for(1.0)
    assert len(happened) == 1
