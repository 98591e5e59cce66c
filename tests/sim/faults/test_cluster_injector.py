"""Faults on machines, and their end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strogoff.cluster.membership.settings import Settings as ViewSettings
from strogoff.cluster.ports import Settings
from strogoff.sim.engine.machine import Machine
from strogoff.sim.faults import kinds
from strogoff.sim.faults.schedule import Step
from strogoff.sim.simulation import ClusterSimulation

from ..clusters import joined, quiet, until, whole


def founded() -> ClusterSimulation:
    """All processes run. n1 is a cluster, and no other node has joined it."""
    simulation = ClusterSimulation(quiet())
    world = simulation.world
    for machine in world.machines.values():
        world.start(machine)
    world.machines["n1"].joined = True
    return simulation


def test_overlapping_cuts_end_one_by_one() -> None:
    simulation = joined()
    world = simulation.world
    injector, network = simulation.injector, world.network
    first, second = kinds.Cut((("n1",), ("n2", "n3"))), kinds.PairCut("n1", "n2")
    injector.inject(Step(0, first))
    injector.inject(Step(0, second))
    injector._end(first)
    assert network.is_cut("n1", "n2") and network.is_cut("n2", "n1") and not network.is_cut("n1", "n3")
    injector._end(second)
    assert not network.is_cut("n1", "n2")


def test_each_kind_is_injected_and_healed() -> None:
    simulation = joined(trace=True)
    world = simulation.world
    texts = (
        "disk_full n1", "disk_stall n2", "clock_jump n1 +60000ms", "loss n1 n2 0.1", "delay n1 n3 200ms",
        "one_way_cut n2 n3", "pause n1 0.5s", "vm_freeze n2 0.5s", "fast_restart n3", "kill n1", "power_loss n2",
    )  # fmt: skip
    for text in texts:
        simulation.injector.inject(Step(0, kinds.parse(text)))
        world.loop.run_for(0.7)
    assert len(world.history.faults) == len(texts)
    simulation.injector.heal()
    until(world, lambda: all(whole(world, name) for name in world.machines))
    assert not simulation.monitor.problems
    assert any("fast_restart n3" in line for line in world.history.lines or ())


def test_one_disk_may_be_lost() -> None:
    simulation = joined()
    world = simulation.world
    until(world, lambda: all(len(machine.voters()) == 3 for machine in world.machines.values()))
    simulation.injector.inject(Step(0, kinds.DiskLost("n2")))
    assert world.history.life("n2").emptied
    simulation.injector.inject(Step(0, kinds.DiskLost("n3")))
    assert not world.history.life("n3").emptied
    until(world, lambda: world.machines["n2"].joined and whole(world, "n2"))


def forgetful() -> ClusterSimulation:
    """A cluster of three voters that gives up a node that is away for 4 s."""
    settings = Settings(views=ViewSettings(away_ms=1000, forget_after_ms=4000))
    simulation = ClusterSimulation(replace(quiet(), settings=settings))
    world = simulation.world
    simulation.begin()
    until(
        world,
        lambda: all(len(machine.voters()) == 3 and whole(world, machine.name) for machine in world.machines.values()),
    )
    return simulation


def has_notice(simulation: ClusterSimulation, name: str) -> bool:
    """Whether a leader is about to give up a member."""
    return simulation.injector._has_notice(simulation.world.machines[name])


def test_a_node_that_comes_back_before_it_is_given_up_keeps_its_disk() -> None:
    """The other voter lost its disk a moment before: no other voter agrees to give the node up (3
    nodes, seed 207177).
    """
    simulation = forgetful()
    world = simulation.world
    first, second, third = world.machines.values()
    assert first.leads and first.member is not None and first.member.lease_service is not None
    coordinator, membership = first.member.lease_service.coordinator, first.member.membership
    third.suspend(True)
    until(world, lambda: membership.members["n3"].away_ms > 0)
    due_ms = membership.members["n3"].away_ms + coordinator.settings.forget_after_ms
    until(world, lambda: coordinator._cluster_ms() >= due_ms - 100, 0.001)
    simulation.injector.empty(second)
    until(world, lambda: membership.index < last_index(first), 0.001)
    third.resume()
    until(world, lambda: membership.index == last_index(first) == last_index(third))
    simulation.injector.start(second)
    until(world, lambda: second.joined and all(whole(world, name) for name in world.machines))
    assert third.disk_id == "n3-disk"


def last_index(machine: Machine) -> int:
    """The last entry of a machine's log."""
    assert machine.member is not None and machine.member.consensus is not None
    return machine.member.consensus.raft._log.last_index


