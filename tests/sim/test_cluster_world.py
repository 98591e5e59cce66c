"""Whole seeds of a cluster."""

from __future__ import annotations

from functools import partial
from math import inf

import pytest

from strogoff.sim.runner import RunOptions, run_seed

from .clusters import joined, until


@pytest.mark.parametrize(
    ("nodes", "seed"), [(2, 1), (3, 0), (3, 9), (3, 25), (3, 26), (3, 390), (3, 4691), (3, 10667), (3, 116710), (4, 2)]
)
def test_seeds(nodes: int, seed: int) -> None:
    outcome = run_seed(seed, RunOptions(nodes=nodes))
    assert outcome.violations == () and outcome.messages > 0


def test_a_seed_replays_exactly_and_its_trace_has_all() -> None:
    first, second = (run_seed(2, RunOptions(nodes=3), trace=True) for _ in range(2))
    assert first.lines == second.lines
    text = "\n".join(first.lines)
    for part in ("FAULT", " leads, whole, view ", "--> PUBLISH", "conn.open"):
        assert part in text, part


def test_with_a_disk_goes_what_its_clients_remember_of_qos_2_ids() -> None:
    """Nobody releases them any more; the CONNACK that says so may be lost (3 nodes, seed 110977)."""
    world = joined()
    mine, other = world.clients[:2]
    mine.host, other.host = world.machines["n3"], world.machines["n1"]
    for client in (mine, other):
        client.receiver.held[7] = "w-1"
    machine = world.machines["n3"]
    world.crash(machine, True)
    world.lose_disk(machine)
    assert (mine.receiver.held, other.receiver.held) == ({}, {7: "w-1"})


def test_a_stop_that_cannot_write_is_a_kill() -> None:
    """For those who judge what may be undone (3 nodes, seed 112226)."""
    world = joined()
    first, last = world.machines["n1"], world.machines["n3"]
    last.recorder.disk.stall_until = inf
    for machine in (first, last):
        assert machine.node is not None
        machine.node.store.put(b"x", b"1")
        machine.stop(partial(world.stopped, machine))
    until(world, lambda: all(world.history.life(name).ends for name in ("n1", "n3")))
    assert [(each.kind, each.node) for each in world.history.faults if each.kind == "kill"] == [("kill", "n3")]


def test_a_stop_closes_both_stores_in_one_turn() -> None:
    """As the process does: what one disk says then reaches nobody (5 nodes, seed 113602)."""
    world = joined()
    machine = world.machines["n3"]
    assert machine.node is not None
    machine.meta_store.put(b"x", b"1")
    machine.meta.stall_until = world.loop.now_s + 0.1
    world.loop.run_for(0.01)
    machine.meta_store.put(b"x", b"2")
    machine.node.store.put(b"x", b"1")
    machine.stop(partial(world.stopped, machine))
    world.loop.settle()
    machine.stand_still(False)
    world.loop.run_for(0.2)
    machine.wake_up()
    until(world, lambda: bool(world.history.life("n3").ends))


def test_a_node_that_is_refused_without_a_reason_is_a_violation() -> None:
    """What it has agreed to is gone from the disks of the others: its own disk was never replaced."""
    world = joined()
    machine = world.machines["n2"]
    assert machine.member is not None
    machine.member.registrar.broken("its log is of another history")
    world._put_right()
    assert list(world.monitor.seen.problems) == ["refused: n2, which has its whole disk and was never taken out"]
    assert len(world.history.life("n2").emptied) == 1


def test_a_node_whose_departure_was_asked_for_without_an_answer_may_be_refused() -> None:
    """The process that was asked has died; the others took the node out (3 nodes, seeds 200101 and 201299)."""
    world = joined()
    second, third = world.machines["n2"], world.machines["n3"]
    world.injector._ask_out(third, second)
    world.crash(second, False)
    assert third.member is not None
    third.member.registrar.broken("it was taken out")
    world._put_right(False)
    assert list(world.monitor.seen.problems) == []
    assert len(world.history.life("n3").emptied) == 1


def test_a_node_is_refused_without_a_reason_if_all_who_asked_for_its_departure_were_told_no() -> None:
    world = joined(trace=True)
    first, second, third = world.machines.values()
    until(world, lambda: len(first.voters()) == 3)
    world.crash(second, False)
    until(world, lambda: first.member is not None and first.member.view.row("n2") is None)
    world.injector._ask_out(third, first)
    until(world, lambda: any("n3 is taken out: n3 is needed" in line for line in world.history.lines or ()))
    assert third.member is not None
    third.member.registrar.broken("it was taken out")
    world._put_right(False)
    assert list(world.monitor.seen.problems) == ["refused: n3, which has its whole disk and was never taken out"]
