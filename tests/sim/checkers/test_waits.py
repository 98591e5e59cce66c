"""The list of pending waits."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

import pytest

from strogoff.sim.checkers.waits import elsewhere, waiting
from strogoff.sim.simulation import ClusterSimulation
from strogoff.sim.variants import COPIES, vary
from strogoff.sim.world import ClusterWorld
from tests.sim.clusters import joined, quiet, until


def test_nothing_waits_at_rest_but_a_barrier_and_an_exchange_do() -> None:
    world = joined().world
    world.loop.run_for(1)
    machine = world.machines["n2"]
    assert machine.node is not None and machine.member is not None and machine.clustering is not None
    assert list(waiting(machine.node, machine.clustering, machine.member)) == []
    metadata = machine.member.metadata
    metadata.barrier(metadata.put(b"t\0\0x", b"1"), lambda _: None)
    metadata.exchange("n1", 0, lambda _: None)
    assert list(waiting(machine.node, machine.clustering, machine.member)) == ["1 barriers", "an exchange of metadata"]


@dataclass
class Mover:
    """Moves a slot to a node that has no copy of it. `arrived`: how the target got it, as a copy or by a move."""

    world: ClusterWorld
    arrived: set[str] = field(default_factory=set)
    results: list[str] = field(default_factory=list)

    def begin(self) -> None:
        first = self.world.machines["n1"]
        assert first.member is not None and first.clustering is not None
        table = first.member.slots
        row = table.row(table.slots_by_primary["n1"][0])
        self.slot, held = row.slot, {holder.node for holder in row.in_sync}
        self.target = next(machine for name, machine in self.world.machines.items() if name not in held)
        first.clustering.slots.moves.begin(row.slot, self.target.name, self.results.append)

    def look(self) -> bool:
        """Note how the rows arrive. True when the slot has moved."""
        node, clustering, member = self.target.node, self.target.clustering, self.target.member
        assert node is not None and clustering is not None and member is not None
        if self.slot in elsewhere(member):
            assert not [text for text in waiting(node, clustering, member) if "nobody decides" in text]
            parts: dict[str, Container[int]] = {
                "copy": clustering.slots.copies,
                "move": clustering.slots.moves.arrivals,
            }
            self.arrived.update([name for name, part in parts.items() if self.slot in part])
        return bool(self.results)


@pytest.mark.parametrize(("kinds", "arrives"), [((), "move"), ((COPIES,), "copy")])
def test_rows_of_a_slot_that_is_elsewhere_may_arrive(kinds: tuple[str, ...], arrives: str) -> None:
    simulation = ClusterSimulation(vary(quiet(), kinds))
    simulation.begin()
    simulation.world.loop.run_for(5)
    mover = Mover(simulation.world)
    mover.begin()
    until(simulation.world, mover.look, 0.001)
    assert mover.arrived == {arrives} and mover.results == [""]
