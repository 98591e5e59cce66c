"""Faults that random seeds do not draw."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random

import pytest

from strogoff.sim.cluster_plan import ALL, plan
from strogoff.sim.engine.machine import Machine
from strogoff.sim.faults import kinds, rare
from strogoff.sim.faults.schedule import Step
from strogoff.sim.world import ClusterWorld

from ..clusters import joined, until, whole


def all_whole(world: ClusterWorld) -> bool:
    return all(whole(world, name) for name in world.machines)


def test_rare_kinds_are_not_in_seeds_of_all_kinds() -> None:
    for seed in range(50):
        assert plan(seed, 3, kinds=(ALL,)) == plan(seed, 3)
        words = {str(step.fault).split()[0] for step in plan(seed, 3).schedule.steps}
        assert not words & set(rare.RARE)


def test_every_rare_kind_occurs_on_request() -> None:
    plans = [plan(seed, 3, kinds=(ALL, *rare.RARE)) for seed in range(60)]
    words = {str(step.fault).split()[0] for each in plans for step in each.schedule.steps}
    assert words > set(rare.RARE) and {"kill", "cut"} <= words


def test_a_node_with_trouble_of_the_log_is_made_to_write_it() -> None:
    for seed in range(20):
        steps = plan(seed, 3, kinds=("raft_full",)).schedule.steps
        shaken = [step for step in steps if step.fault.word in ("fast_restart", "pause")]
        assert len(shaken) == len(steps) - len(shaken) > 0


WRONG: dict[str, Callable[[Machine], bool]] = {
    "raft_full": lambda machine: (machine.meta.full, machine.messages.disk.full) == (True, False),
    "raft_stall": lambda machine: (machine.meta.stall_until, machine.messages.disk.stall_until) == (inf, 0.0),
    "volume_full": lambda machine: machine.meta.full and machine.messages.disk.full,
    "volume_stall": lambda machine: machine.meta.stall_until == machine.messages.disk.stall_until == inf,
    "volume_slow": lambda machine: machine.meta.latency_s == machine.messages.disk.latency_s == rare.SLOW_S,
    "disk_busy": lambda machine: (
        (machine.meta.latency_s, machine.messages.disk.latency_s) == (machine.latency_s, rare.BUSY_S)
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_trouble_begins_and_ends(kind: str) -> None:
    simulation = joined()
    world = simulation.world
    machine = world.machines["n2"]
    fault = rare.DiskTrouble(kind, "n2")
    assert (str(fault), fault.nodes, fault.fails) == (f"{kind} n2", ("n2",), False)
    simulation.injector.inject(Step(0, fault))
    assert WRONG[kind](machine)
    assert machine.disk_is_slow(world.loop.now_s) is not kind.startswith("raft")
    assert machine.log_is_slow(world.loop.now_s) is kind.startswith(("raft", "volume"))
    world.loop.run_for(4.0)
    simulation.injector._end(fault)
    assert not WRONG[kind](machine) and not machine.disk_is_slow(world.loop.now_s)
    assert not machine.log_is_slow(world.loop.now_s)
    until(world, lambda: all_whole(world))


def test_a_slow_disk_delays_only_its_node() -> None:
    simulation = joined()
    world = simulation.world
    simulation.injector.inject(Step(0, rare.DiskTrouble("volume_slow", "n3")))
    world.loop.run_for(10.0)
    assert world.machines["n1"].member.leased() and world.machines["n2"].member.leased()  # type: ignore[union-attr]
    simulation.injector.heal()
    until(world, lambda: all_whole(world))


@pytest.mark.parametrize("kind", ["write_fails", "raft_write_fails"])
def test_an_operator_starts_a_node_again_whose_write_has_failed(kind: str) -> None:
    simulation = joined()
    world = simulation.world
    machine = world.machines["n2"]
    life = machine.life
    simulation.injector.inject(Step(0, rare.DiskTrouble(kind, "n2")))
    machine.meta_store.put(b"nothing", b"")
    until(world, lambda: machine.failed)
    assert machine.node is not None
    store = machine.node.env.store if kind == "write_fails" else machine.meta_store
    assert store.state == "failed"
    until(world, lambda: machine.life > life and all_whole(world))


def test_a_failed_node_is_restarted_at_the_healing() -> None:
    simulation = joined()
    world = simulation.world
    machine = world.machines["n2"]
    machine.meta.failing = True
    machine.meta_store.put(b"nothing", b"")
    until(world, lambda: machine.failed)
    simulation.injector.heal()
    simulation.operate(healed=True)
    until(world, lambda: not machine.failed and all_whole(world))


def test_sockets_are_read_before_timers_run() -> None:
    simulation = joined()
    world = simulation.world
    machine, got = world.machines["n2"], list[str]()
    simulation.injector.inject(Step(0, rare.SocketsFirst("n2", 1.0)))
    assert machine.gate.sockets_first and machine.gate.shut
    machine.later(0.1, lambda: got.append("timer"))
    world.loop.run_for(0.5)
    machine.gate.enter(lambda: got.append("socket"))
    world.loop.run_for(1.0)
    assert got == ["socket", "timer"]


def test_a_clock_that_is_set_stays_so() -> None:
    simulation = joined()
    world = simulation.world
    machine: Machine = world.machines["n2"]
    simulation.injector.inject(Step(0, rare.ClockSet("n2", 5000)))
    world.loop.run_for(10.0)
    assert machine.wall_off_ms == 5000
    simulation.injector.heal()
    assert machine.wall_off_ms == 0


def test_a_node_that_departs_gives_its_sessions_away_and_joins_again() -> None:
    simulation = joined()
    world = simulation.world
    machine = world.machines["n2"]
    disk = machine.disk_id
    simulation.injector.inject(Step(world.loop.now_s, rare.Depart("n2"), None))
    world.loop.settle()
    assert machine.connect(Random(1)) is None
    until(world, lambda: machine.disk_id != disk)
    until(world, lambda: machine.joined and all_whole(world))
    assert machine.connect(Random(1)) is not None


def test_a_node_whose_leave_is_refused_takes_clients_after_the_faults() -> None:
    """n3 is cut off when n2 has closed its ports, and two of three members are needed for a majority."""
    simulation = joined()
    world = simulation.world
    machine, disk = world.machines["n2"], world.machines["n2"].disk_id
    simulation.injector.inject(Step(world.loop.now_s, rare.Depart("n2"), None))
    world.loop.settle()
    simulation.injector.inject(Step(world.loop.now_s, kinds.Cut((("n1", "n2"), ("n3",))), 100.0))
    world.loop.run_for(10.0)
    assert machine.disk_id == disk and machine.connect(Random(1)) is None
    simulation.injector.heal()
    until(world, lambda: all_whole(world))
    world.loop.run_for(10.0)
    assert machine.connect(Random(1)) is not None and machine.disk_id == disk
