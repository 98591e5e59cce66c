"""What is demanded at the end."""

from __future__ import annotations

from dataclasses import replace

from strogoff.sim.checkers.unanswered import PATIENCE_S
from strogoff.sim.cluster_verdict import Sides, rests, verdict
from strogoff.sim.cluster_world import ClusterWorld
from strogoff.sim.faults.schedule import FaultSchedule
from strogoff.sim.invariants import Lease
from strogoff.sim.scenarios.script import reader, with_script, writer

from .clusters import joined, quiet, until, whole


def test_a_fleet_at_rest_and_one_that_is_not() -> None:
    world = joined()
    for client in world.clients:
        client.gone = True
    world.loop.run_for(1)
    assert rests(world) and list(verdict(world)) == []
    world.network.cut("n1", "n2")
    world.network.cut("n1", "n3")
    world.loop.run_for(4)
    assert not rests(world)
    assert any("n1 is minority" in text for text in verdict(world))


def test_who_has_not_joined_yet_is_waited_for() -> None:
    """3 nodes, seed 2797: alone it sees all there is, and has none of the metadata."""
    world = joined()
    for client in world.clients:
        client.gone = True
    world.injector.empty(world.machines["n3"])
    world.injector.start(world.machines["n3"])
    assert any("n3 has not joined" in text for text in verdict(world))
    until(world, lambda: rests(world))
    assert whole(world, "n3") and list(verdict(world)) == []


def test_what_comes_through_between_two_cuts_counts_although_nobody_looked_then() -> None:
    """5 nodes, seed 30937: a lease that was asked for in the first cut."""
    world = joined()
    sides, held = Sides(), [Lease("n3", 1, 1, (), 1, 1, "", "")]

    def looked(seconds: float) -> list[str]:
        world.loop.run_for(seconds)
        return list(sides(world, held))

    def cut_off() -> None:
        world.network.cut("n1", "n3")
        world.network.cut("n2", "n3")

    assert looked(0.0) == []
    cut_off()
    assert looked(0.05) == [] and looked(1.7) == []
    world.network.heal()
    cut_off()
    assert looked(0.05) == [] and looked(1.7) == []
    assert looked(0.2) == ["side: n3 holds a lease, and could reach no majority of the voters for 1.90 s"]


def test_who_ran_between_two_pauses_counts_although_nobody_looked_then() -> None:
    """3 nodes, seed 49340: a leader answered for eleven milliseconds."""
    world = joined()
    sides, held = Sides(), [Lease("n3", 1, 1, (), 1, 1, "", "")]
    others = [world.machines[name] for name in ("n1", "n2")]

    def looked(seconds: float) -> list[str]:
        world.loop.run_for(seconds)
        return list(sides(world, held))

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
    schedule = FaultSchedule.parse("at 2s cut n1 n2 | n3 for 14s")
    world = ClusterWorld(replace(with_script(quiet(), cast, "off"), schedule=schedule))
    assert world.run().violations == ()
    assert any(each.acked_at - each.sent_at > 8.0 for each in world.history.attempts.values())


def test_what_a_node_does_not_read_is_owed_no_answer_while_a_link_is_slow() -> None:
    """It reads no more of its publishers while another node takes little (3 nodes, seed 223355)."""
    world = ClusterWorld(with_script(quiet(), {"n1.writer": writer(pace_s=0.5)}, "off"))
    world.begin()
    client = next(each for each in world.clients if each.spec.writes)
    until(world, lambda: bool(client.sender.open))
    assert client.peer is not None
    client.peer.pipe.to_node.pause()
    world.network.slow("n1", "n2", 0.1)
    until(world, lambda: bool(client.sender.open))
    world.loop.run_for(2 * PATIENCE_S)
    assert not world.monitor.seen.problems
    world.network.mend()
    world.loop.run_for(2 * PATIENCE_S)
    assert any("unanswered: w0-" in text for text in world.monitor.seen.problems)