@pytest.mark.parametrize("moment", ["notice", "stale"])
def test_a_voter_that_was_given_up_counts_as_a_lost_disk(moment: str) -> None:
    """It must return empty. If a second voter lost its disk, the log would be lost as well (3 nodes, seed 910020)."""
    simulation = forgetful()
    world = simulation.world
    first, second, third = world.machines.values()
    second.suspend(False)
    if moment == "notice":
        until(world, lambda: has_notice(simulation, "n2"), 0.001)
        assert not is_stale(first, "n2") and not is_stale(third, "n2")
    else:
        until(world, lambda: is_stale(first, "n2") or is_stale(third, "n2"), 0.001)
    assert {len(first.voters()), len(third.voters())} == {3}
    simulation.injector.inject(Step(0, kinds.DiskLost("n3")))
    simulation.injector._take_out(third)
    assert not world.history.life("n3").emptied and simulation.injector._leaving is None
    simulation.injector.empty(second)
    simulation.injector.start(second)
    until(world, lambda: second.joined and second.peer in first.peer_quorums()[0] and whole(world, "n2"))
    simulation.injector.inject(Step(0, kinds.DiskLost("n3")))
    assert world.history.life("n3").emptied


def is_stale(machine: Machine, name: str) -> bool:
    """Whether a machine's log says that a member was away for too long."""
    return machine.member is not None and machine.member.membership.members[name].stale


def test_a_voter_with_an_old_copy_of_its_disk_counts_as_a_lost_disk() -> None:
    """The cluster refuses it. If a second voter lost its disk, one voter of three would remain (3 nodes, `--variant
    copies,moves`, seed 1350009)."""
    simulation = ClusterSimulation(replace(quiet(), disks=2))
    world, injector = simulation.world, simulation.injector
    simulation.begin()
    first, second, third = world.machines.values()
    until(world, lambda: all(len(each.voters()) == 3 and whole(world, each.name) for each in (first, second, third)))
    injector._copy(first)
    injector.restart(first)
    until(world, lambda: whole(world, "n1") and injector._all_know_a_later_start(first, 1))
    injector.inject(Step(0, kinds.BackupRestored("n1")))
    until(world, lambda: first.member is not None and bool(first.member.registrar.problem))
    assert first.joined and first.up and first.voters() == ("n1", "n2", "n3")
    for node in ("n2", "n3"):
        injector.inject(Step(0, kinds.DiskLost(node)))
    assert not world.history.life("n2").emptied and not world.history.life("n3").emptied
    simulation.operate()
    until(world, lambda: first.joined and first.peer in second.peer_quorums()[0] and whole(world, "n1"))
    injector.inject(Step(0, kinds.DiskLost("n2")))
    assert world.history.life("n2").emptied
    until(world, lambda: second.joined and whole(world, "n2"))


def test_no_old_copy_of_the_only_voter_comes_back() -> None:
    """The copy would be a majority. Cut off from all others it would serve, and no node could know (3 nodes, seed
    51006)."""
    simulation = joined(nodes=2)
    world = simulation.world
    first, second = world.machines.values()
    assert first.voters() == (first.name,)
    for machine in (first, second):
        simulation.injector._copy(machine)
    assert first.backup is None
    assert second.backup is not None


