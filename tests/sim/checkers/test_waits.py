"""The list of pending waits."""

from __future__ import annotations

from strogoff.sim.checkers.waits import waiting
from tests.sim.clusters import joined


def test_nothing_waits_at_rest_but_a_barrier_and_an_exchange_do() -> None:
    world = joined().world
    world.loop.run_for(1)
    machine = world.machines["n2"]
    assert machine.member is not None and machine.clustering is not None
    assert list(waiting(machine.clustering, machine.member)) == []
    metadata = machine.member.metadata
    metadata.barrier(metadata.put(b"t\0\0x", b"1"), lambda _: None)
    metadata.exchange("n1", 0, lambda _: None)
    assert list(waiting(machine.clustering, machine.member)) == ["1 barriers", "an exchange of metadata"]
