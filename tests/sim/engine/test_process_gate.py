"""Process gates: events for suspended or ended processes."""

from __future__ import annotations

from random import Random

from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.engine.process_gate import GatedEngine, ProcessGate


def test_events_during_a_suspension_are_delivered_afterwards_in_order() -> None:
    loop, got = VirtualLoop(), []
    gate = ProcessGate(loop.call_soon)
    gate.enter(lambda: got.append(0))
    gate.stop()
    for number in (1, 2, 3):
        gate.enter(lambda number=number: got.append(number))
    assert got == [0]
    gate.go_on()
    loop.settle()
    assert got == [0, 1, 2, 3]


def test_events_of_an_ended_process_reach_no_process() -> None:
    loop, got = VirtualLoop(), []
    gate = ProcessGate(loop.call_soon)
    first = gate.process
    gate.stop()
    gate.enter(lambda: got.append(1))
    gate.go_on()
    gate.forget()
    gate.enter_if(first, lambda: got.append(2))
    loop.settle()
    assert got == []


def test_a_disk_continues_while_its_process_is_suspended() -> None:
    loop = VirtualLoop()
    done: list[object] = []
    gate = ProcessGate(loop.call_soon)
    disk = SimDisk(Random(1), loop.call_later, lambda: loop.now_s)
    engine = GatedEngine(disk, gate)
    engine.write({b"k": b"v"}, done.append)
    gate.stop()
    loop.run_for(1)
    assert disk.get(b"k") == b"v" and done == []
    gate.go_on()
    loop.settle()
    assert done == [None]


def test_sockets_can_be_read_before_timers_run() -> None:
    for first, expected in ((False, [1, 2]), (True, [2, 1])):
        loop = VirtualLoop()
        got: list[int] = []
        gate = ProcessGate(loop.call_soon)
        gate.sockets_first = first
        gate.stop()
        gate.enter_timer(lambda got=got: got.append(1))
        gate.enter(lambda got=got: got.append(2))
        gate.go_on()
        loop.settle()
        assert got == expected
