"""Whole seeds, of one node and of several."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from strogoff.sim.runner import RunOptions, run_seed
from strogoff.sim.simulation import NodeSimulation
from strogoff.sim.workload.swarm import draw

from ..harness.thinning import thinned
from .clusters import joined, until


def test_a_seed_is_meaningful() -> None:
    """Dozens of messages, several clients and faults, on average."""
    outcomes = [NodeSimulation(draw(seed)).run() for seed in range(20)]
    assert all(outcome.violations == () and outcome.lines == () for outcome in outcomes)
    assert sum(outcome.messages for outcome in outcomes) > 20 * 30
    assert sum(outcome.deliveries for outcome in outcomes) > 20 * 60
    assert sum(outcome.faults for outcome in outcomes) > 20 * 2
    assert min(outcome.clients for outcome in outcomes) >= 3


def test_the_same_seed_does_the_same() -> None:
    first, second = (NodeSimulation(draw(5), trace=True).run() for _ in range(2))
    assert first == second and len(first.lines) > 100


def test_the_same_in_another_process_with_another_hash_seed() -> None:
    traces = [
        subprocess.run(
            [sys.executable, "-m", "strogoff", "sim", "--first", "5", "--trace", "--seconds", "8"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert traces[0] == traces[1] and traces[0].count("\n") > 100


@pytest.mark.slow
def test_after_power_loss_with_os_the_node_rests_and_breaks_nothing_else() -> None:
    """Nothing is promised after it, but the node becomes idle and no other promise is broken."""
    lost = 0
    for seed in range(30):
        swarm = replace(draw(seed, "os"), faults=("power",), fault_count=4)
        simulation = NodeSimulation(swarm)
        world = simulation.world
        assert simulation.run().violations == (), seed
        lost += world.history.power_lost
    assert lost > 20


def test_a_world_that_cannot_rest_is_a_violation() -> None:
    """A disk that stays full: no client gets an answer."""
    simulation = NodeSimulation(replace(draw(5, "sync", 3.0), faults=()))
    world = simulation.world
    simulation.injector.heal = lambda: None  # type: ignore[method-assign]
    world.loop.call_later(2.0, lambda: setattr(world.machine.messages.disk, "full", True))
    assert any(text.startswith("not at rest") for text in simulation.run().violations)


@pytest.mark.parametrize(
    "which",
    thinned([(3, 0), (2, 1), (3, 9), (3, 25), (3, 26), (3, 390), (3, 4691), (3, 10667), (3, 116710), (4, 2)], 3),
)
def test_seeds(which: tuple[int, int]) -> None:
    nodes, seed = which
    outcome = run_seed(seed, RunOptions(nodes=nodes))
    assert outcome.violations == () and outcome.messages > 0


def test_a_seed_replays_exactly_and_its_trace_has_all() -> None:
    first, second = (run_seed(2, RunOptions(nodes=3), trace=True) for _ in range(2))
    assert first.lines == second.lines
    text = "\n".join(first.lines)
    for part in ("FAULT", " leads, whole, view ", "--> PUBLISH", "conn.open"):
        assert part in text, part


def test_a_node_that_is_refused_without_a_reason_is_a_violation() -> None:
    """The others lost entries that the node had agreed to, and its own disk was never replaced."""
    simulation = joined()
    world = simulation.world
    machine = world.machines["n2"]
    assert machine.member is not None
    machine.member.registrar.broken("its log is of another history")
    simulation.operate(healed=True)
    assert list(simulation.monitor.problems) == ["refused: n2, which has its whole disk and was never taken out"]
    assert len(world.history.life("n2").emptied) == 1


def test_a_node_may_be_refused_after_an_unanswered_request_to_remove_it() -> None:
    """The process with the request has died; the others removed the node (3 nodes, seeds 200101 and 201299)."""
    simulation = joined()
    world = simulation.world
    second, third = world.machines["n2"], world.machines["n3"]
    simulation.injector._ask_out(third, second)
    world.crash(second, False)
    assert third.member is not None
    third.member.registrar.broken("it was taken out")
    simulation.operate()
    assert list(simulation.monitor.problems) == []
    assert len(world.history.life("n3").emptied) == 1


def test_a_refusal_is_wrong_if_every_removal_of_the_node_was_refused() -> None:
    simulation = joined(trace=True)
    world = simulation.world
    first, second, third = world.machines.values()
    until(world, lambda: len(first.voters()) == 3)
    world.crash(second, False)
    until(world, lambda: first.member is not None and first.member.view.row("n2") is None)
    simulation.injector._ask_out(third, first)
    until(world, lambda: any("n3 is taken out: n3 is needed" in line for line in world.history.lines or ()))
    assert third.member is not None
    third.member.registrar.broken("it was taken out")
    simulation.operate()
    assert list(simulation.monitor.problems) == ["refused: n3, which has its whole disk and was never taken out"]
