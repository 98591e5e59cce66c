"""A machine: clocks, suspensions, lost disks and old copies of disks."""

from __future__ import annotations

from functools import partial

import pytest

from ..clusters import joined, until, whole


def test_a_frozen_machine_has_lost_time_and_a_stopped_process_has_not() -> None:
    world = joined().world
    frozen, paused = world.machines["n2"], world.machines["n3"]
    before = frozen.mono_s(), paused.mono_s(), frozen._wall_ms()
    frozen.suspend(True)
    paused.suspend(False)
    world.loop.run_for(3)
    assert frozen.mono_s() == before[0] and paused.mono_s() == pytest.approx(before[1] + 3 * paused.rate)
    assert frozen._wall_ms() == pytest.approx(before[2] + 3000)
    frozen.resume()
    paused.resume()
    until(world, lambda: all(whole(world, name) for name in world.machines))
    assert frozen.member is not None and frozen.member.view.id > 3


def test_timers_follow_the_clock_of_the_machine() -> None:
    world = joined().world
    machine = world.machines["n2"]
    due: list[float] = []
    begin = world.loop.now_s
    machine.later(1.0, lambda: due.append(world.loop.now_s - begin))
    gone = machine.later(1.0, lambda: due.append(0.0))
    gone.cancel()
    machine.suspend(True)
    world.loop.run_for(2)
    machine.resume()
    world.loop.run_for(2)
    assert due == [pytest.approx(2 + 1 / machine.rate, abs=0.01)]


def test_a_node_without_its_disk_joins_again_with_another() -> None:
    simulation = joined()
    world = simulation.world
    machine = world.machines["n3"]
    simulation.injector.empty(machine)
    assert machine.boot == 0 and not machine.joined
    simulation.injector.start(machine)
    until(world, lambda: machine.joined and whole(world, "n3"))
    assert machine.boot > 1 and machine.disk_id == "n3-disk1"


def test_a_node_with_an_old_copy_of_its_disk_is_refused() -> None:
    world = joined().world
    machine = world.machines["n3"]
    assert not machine.restore_backup()
    machine.keep_backup()
    world.crash(machine, False)
    world.start(machine)
    until(world, lambda: whole(world, "n3"))
    world.crash(machine, True)
    machine.restore_backup()
    world.start(machine)
    member = machine.member
    assert member is not None
    until(world, lambda: bool(member.registrar.problem))
    assert "old copy" in member.registrar.problem or "not above" in member.registrar.problem
    assert not world.machines["n1"].member.registrar.problem  # type: ignore[union-attr]


def test_a_loss_of_power_gives_another_boot_and_a_kill_does_not() -> None:
    world = joined().world
    machine = world.machines["n2"]
    machine.durability = "os"
    found = []
    for power in (False, False, True, False, True):
        world.crash(machine, power)
        world.start(machine)
        assert machine.member is not None
        found.append(machine.member.me.incomplete == machine.boot)
    assert found == [False, False, True, False, True]


def test_a_process_that_stops_in_order_leaves_nothing_unsynced() -> None:
    world = joined().world
    machine = world.machines["n2"]
    machine.durability = "os"
    for _ in range(2):
        stopped: list[float] = []
        machine.stop(partial(stopped.append, world.loop.now_s))
        until(world, partial(bool, stopped))
        machine.stopped()
        machine.new_boot()
        world.start(machine)
        assert machine.member is not None and machine.member.me.incomplete == 0
