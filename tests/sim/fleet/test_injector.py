"""Faults on machines, and their end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strogoff.cluster.membership.settings import Settings as ViewSettings
from strogoff.cluster.ports import Settings
from strogoff.netsplit import faults
from strogoff.netsplit.scenarios import Step
from strogoff.sim.fleet.fleet import Fleet
from strogoff.sim.fleet.machine import Machine

from .floor import joined, quiet, until, whole


def founded() -> Fleet:
    """All processes run; n1 is a cluster, and nobody has joined it."""
    fleet = Fleet(quiet())
    for machine in fleet.machines.values():
        fleet.start(machine)
    fleet.machines["n1"].public = True
    return fleet


def test_overlapping_cuts_end_one_by_one() -> None:
    fleet = joined()
    injector, roads = fleet.injector, fleet.roads
    first, second = faults.Cut((("n1",), ("n2", "n3"))), faults.PairCut("n1", "n2")
    injector._strike(Step(0, first))
    injector._strike(Step(0, second))
    injector._end(first)
    assert roads.is_cut("n1", "n2") and roads.is_cut("n2", "n1") and not roads.is_cut("n1", "n3")
    injector._end(second)
    assert not roads.is_cut("n1", "n2")


def test_each_kind_strikes_and_all_heals() -> None:
    fleet = joined(trace=True)
    texts = (
        "disk_full n1", "disk_stall n2", "clock_jump n1 +60000ms", "loss n1 n2 0.1", "delay n1 n3 200ms",
        "one_way_cut n2 n3", "pause n1 0.5s", "vm_freeze n2 0.5s", "fast_restart n3", "kill n1", "power_loss n2",
    )  # fmt: skip
    for text in texts:
        fleet.injector._strike(Step(0, faults.parse(text)))
        fleet.loop.run_for(0.7)
    assert len(fleet.history.faults) == len(texts)
    fleet.injector.heal()
    until(fleet, lambda: all(whole(fleet, name) for name in fleet.machines))
    assert not fleet.overseer.seen.problems
    assert any("fast_restart n3" in line for line in fleet.history.lines or ())


def test_one_disk_may_be_lost() -> None:
    fleet = joined()
    until(fleet, lambda: all(len(machine.voters()) == 3 for machine in fleet.machines.values()))
    fleet.injector._strike(Step(0, faults.DiskLost("n2")))
    assert fleet.history.life("n2").emptied
    fleet.injector._strike(Step(0, faults.DiskLost("n3")))
    assert not fleet.history.life("n3").emptied
    until(fleet, lambda: fleet.machines["n2"].public and whole(fleet, "n2"))


def forgetful() -> Fleet:
    """A cluster of three voters that gives up who is away for 4 s."""
    settings = Settings(views=ViewSettings(away_ms=1000, forget_after_ms=4000))
    fleet = Fleet(replace(quiet(), settings=settings))
    fleet.begin()
    until(
        fleet,
        lambda: all(len(machine.voters()) == 3 and whole(fleet, machine.name) for machine in fleet.machines.values()),
    )
    return fleet


def has_notice(fleet: Fleet, name: str) -> bool:
    """Whether a leader is about to give up a member."""
    return fleet.injector._has_notice(fleet.machines[name])


def test_who_comes_back_to_a_cluster_that_was_about_to_give_it_up_is_needed() -> None:
    """The disk of the other voter was lost a moment before: nobody else agrees that it is given up (3 nodes, seed
    207177)."""
    fleet = forgetful()
    first, second, third = fleet.machines.values()
    assert first.leads and first.member is not None and first.member.lease_service is not None
    coordinator, membership = first.member.lease_service.coordinator, first.member.membership
    third.stand_still(True)
    until(fleet, lambda: membership.members["n3"].away_ms > 0)
    due_ms = membership.members["n3"].away_ms + coordinator.settings.forget_after_ms
    until(fleet, lambda: coordinator._cluster_ms() >= due_ms - 100, 0.001)
    fleet.injector.empty(second)
    until(fleet, lambda: membership.index < last_index(first), 0.001)
    third.wake_up()
    until(fleet, lambda: membership.index == last_index(first) == last_index(third))
    fleet.injector.start(second)
    until(fleet, lambda: second.public and all(whole(fleet, name) for name in fleet.machines))
    assert third.disk_id == "n3-disk"


def last_index(machine: Machine) -> int:
    """The last entry of a machine's log."""
    assert machine.member is not None and machine.member.consensus is not None
    return machine.member.consensus.raft._log.last_index


@pytest.mark.parametrize("moment", ("notice", "stale"))
def test_who_was_given_up_counts_as_a_lost_disk(moment: str) -> None:
    """It has to come back empty. Without a second voter the log would be gone, too (3 nodes, seed 910020)."""
    fleet = forgetful()
    first, second, third = fleet.machines.values()
    second.stand_still(False)
    if moment == "notice":
        until(fleet, lambda: has_notice(fleet, "n2"), 0.001)
        assert not is_stale(first, "n2") and not is_stale(third, "n2")
    else:
        until(fleet, lambda: is_stale(first, "n2") or is_stale(third, "n2"), 0.001)
    assert {len(first.voters()), len(third.voters())} == {3}
    fleet.injector._strike(Step(0, faults.DiskLost("n3")))
    fleet.injector._take_out(third)
    assert not fleet.history.life("n3").emptied and fleet.injector._leaving is None
    fleet.injector.empty(second)
    fleet.injector.start(second)
    until(fleet, lambda: second.public and second.peer in first.peer_quorums()[0] and whole(fleet, "n2"))
    fleet.injector._strike(Step(0, faults.DiskLost("n3")))
    assert fleet.history.life("n3").emptied


