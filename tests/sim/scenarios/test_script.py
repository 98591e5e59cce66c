"""Clients of a script at their nodes, and actions at their times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strogoff.sim.cluster_plan import plan
from strogoff.sim.faults.schedule import FaultSchedule
from strogoff.sim.runner import RunOptions, run_seed
from strogoff.sim.scenarios.catalogue import SCENARIOS
from strogoff.sim.scenarios.scenario import Scenario
from strogoff.sim.scenarios.script import (
    TOPIC,
    at_suback,
    client,
    leaves_topic,
    moves,
    publishes,
    reader,
    wants_topic,
    with_script,
    writer,
)
from strogoff.sim.simulation import ClusterSimulation


def test_only_the_clients_of_the_script_exist() -> None:
    found = with_script(plan(1, 3), {"n2": reader(), "n3.first": writer(), "n3.second": writer("w1")}, "off")
    assert found.homes == {"watch": "n1", "c0": "n2", "w0": "n3", "w1": "n3"}
    assert [client.name for client in found.swarm.clients] == ["watch", "c0", "w0", "w1"]
    assert found.swarm.options.allow_publish_during_netsplit == "off"
    assert not found.roaming and not found.late


def test_the_script_is_followed() -> None:
    acts = (
        leaves_topic(1.5), publishes(2.0), wants_topic(2.5), publishes(3.5), moves(4.0, "n2"), publishes(5.0),
    )  # fmt: skip
    clients = {"n1": reader(), "n3": client("w0", topics=(TOPIC,), clean=True)}
    scenario = Scenario("none", "no faults", kinds=(), clients=clients, acts=acts)
    simulation = ClusterSimulation(scenario.plan(3, 3, "sync", 7.0), script=scenario.begin)
    world = simulation.world
    assert world.plan.schedule == FaultSchedule()
    assert simulation.run().violations == ()
    assert [each.key for each in world.history.deliveries if each.client == "c0"] == ["w0-2", "w0-3"]
    assert [each.node for each in world.history.attempts.values()] == ["n3", "n3", "n2"]


@pytest.mark.slow
def test_a_disk_rots_and_only_the_comparison_repairs_it() -> None:
    scenario = SCENARIOS["rotten-copies"]
    outcome = run_seed(1, RunOptions(nodes=3, scenario="rotten-copies"), trace=True)
    assert outcome.violations == ()
    rotten = {line.split(" of slot ")[1] for line in outcome.lines if "has wrong rows" in line}
    repaired = [line for line in outcome.lines if "slot.repair" in line]
    assert len(rotten) >= 3 and len(repaired) >= len(rotten)
    never = replace(scenario, options={**(scenario.options or {}), "queue_check_interval_s": 0})
    found = ClusterSimulation(never.plan(1, 3, None, 20.0), script=never.begin).run()
    assert any("copies of slot" in text for text in found.violations)


def test_options_of_a_scenario_replace_those_of_the_seed() -> None:
    plan = Scenario("none", "no faults", kinds=(), options={"queue_replicas": 2}).plan(1, 3, None, 5.0)
    assert plan.swarm.options.queue_replicas == 2


def test_at_suback_acts_once() -> None:
    plan = SCENARIOS["known-by-two"].plan(1, 3, "sync", 5.0)
    simulation = ClusterSimulation(plan)
    world = simulation.world
    simulation.begin()
    happened: list[float] = []
    _, listen = at_suback(0.0, "c0", lambda simulation: happened.append(simulation.world.loop.now_s))
    listen(simulation)
    world.loop.run_for(2.0)
    reader = next(each for each in world.clients if each.name == "c0")
    assert len(happened) == 1 and reader.on_granted is None
    reader.unsubscribe("t/0")
    reader.subscribe(["t/0"])
    world.loop.run_for(1.0)
    assert len(happened) == 1