def test_no_copy_is_kept_from_before_the_join_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a copy belongs to a node that never joined: an operator would have to empty it (3 nodes, seed 221281)."""
    simulation = joined()
    world = simulation.world
    third = world.machines["n3"]
    assert third.member is not None and third.member.clustered
    with monkeypatch.context() as patch:
        patch.setattr(third.member.membership, "members", {})
        simulation.injector._copy(third)
    assert third.backup is None
    simulation.injector._copy(third)
    assert third.backup is not None


def test_a_node_that_forgot_its_join_joins_again_before_others_know_of_it() -> None:
    """All nodes were killed before one had saved its join, and none has read its log again (3 nodes, seed 103161)."""
    simulation = joined()
    world = simulation.world
    for machine in world.machines.values():
        world.crash(machine, False)
    last = world.machines["n3"]
    last.lose_disk()
    last.joined = True
    for machine in world.machines.values():
        simulation.injector.start(machine)
    assert [machine.joined for machine in world.machines.values()] == [True, True, False]
    until(world, lambda: last.joined and whole(world, "n3"))


def test_the_last_majority_keeps_its_disks() -> None:
    """Only n1 has the entry that makes the others voters. Its disk must stay, or the log would be lost."""
    simulation = founded()
    world = simulation.world
    _, second, third = world.machines.values()
    simulation.injector.rejoin(third)
    until(world, lambda: third.joined)
    simulation.injector.rejoin(second)
    until(world, lambda: len(second.quorums()) == 2, 0.001)
    simulation.injector.inject(Step(0, kinds.DiskLost("n1")))
    assert not world.history.life("n1").emptied
    until(world, lambda: [len(machine.quorums()) for machine in world.machines.values()] == [1] * 3)
    simulation.injector.inject(Step(0, kinds.DiskLost("n3")))
    assert world.history.life("n3").emptied


def test_a_node_about_to_vote_as_one_of_two_keeps_its_disk() -> None:
    """3 nodes, seed 41724: the leader made the node a voter a moment after the loss of its disk."""
    simulation = founded()
    world = simulation.world
    first, second, third = world.machines.values()
    simulation.injector.rejoin(third)
    until(world, lambda: third.joined and bool(third.voters()))
    simulation.injector.rejoin(second)
    until(world, lambda: second.joined)
    assert first.voters() == third.voters() == ("n1",)
    simulation.injector.inject(Step(0, kinds.DiskLost("n2")))
    assert not world.history.life("n2").emptied


def test_a_node_joins_once_after_two_join_requests() -> None:
    """The node was restarted just before the second request, and had already tried to join (5 nodes, seed 40028)."""
    simulation = ClusterSimulation(quiet(), trace=True)
    world = simulation.world
    first, second, _ = world.machines.values()
    world.start(first)
    first.joined = True
    world.network.slow("n1", "n2", 0.3)
    simulation.injector.start(second)
    simulation.injector.rejoin(second)
    until(world, lambda: second.joined and whole(world, "n2"))
    assert len([line for line in world.history.lines or () if "n2       join: done" in line]) == 1


def test_a_kill_has_the_same_name_as_in_one_node_runs() -> None:
    """Checkers look for the name: they excuse effects that a kill undoes (5 nodes, seed 1730)."""
    simulation = joined()
    world = simulation.world
    simulation.injector.inject(Step(0, kinds.Kill("n2")))
    assert [(each.kind, each.node) for each in world.history.faults] == [("kill", "n2")]


def test_a_node_killed_before_its_disk_knew_of_its_join_joins_again() -> None:
    """5 nodes, seed 1806."""
    simulation = founded()
    world = simulation.world
    _, second, _ = world.machines.values()
    simulation.injector.rejoin(second)
    until(world, lambda: second.joined)
    world.crash(second, False)
    second.meta = second._new_disk("sync")
    simulation.injector.start(second)
    assert not second.joined
    until(world, lambda: second.joined and whole(world, second.name))


def test_an_operator_asks_again_if_the_process_that_was_asked_has_ended() -> None:
    """But only while the node has the disk with which it was a member: after it has joined again, it stays."""
    simulation = joined()
    world = simulation.world
    second, third = world.machines["n2"], world.machines["n3"]
    simulation.injector._ask_out(third, second)
    world.crash(second, False)
    world.start(second)
    until(world, lambda: third.disk_id == "n3-disk1" and third.joined and whole(world, "n3"))
    world.loop.run_for(10.0)
    assert third.disk_id == "n3-disk1" and whole(world, "n3")


def test_a_removed_node_is_not_removed_again_if_no_answer_came() -> None:
    """The node learns of its removal without the operator, and joins again before the operator asks again."""
    simulation = joined()
    world = simulation.world
    second, third = world.machines["n2"], world.machines["n3"]
    simulation.injector._ask_out(third, second)
    until(world, lambda: bool(world.history.life("n3").emptied), 0.001)
    simulation.injector._taken_out(third, "n3-disk", "n2 has ended without an answer")
    until(world, lambda: third.disk_id == "n3-disk1" and third.joined and whole(world, "n3"))
    world.loop.run_for(10.0)
    assert third.disk_id == "n3-disk1" and whole(world, "n3")
