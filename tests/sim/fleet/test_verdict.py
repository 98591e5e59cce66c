"""What is demanded at the end."""

from __future__ import annotations

from dataclasses import replace

from strogoff.netsplit.scenarios import Scenario
from strogoff.sim.checkers.unanswered import PATIENCE_S
from strogoff.sim.fleet.fleet import Fleet
from strogoff.sim.fleet.overseer import Lease
from strogoff.sim.fleet.stage import reader, staged, writer
from strogoff.sim.fleet.verdict import Sides, rests, verdict

from .floor import joined, quiet, until, whole


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


def test_who_has_not_joined_yet_is_waited_for() -> None:
    """3 nodes, seed 2797: alone it sees all there is, and has none of the metadata."""
    fleet = joined()
    for client in fleet.clients:
        client.gone = True
    fleet.injector.empty(fleet.machines["n3"])
    fleet.injector.start(fleet.machines["n3"])
    assert any("n3 has not joined" in text for text in verdict(fleet))
    until(fleet, lambda: rests(fleet))
    assert whole(fleet, "n3") and list(verdict(fleet)) == []


def test_what_comes_through_between_two_cuts_counts_although_nobody_looked_then() -> None:
    """5 nodes, seed 30937: a lease that was asked for in the first cut."""
    fleet = joined()
    sides, held = Sides(), [Lease("n3", 1, 1, (), 1, 1, "", "")]

    def looked(seconds: float) -> list[str]:
        fleet.loop.run_for(seconds)
        return list(sides(fleet, held))

    def cut_off() -> None:
        fleet.roads.cut("n1", "n3")
        fleet.roads.cut("n2", "n3")

    assert looked(0.0) == []
    cut_off()
    assert looked(0.05) == [] and looked(1.7) == []
    fleet.roads.heal()
    cut_off()
    assert looked(0.05) == [] and looked(1.7) == []
    assert looked(0.2) == ["side: n3 holds a lease, and could reach no majority of the voters for 1.90 s"]


def test_who_ran_between_two_pauses_counts_although_nobody_looked_then() -> None:
    """3 nodes, seed 49340: a leader answered for eleven milliseconds."""
    fleet = joined()
    sides, held = Sides(), [Lease("n3", 1, 1, (), 1, 1, "", "")]
    others = [fleet.machines[name] for name in ("n1", "n2")]

    def looked(seconds: float) -> list[str]:
        fleet.loop.run_for(seconds)
        return list(sides(fleet, held))

    def stand_still() -> None:
        for machine in others:
            machine.stand_still(frozen=True)

    assert looked(0.0) == []
    stand_still()
    assert looked(0.05) == [] and looked(1.7) == []
    for machine in others:
        machine.wake_up()
    stand_still()
    assert looked(0.05) == [] and looked(1.7) == []
    assert looked(0.2) == ["side: n3 holds a lease, and could reach no majority of the voters for 1.90 s"]


def test_what_a_policy_parks_is_owed_no_answer_although_nobody_has_sessions_on_the_node_that_is_missing() -> None:
    cast = {"n1.reader": reader(), "n1.writer": writer(pace_s=0.5)}
    scenario = Scenario.parse("at 2s cut n1 n2 | n3 for 14s")
    fleet = Fleet(replace(staged(quiet(), cast, "off"), scenario=scenario))
    assert fleet.run().violations == ()
    assert any(each.acked_at - each.sent_at > 8.0 for each in fleet.history.attempts.values())


def test_what_a_node_does_not_read_is_owed_no_answer_while_a_link_is_slow() -> None:
    """It reads no more of its publishers while another node takes little (3 nodes, seed 223355)."""
    fleet = Fleet(staged(quiet(), {"n1.writer": writer(pace_s=0.5)}, "off"))
    fleet.begin()
    client = next(each for each in fleet.clients if each.spec.writes)
    until(fleet, lambda: bool(client.sender.open))
    assert client.peer is not None
    client.peer.pipe.to_node.pause()
    fleet.roads.slow("n1", "n2", 0.1)
    until(fleet, lambda: bool(client.sender.open))
    fleet.loop.run_for(2 * PATIENCE_S)
    assert not fleet.overseer.seen.problems
    fleet.roads.mend()
    fleet.loop.run_for(2 * PATIENCE_S)
    assert any("unanswered: w0-" in text for text in fleet.overseer.seen.problems)
