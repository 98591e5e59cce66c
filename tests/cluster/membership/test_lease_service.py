"""Leases of real members: a stopped disk, loop or clock ends them, and no node holds one too long."""

from __future__ import annotations

from math import inf

import pytest

from strogoff.cluster.membership.lease_service import LeaseService
from strogoff.cluster.membership.messages import MalformedLease
from tests.harness.members import Machine, MemberHarness


def left_ms(machine: Machine) -> float:
    lease_service = machine.member.lease_service
    assert lease_service is not None
    return lease_service.left_ms()


def test_leases_are_renewed_before_they_end() -> None:
    cluster = MemberHarness(3)
    for _ in range(100):
        cluster.pass_s(0.05)
        assert all(left_ms(machine) > 1200 for machine in cluster.machines)


@pytest.mark.parametrize(
    "nodes", [3, 7, pytest.param(15, marks=pytest.mark.slow), pytest.param(25, marks=pytest.mark.slow)]
)
def test_an_idle_cluster_sends_few_frames(nodes: int) -> None:
    """An idle stream carries only frames that keep it up, and the stream back confirms them. Streams from and to the
    leader carry a heartbeat or its answer: heartbeats confirm all lease requests.
    """
    cluster = MemberHarness(nodes)
    cluster.pass_s(3.0)
    before = {machine.name: machine.member.links.traffic.frames_out for machine in cluster.machines}
    cluster.pass_s(5.0)
    rates = {
        machine.name: (machine.member.links.traffic.frames_out - before[machine.name]) / 5
        for machine in cluster.machines
    }
    assert sum(rates.values()) < 6.5 * nodes * (nodes - 1)
    assert rates[cluster.leader().name] < 7.5 * (nodes - 1)


def test_urgent_requests_share_rounds_of_heartbeats() -> None:
    cluster = MemberHarness(7)
    cluster.pass_s(1.0)
    leader = cluster.leader()
    before = leader.member.links.traffic.frames_out
    end = cluster.loop.now_s + 1
    while cluster.loop.now_s < end:
        for machine in cluster.machines:
            if machine is not leader and machine.member.lease_service is not None:
                now_ms = cluster.loop.now_s * 1000
                machine.member.lease_service.holder.heard(f"x{now_ms}", now_ms)  # news
        cluster.pass_s(0.01)
    assert leader.member.links.traffic.frames_out - before < 6 * (2 * 20 + 10)


def test_a_hung_disk_ends_the_lease() -> None:
    cluster = MemberHarness(3)
    other = next(machine for machine in cluster.machines if machine is not cluster.leader())
    other.disks[0].stall_until = inf
    took = cluster.until(lambda: not other.member.leased())
    assert took <= 2.5
    cluster.until(lambda: cluster.leader().member.view.row(other.name) is None)
    other.disks[0].stall_until = 0.0
    cluster.whole()


def test_a_full_disk_keeps_its_lease() -> None:
    cluster = MemberHarness(3)
    other = next(machine for machine in cluster.machines if machine is not cluster.leader())
    other.disks[0].full = True
    cluster.pass_s(5.0)
    assert other.member.leased()


def test_all_nodes_know_a_slow_disk() -> None:
    cluster = MemberHarness(3)
    other = who(cluster, False)
    for machine in cluster.machines:
        _service(machine).pace.patience_ms = 500
    other.disks[0].latency_s = (0.6, 0.7)
    took = cluster.until(lambda: all(list(machine.member.slow) == [other.name] for machine in cluster.machines), 30)
    assert 5 < took < 11 and 600 <= cluster.leader().member.slow[other.name] < 1_000
    assert other.member.leased()


def test_a_new_leader_keeps_a_slow_disk_in_mind() -> None:
    """Otherwise it would get its copies back, until it says again that it is slow."""
    cluster = MemberHarness(3)
    former, other = cluster.leader(), who(cluster, False)
    (third,) = [machine for machine in cluster.machines if machine not in (former, other)]
    _service(other).pace.patience_ms = 500
    other.disks[0].latency_s = (0.6, 0.7)
    cluster.until(lambda: other.name in third.member.slow, 30)
    former.kill()
    forgot: list[float] = []

    def goes_on() -> bool:
        if other.name not in third.member.slow:
            forgot.append(cluster.loop.now_s)
        return third.member.leased() and third.member.view.row(former.name) is None

    cluster.until(goes_on, 30)
    cluster.pass_s(1.0)
    assert not forgot and other.name in third.member.slow


def test_a_disk_that_was_full_is_not_slow() -> None:
    cluster = MemberHarness(3)
    other = who(cluster, False)
    service = _service(other)
    service.pace.patience_ms = 500
    for _ in range(3):
        other.disks[0].full = True
        cluster.pass_s(2.2)
        other.disks[0].full = False
        cluster.pass_s(0.5)
        assert other.member.leased() and not service.pace.slow_ms(cluster.loop.now_s * 1000)
        assert not service.pace._slow


def _service(machine: Machine) -> LeaseService:
    service = machine.member.lease_service
    assert service is not None
    return service


