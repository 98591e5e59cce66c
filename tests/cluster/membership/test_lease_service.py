"""Leases of real members: a disk, a loop or a clock that stands still ends them, and nobody holds one too long."""

from __future__ import annotations

from math import inf

import pytest

from strogoff.cluster.membership.messages import MalformedLease
from tests.harness.members import Machine, MemberHarness


def left_ms(seat: Machine) -> float:
    lease_service = seat.member.lease_service
    assert lease_service is not None
    return lease_service.left_ms()


def test_leases_are_renewed_before_they_end() -> None:
    company = MemberHarness(3)
    for _ in range(100):
        company.pass_s(0.05)
        assert all(left_ms(seat) > 1200 for seat in company.seats)


@pytest.mark.parametrize(
    "nodes", [3, 7, pytest.param(15, marks=pytest.mark.slow), pytest.param(25, marks=pytest.mark.slow)]
)
def test_an_idle_cluster_says_little(nodes: int) -> None:
    """Each stream carries a frame where nothing else left, and the stream back says that it came. Those from and to the
    leader carry a heartbeat or its answer: all that asks for a lease is confirmed by heartbeats that leave anyway."""
    company = MemberHarness(nodes)
    company.pass_s(3.0)
    before = {seat.name: seat.member.links.traffic.frames_out for seat in company.seats}
    company.pass_s(5.0)
    rates = {seat.name: (seat.member.links.traffic.frames_out - before[seat.name]) / 5 for seat in company.seats}
    assert sum(rates.values()) < 6.5 * nodes * (nodes - 1)
    assert rates[company.leader().name] < 7.5 * (nodes - 1)


def test_many_who_are_in_a_hurry_share_rounds_of_heartbeats() -> None:
    company = MemberHarness(7)
    company.pass_s(1.0)
    leader = company.leader()
    before = leader.member.links.traffic.frames_out
    end = company.loop.now_s + 1
    while company.loop.now_s < end:
        for seat in company.seats:
            if seat is not leader and seat.member.lease_service is not None:
                seat.member.lease_service.holder.lost("x")
                seat.member.lease_service.holder.heard("x", company.loop.now_s * 1000)  # news
        company.pass_s(0.01)
    assert leader.member.links.traffic.frames_out - before < 6 * (2 * 20 + 10)


def test_a_hung_disk_ends_the_lease() -> None:
    company = MemberHarness(3)
    other = next(seat for seat in company.seats if seat is not company.leader())
    other.disks[0].stall_until = inf
    took = company.until(lambda: not other.member.leased())
    assert took <= 2.5
    company.until(lambda: company.leader().member.view.row(other.name) is None)
    other.disks[0].stall_until = 0.0
    company.whole()


def test_a_full_disk_keeps_its_lease() -> None:
    company = MemberHarness(3)
    other = next(seat for seat in company.seats if seat is not company.leader())
    other.disks[0].full = True
    company.pass_s(5.0)
    assert other.member.leased()


def out_while_another_is_started_again(company: MemberHarness, other: Machine) -> None:
    """The two that can write the log go on without it, and let each other in."""
    witness, third = [seat for seat in company.seats if seat is not other]
    assert other.member.leased()  # nothing was to be written so far
    third.kill()
    third.start()
    company.until(lambda: third.serving and witness.member.view.row(other.name) is None)
    company.until(lambda: not other.member.leased())


def who(company: MemberHarness, leads: bool) -> Machine:
    """The seat that leads, or the first that does not."""
    return next(seat for seat in company.seats if (seat is company.leader()) is leads)


def said_of_the_log(seat: Machine) -> list[tuple[str, str]]:
    return [(level, text) for level, text in seat.log if text.startswith("log of the cluster: ")]


@pytest.mark.parametrize("leads", [False, True])
def test_who_cannot_write_the_log_is_out_until_there_is_room(leads: bool) -> None:
    company = MemberHarness(3)
    other = who(company, leads)
    other.disks[1].full = True
    out_while_another_is_started_again(company, other)
    ((level, text),) = said_of_the_log(other)
    assert level == "error" and "full: the simulated disk is full. Until there is room n" in text
    other.disks[1].full = False
    company.whole()
    assert said_of_the_log(other)[1:] == [("warning", "log of the cluster: serving again")]


@pytest.mark.parametrize("leads", [False, True])
def test_a_node_with_a_failed_log_disk_stays_out_until_its_restart(leads: bool) -> None:
    company = MemberHarness(3)
    other = who(company, leads)
    other.disks[1].failing = True
    out_while_another_is_started_again(company, other)
    company.pass_s(10.0)
    assert not other.member.leased()
    ((level, text),) = said_of_the_log(other)
    assert level == "error" and "failed: StorageError" in text and "Until it is started again n" in text
    other.kill()
    other.start()
    company.whole()


def test_a_machine_that_stood_still_has_no_lease_until_it_asked_anew() -> None:
    """A VM is frozen: its wall clock goes on, its monotonic clock does not (H-05)."""
    company = MemberHarness(3)
    seat = company[2]
    assert seat.member.leased()
    seat.wall_off_ms += 5000
    assert not seat.member.leased()
    company.until(lambda: seat.member.leased())


def test_two_leases_never_belong_to_views_that_do_not_know_each_other() -> None:
    """The leader dies right after it granted: the next one removes nobody before that lease has ended (H-05)."""
    company = MemberHarness(3)
    leader = company.leader()
    others = [seat for seat in company.seats if seat is not leader]
    for seat in others:
        company.network.cut(leader.name, seat.name)
    end = company.loop.now_s + 8
    while company.loop.now_s < end:
        company.pass_s(0.01)
        if leader.member.leased():
            for seat in others:
                assert not seat.member.leased() or seat.member.view.row(leader.name) is not None
    assert not leader.member.leased()
    assert all(seat.member.leased() for seat in others)


def test_without_a_lease_time_is_left_none() -> None:
    company = MemberHarness(2)
    company[1].kill()
    company.until(lambda: not company[2].member.leased())
    assert left_ms(company[2]) == 0


def test_a_pair_that_does_not_hear_each_other_is_parted() -> None:
    """Both see the leader; one of them goes, so that publishes between them do not wait for ever (H-06)."""
    company = MemberHarness(3)
    leader = company.leader()
    others = [seat for seat in company.seats if seat is not leader]
    company.network.cut(others[0].name, others[1].name)
    company.until(lambda: len(leader.member.view.rows) == 2)
    company.pass_s(2.5)
    assert sum(seat.member.leased() for seat in others) == 1


@pytest.mark.parametrize("kind", ["request", "reply"])
def test_noise_is_an_error(kind: str) -> None:
    company = MemberHarness(2)
    lease_service = company[1].member.lease_service
    with pytest.raises(MalformedLease):
        getattr(lease_service, kind)(b"\xc1")
