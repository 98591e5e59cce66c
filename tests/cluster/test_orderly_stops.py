"""A node that stops in order says goodbye: the others need not wait for the detection time, nor for an election."""

from __future__ import annotations

import pytest

from tests.harness.members import MemberHarness


@pytest.mark.parametrize("who", ["the leader", "another"])
def test_a_node_that_stops_in_order_is_out_of_the_view_at_once(who: str) -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    machine = leader if who == "the leader" else next(each for each in cluster.machines if each is not leader)
    others = [each for each in cluster.machines if each is not machine]
    assert machine.serving and machine.member.goodbye()
    assert not machine.serving and not machine.member.leased()
    began = cluster.loop.now_s
    cluster.until(lambda: machine.member.has_left_view or cluster.loop.now_s - began > 0.1)
    machine.member.close()
    machine.kill()
    assert cluster.until(lambda: all(each.member.view.row(machine.name) is None for each in others)) < 0.1
    for _ in range(40):
        cluster.pass_s(0.1)
        assert all(each.serving for each in others)
    machine.start()
    cluster.whole()


def test_a_leader_that_stops_lets_another_node_lead_at_once() -> None:
    """Else the others learn of the view without it only after an election: until then nobody takes over its slots."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    others = [each for each in cluster.machines if each is not leader]
    assert leader.member.goodbye()
    cluster.until(lambda: leader.member.has_left_view)
    consensus = leader.member.consensus
    assert consensus is not None and consensus.hand_over()
    began = cluster.loop.now_s
    cluster.until(lambda: not consensus.leads)
    leader.member.close()
    leader.kill()
    cluster.until(lambda: any(each.member.consensus.leads for each in others if each.member.consensus))
    cluster.until(lambda: all(each.member.view.row(leader.name) is None for each in others))
    assert cluster.loop.now_s - began < 0.1
    assert all(each.serving for each in others)


def test_a_node_that_stops_hands_over_nothing_if_it_does_not_lead_or_is_alone() -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    other = next(each for each in cluster.machines if each is not leader)
    assert other.member.consensus is not None and not other.member.consensus.hand_over()
    for each in cluster.machines:
        if each is not leader:
            each.kill()
    cluster.pass_s(0.6)
    assert leader.member.consensus is not None and not leader.member.consensus.hand_over()


def test_a_node_that_left_the_view_enters_again_only_after_a_restart() -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    machine = next(each for each in cluster.machines if each is not leader)
    assert machine.member.goodbye()
    cluster.pass_s(3.0)
    assert machine.member.has_left_view and not machine.member.leased()
    assert leader.member.view.row(machine.name) is None and leader.serving


def test_the_last_majority_stays_in_the_view_when_it_stops() -> None:
    """All stop, one after the other. The first node to return does not wait for the one that stopped last."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    first, second = (each for each in cluster.machines if each is not leader)
    for machine in (first, second, leader):
        machine.member.goodbye()
        cluster.pass_s(0.1)
        machine.kill()
    informed_members = leader.member.membership.informed_members
    assert informed_members == tuple(sorted([second.name, leader.name]))
    first.start()
    second.start()
    assert cluster.until(lambda: first.serving and second.serving) < 10


def test_a_standalone_node_sends_no_goodbye() -> None:
    cluster = MemberHarness(1, joined=False)
    assert not cluster[1].member.goodbye()
    cluster[1].member.found()
    cluster.until(lambda: cluster[1].serving)
    assert not cluster[1].member.goodbye()
    assert cluster[1].serving
