"""What is demanded at the end."""

from __future__ import annotations

from strogoff.sim.fleet.verdict import rests, verdict

from .floor import joined


def test_a_fleet_at_rest_and_one_that_is_not() -> None:
    fleet = joined()
    for client in fleet.clients:
        client.gone = True
    fleet.loop.run_for(1)
    assert rests(fleet) and list(verdict(fleet)) == []
    fleet.roads.cut("n1", "n2")
    fleet.roads.cut("n1", "n3")
    fleet.loop.run_for(4)
    assert not rests(fleet)
    assert any("n1 is minority" in text for text in verdict(fleet))