def is_stale(machine: Machine, name: str) -> bool:
    """Whether a machine's log says that a member was away for too long."""
    return machine.member is not None and machine.member.membership.members[name].stale


def test_no_old_copy_of_the_only_voter_comes_back() -> None:
    """It is a majority by itself: cut off from all others it serves, and nothing can tell (3 nodes, seed 51006)."""
    fleet = joined(nodes=2)
    first, second = fleet.machines.values()
    assert first.voters() == (first.name,)
    for machine in (first, second):
        fleet.injector._copy(machine)
    assert first.backup is None
    assert second.backup is not None


def test_no_copy_is_kept_from_before_the_log_of_a_node_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would come back as a node that never joined, which an operator has to empty (3 nodes, seed 221281)."""
    fleet = joined()
    third = fleet.machines["n3"]
    assert third.member is not None and third.member.clustered
    with monkeypatch.context() as patch:
        patch.setattr(third.member.membership, "members", {})
        fleet.injector._copy(third)
    assert third.backup is None
    fleet.injector._copy(third)
    assert third.backup is not None


def test_who_forgot_that_it_had_joined_joins_again_although_nobody_knows_of_it_yet() -> None:
    """All were killed before its disk knew (3 nodes, seed 103161): nobody has read its own log again."""
    fleet = joined()
    for machine in fleet.machines.values():
        fleet.crash(machine, False)
    last = fleet.machines["n3"]
    last.lose_disk()
    last.public = True
    for machine in fleet.machines.values():
        fleet.injector.start(machine)
    assert [machine.public for machine in fleet.machines.values()] == [True, True, False]
    until(fleet, lambda: last.public and whole(fleet, "n3"))


def test_the_last_majority_keeps_its_disks() -> None:
    """The only voter that has the entry by which the others begin to vote: the log must not go with its disk."""
    fleet = founded()
    _, second, third = fleet.machines.values()
    fleet.injector.rejoin(third)
    until(fleet, lambda: third.public)
    fleet.injector.rejoin(second)
    until(fleet, lambda: len(second.quorums()) == 2, 0.001)
    fleet.injector._strike(Step(0, faults.DiskLost("n1")))
    assert not fleet.history.life("n1").emptied
    until(fleet, lambda: [len(machine.quorums()) for machine in fleet.machines.values()] == [1] * 3)
    fleet.injector._strike(Step(0, faults.DiskLost("n3")))
    assert fleet.history.life("n3").emptied


def test_who_is_about_to_vote_as_one_of_two_keeps_its_disk() -> None:
    """3 nodes, seed 41724: the leader made it a voter a moment after its disk had been lost."""
    fleet = founded()
    first, second, third = fleet.machines.values()
    fleet.injector.rejoin(third)
    until(fleet, lambda: third.public and bool(third.voters()))
    fleet.injector.rejoin(second)
    until(fleet, lambda: second.public)
    assert first.voters() == third.voters() == ("n1",)
    fleet.injector._strike(Step(0, faults.DiskLost("n2")))
    assert not fleet.history.life("n2").emptied


def test_who_is_told_twice_to_join_asks_once() -> None:
    """A node that was to join late had been restarted just before, and tried already (5 nodes, seed 40028)."""
    fleet = Fleet(quiet(), trace=True)
    first, second, _ = fleet.machines.values()
    fleet.start(first)
    first.public = True
    fleet.roads.slow("n1", "n2", 0.3)
    fleet.injector.start(second)
    fleet.injector.rejoin(second)
    until(fleet, lambda: second.public and whole(fleet, "n2"))
    assert len([line for line in fleet.history.lines or () if "n2       join: done" in line]) == 1


def test_a_kill_is_called_like_that_of_one_node() -> None:
    """Checkers look for it: what a kill undoes shortly after it began is excused (5 nodes, seed 1730)."""
    fleet = joined()
    fleet.injector._strike(Step(0, faults.Kill("n2")))
    assert [(each.kind, each.node) for each in fleet.history.faults] == [("kill", "n2")]


def test_who_was_killed_before_its_disk_knew_that_it_had_joined_joins_again() -> None:
    """5 nodes, seed 1806."""
    fleet = founded()
    _, second, _ = fleet.machines.values()
    fleet.injector.rejoin(second)
    until(fleet, lambda: second.public)
    fleet.crash(second, False)
    second.meta = second._new_disk("sync")
    fleet.injector.start(second)
    assert not second.public
    until(fleet, lambda: second.public and whole(fleet, second.name))


def test_an_operator_asks_again_if_the_process_that_was_asked_has_ended() -> None:
    """For as long as the node has the disk with which it was a member: once it has joined anew, it stays."""
    fleet = joined()
    second, third = fleet.machines["n2"], fleet.machines["n3"]
    fleet.injector._ask_out(third, second)
    fleet.crash(second, False)
    fleet.start(second)
    until(fleet, lambda: third.disk_id == "n3-disk1" and third.public and whole(fleet, "n3"))
    fleet.loop.run_for(10.0)
    assert third.disk_id == "n3-disk1" and whole(fleet, "n3")


def test_who_was_taken_out_is_not_taken_out_again_although_no_answer_came() -> None:
    """The node has heard of it itself, and joins anew before the operator asks again."""
    fleet = joined()
    second, third = fleet.machines["n2"], fleet.machines["n3"]
    fleet.injector._ask_out(third, second)
    until(fleet, lambda: bool(fleet.history.life("n3").emptied), 0.001)
    fleet.injector._taken_out(third, "n3-disk", "n2 has ended without an answer")
    until(fleet, lambda: third.disk_id == "n3-disk1" and third.public and whole(fleet, "n3"))
    fleet.loop.run_for(10.0)
    assert third.disk_id == "n3-disk1" and whole(fleet, "n3")
