"""A scenario, and the plan that it makes of a seed."""

from __future__ import annotations

from strogoff.sim.cluster_plan import plan
from strogoff.sim.scenarios.scenario import Scenario
from strogoff.sim.scenarios.script import reader, writer
from strogoff.sim.simulation import ClusterSimulation


def test_a_schedule_stands_for_the_faults_that_the_seed_draws() -> None:
    found = Scenario("x", "a cut", "at 2s cut n1 | n2 n3 for 1s").plan(1, 3, "sync", 5.0)
    assert str(found.schedule) == "at 2s cut n1 | n2 n3 for 1s" and found.stops == ()
    assert found.swarm.clients == plan(1, 3, "sync", 5.0).swarm.clients


def test_without_a_schedule_the_seed_draws_faults_of_its_kinds() -> None:
    found = Scenario("x", "kills", kinds=("kill",)).plan(1, 3, "sync", 5.0)
    assert found == plan(1, 3, "sync", 5.0, ("kill",))


def test_its_clients_have_its_policy() -> None:
    found = Scenario("x", "no faults", clients={"n1": reader(), "n2": writer()}, policy="off").plan(1, 3, "sync", 5.0)
    assert found.homes == {"watch": "n1", "c0": "n1", "w0": "n2"}
    assert found.swarm.options.allow_publish_during_netsplit == "off"


def test_sockets_first_holds_for_each_machine() -> None:
    scenario = Scenario("x", "no faults", kinds=(), sockets_first=True)
    simulation = ClusterSimulation(scenario.plan(1, 3, "sync", 5.0), script=scenario.begin)
    simulation.begin_faults()
    assert all(machine.gate.sockets_first for machine in simulation.world.machines.values())