def out_while_another_is_started_again(cluster: MemberHarness, other: Machine) -> None:
    """The two nodes that can write the log continue without it, and accept each other."""
    witness, third = [machine for machine in cluster.machines if machine is not other]
    assert other.member.leased()  # there was nothing to write so far
    third.kill()
    third.start()
    cluster.until(lambda: third.serving and witness.member.view.row(other.name) is None)
    cluster.until(lambda: not other.member.leased())


def who(cluster: MemberHarness, leads: bool) -> Machine:
    """Returns the machine that leads, or the first that does not."""
    return next(machine for machine in cluster.machines if (machine is cluster.leader()) is leads)


def said_of_the_log(machine: Machine) -> list[tuple[str, str]]:
    return [(level, text) for level, text in machine.log if text.startswith("log of the cluster: ")]


@pytest.mark.parametrize("leads", [False, True])
def test_a_node_with_a_full_log_disk_is_out_until_there_is_space(leads: bool) -> None:
    cluster = MemberHarness(3)
    other = who(cluster, leads)
    other.disks[1].full = True
    out_while_another_is_started_again(cluster, other)
    ((level, text),) = said_of_the_log(other)
    assert level == "error" and "full: the simulated disk is full. Until the disk has free space, n" in text
    other.disks[1].full = False
    cluster.whole()
    assert said_of_the_log(other)[1:] == [("warning", "log of the cluster: serving again")]


@pytest.mark.parametrize("leads", [False, True])
def test_a_node_with_a_failed_log_disk_stays_out_until_its_restart(leads: bool) -> None:
    cluster = MemberHarness(3)
    other = who(cluster, leads)
    other.disks[1].failing = True
    out_while_another_is_started_again(cluster, other)
    cluster.pass_s(10.0)
    assert not other.member.leased()
    ((level, text),) = said_of_the_log(other)
    assert level == "error" and "failed: StorageError" in text and "Until it is started again, n" in text
    other.kill()
    other.start()
    cluster.whole()


def test_nothing_piles_up_at_the_only_voter_while_its_log_disk_is_full() -> None:
    """It leads all the time, and cannot write the view without the other node."""
    cluster = MemberHarness(2)
    voter, other = cluster.machines
    consensus = voter.member.consensus
    assert consensus is not None
    voter.disks[1].full = True
    other.kill()
    cluster.pass_s(10.0)
    before = consensus.raft.last_index
    cluster.pass_s(60.0)
    leading = consensus.raft._leading
    assert leading is not None and voter.member.ports.meta.state == "full"
    assert consensus.raft.last_index == before
    assert len(_service(voter).coordinator._pending) < 50 and len(leading._asked) < 50
    voter.disks[1].full = False
    cluster.until(lambda: voter.member.leased())
    other.start()
    cluster.whole()


def test_a_frozen_machine_has_no_lease_until_its_next_request() -> None:
    """The VM was frozen: its wall clock continues, its monotonic clock does not (H-05)."""
    cluster = MemberHarness(3)
    machine = cluster[2]
    assert machine.member.leased()
    machine.wall_off_ms += 5000
    assert not machine.member.leased()
    cluster.until(lambda: machine.member.leased())


def test_all_lease_holders_are_in_each_others_views() -> None:
    """The leader dies right after a grant: the next leader removes no node before that lease has ended (H-05)."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    others = [machine for machine in cluster.machines if machine is not leader]
    for machine in others:
        cluster.network.cut(leader.name, machine.name)
    end = cluster.loop.now_s + 8
    while cluster.loop.now_s < end:
        cluster.pass_s(0.01)
        if leader.member.leased():
            for machine in others:
                assert not machine.member.leased() or machine.member.view.row(leader.name) is not None
    assert not leader.member.leased()
    assert all(machine.member.leased() for machine in others)


def test_a_leader_that_does_not_know_the_time_grants_no_lease() -> None:
    """The requests wait: all have a lease as soon as the leader knows it (H-17)."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    leader.knows_time = False
    assert cluster.until(lambda: not any(machine.member.leased() for machine in cluster.machines)) < 2.5
    cluster.pass_s(5.0)
    assert cluster.leader() is leader and not any(machine.member.leased() for machine in cluster.machines)
    leader.knows_time = True
    assert cluster.until(lambda: all(machine.member.leased() for machine in cluster.machines)) < 0.3


def test_without_a_lease_no_time_is_left() -> None:
    cluster = MemberHarness(2)
    cluster[1].kill()
    cluster.until(lambda: not cluster[2].member.leased())
    assert left_ms(cluster[2]) == 0


def test_one_node_of_a_pair_without_a_connection_is_removed() -> None:
    """Both hear the leader; one of them leaves the view, so that publishes between them are bounded in time (H-06)."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    others = [machine for machine in cluster.machines if machine is not leader]
    cluster.network.cut(others[0].name, others[1].name)
    cluster.until(lambda: len(leader.member.view.rows) == 2)
    cluster.pass_s(2.5)
    assert sum(machine.member.leased() for machine in others) == 1


@pytest.mark.parametrize("kind", ["request", "reply"])
def test_noise_is_an_error(kind: str) -> None:
    cluster = MemberHarness(2)
    lease_service = cluster[1].member.lease_service
    with pytest.raises(MalformedLease):
        getattr(lease_service, kind)(b"\xc1")
