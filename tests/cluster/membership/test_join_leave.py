"""Those who want to join or leave: everybody is answered once, with what became of it."""

from __future__ import annotations

from functools import partial

import pytest

from strogoff.cluster.membership.admission import (
    CallAnswer,
    JoinRequest,
    LeaveRequest,
    MalformedCall,
    decode_answer,
    encode_call,
)
from strogoff.cluster.membership.commands import Stale
from strogoff.cluster.membership.join_leave import VERSIONS
from strogoff.cluster.membership.state_machine import UNLOGGED_MAX
from tests.harness.members import Machine, MemberHarness


def request(
    seat: Machine,
    node: str,
    disk: str = "d",
    boot: int = 1,
    versions: tuple[int, int] = VERSIONS,
    replace: bool = False,
) -> bytes:
    return encode_call(JoinRequest(node, disk, boot, f"{node}/{disk}", f"{node}:1", versions, replace))


def join(seat: Machine, data: bytes) -> list[CallAnswer]:
    answers: list[CallAnswer] = []
    seat.member.join_leave.join(data, lambda answer: answers.append(decode_answer(answer)))
    return answers


def leave(seat: Machine, node: str) -> list[CallAnswer]:
    answers: list[CallAnswer] = []
    data = encode_call(LeaveRequest(node, True))
    seat.member.join_leave.leave(data, lambda answer: answers.append(decode_answer(answer)))
    return answers


def test_a_join_is_answered_when_the_log_has_it() -> None:
    company = MemberHarness(3)
    leader = company.leader()
    answers = join(leader, request(leader, "n4"))
    assert answers == []
    assert leader.member.join_leave.open_requests == 1
    company.until(lambda: bool(answers))
    assert leader.member.join_leave.open_requests == 0
    (answer,) = answers
    assert (answer.problem, answer.cluster_id) == ("", "cluster-of-n1")
    assert sorted(answer.members) == [(f"n{number}", f"n{number}:1") for number in (1, 2, 3, 4)]


def test_who_does_not_lead_names_the_leader_at_once() -> None:
    company = MemberHarness(3)
    leader = company.leader()
    other = next(seat for seat in company.seats if seat is not leader)
    (answer,) = join(other, request(other, "n4"))
    assert (answer.ask, answer.problem) == (f"{leader.name}:1", "")


def test_two_join_at_once_at_a_node_that_is_alone() -> None:
    company = MemberHarness(3, joined=False)
    second, third = company[2].join("n1:1"), company[3].join("n1:1")
    company.until(lambda: bool(second and third))
    company[2].adopt(second[0])
    company[3].adopt(third[0])
    company.whole()
    assert company[1].member.view.serving == ("n1", "n2", "n3")


def test_the_same_join_twice_is_answered_twice_and_done_once() -> None:
    company = MemberHarness(2)
    leader = company.leader()
    answers = join(leader, request(leader, "n4")) , join(leader, request(leader, "n4"))  # fmt: skip
    company.until(lambda: all(answers))
    assert [each[0].problem for each in answers] == ["", ""]
    assert sorted(leader.member.membership.members) == ["n1", "n2", "n4"]


def test_a_join_to_itself_or_with_an_unknown_protocol_is_refused() -> None:
    company = MemberHarness(1, joined=False)
    (answer,) = join(company[1], request(company[1], "n1"))
    assert answer.problem == "n1 cannot join itself"
    (answer,) = join(company[1], request(company[1], "n2", versions=(7, 9)))
    assert answer.problem == f"n2 speaks version 7 to 9, this cluster {VERSIONS[0]} to {VERSIONS[1]}"
    assert not company[1].member.clustered  # and no cluster was founded for it


def test_a_node_that_is_about_to_join_founds_no_cluster() -> None:
    company = MemberHarness(1, joined=False)
    company[1].member.join_leave.joining = True
    (answer,) = join(company[1], request(company[1], "n2"))
    assert answer.problem == "n1 is about to join a cluster itself"
    assert not company[1].member.clustered


def test_a_name_that_was_started_more_often_is_told_how_often() -> None:
    company = MemberHarness(2)
    company[2].kill()
    leader = company[1]
    company.until(lambda: not leader.member.links.hears("n2"))
    answers = join(leader, request(leader, "n2", disk="new", boot=1, replace=True))
    company.until(lambda: bool(answers))
    assert answers[0].boot == 1 + UNLOGGED_MAX
    assert "boot 1 is not above 1001" in answers[0].problem


@pytest.mark.parametrize("replace", [False, True])
def test_nobody_joins_under_the_name_of_a_member_that_is_heard(replace: bool) -> None:
    """Another disk and a higher boot: the live node would be taken out. Nothing is raised, at either of the two."""
    company = MemberHarness(3)
    leader = company.leader()
    alive = next(seat for seat in company.seats if seat is not leader)
    membership = leader.member.membership
    before = (membership.members[alive.name], membership.boots[alive.name], membership.view)
    answers = join(leader, request(leader, alive.name, disk="new", boot=2 + UNLOGGED_MAX, replace=replace))
    company.until(lambda: bool(answers))
    assert f"{alive.name} is a running member at {alive.name}:1" in answers[0].problem
    assert (answers[0].boot, answers[0].cluster_id, answers[0].members) == (0, "", ())
    company.pass_s(3.0)
    assert (membership.members[alive.name], membership.boots[alive.name], membership.view) == before
    assert alive.member.leased()


def test_the_name_of_an_absent_member_is_taken_only_with_replace() -> None:
    company = MemberHarness(3)
    leader = company.leader()
    dead = next(seat for seat in company.seats if seat is not leader)
    dead.kill()
    company.until(lambda: not leader.member.links.hears(dead.name))
    boots = dict(leader.member.membership.boots)
    refused = join(leader, request(leader, dead.name, disk="new", boot=1))
    company.until(lambda: bool(refused))
    assert "if the disk is lost, join with --replace" in refused[0].problem
    assert refused[0].boot == 0 and leader.member.membership.boots == boots
    taken = join(leader, request(leader, dead.name, disk="new", boot=2 + UNLOGGED_MAX, replace=True))
    company.until(lambda: bool(taken))
    assert taken[0].problem == ""
    assert leader.member.membership.members[dead.name].disk == "new"


def test_a_stale_member_rejoins_with_another_disk_without_replace() -> None:
    """The log has said already that what it had is given up."""
    company = MemberHarness(3)
    leader = company.leader()
    dead = next(seat for seat in company.seats if seat is not leader)
    dead.kill()
    company.until(lambda: leader.member.view.row(dead.name) is None)
    assert leader.member.lease_service is not None
    leader.member.lease_service.submit(Stale(dead.name))
    company.until(lambda: leader.member.membership.members[dead.name].stale)
    taken = join(leader, request(leader, dead.name, disk="new", boot=2 + UNLOGGED_MAX))
    company.until(lambda: bool(taken))
    assert taken[0].problem == ""


def test_without_a_majority_it_ends_with_the_reason() -> None:
    company = MemberHarness(3)
    leader = company.leader()
    others = [seat for seat in company.seats if seat is not leader]
    for seat in others:
        seat.kill()
    answers = join(leader, request(leader, "n4"))
    took = company.until(lambda: bool(answers))
    assert took < 10.2
    assert "there is no leader" in answers[0].problem


def test_a_leave_waits_for_the_last_lease_and_is_answered() -> None:
    company = MemberHarness(3)
    leader = company.leader()
    other = next(seat for seat in company.seats if seat is not leader)
    answers = leave(leader, other.name)
    while not answers:
        assert other.member.leased() or other.name in leader.member.membership.members
        company.pass_s(0.01)
    assert answers[0].problem == ""
    assert not other.member.leased()


def test_the_leader_leaves() -> None:
    company = MemberHarness(3)
    leader = company.leader()
    other = next(seat for seat in company.seats if seat is not leader)
    answers = other.leave(leader.name)
    company.until(lambda: bool(answers))
    assert answers[0].problem == ""
    company.until(lambda: leader.name not in other.member.membership.members)
    rest = [seat for seat in company.seats if seat is not leader]
    company.until(lambda: all(seat.serving and seat.member.whole for seat in rest))


def test_the_last_member_is_told_that_it_cannot_leave() -> None:
    company = MemberHarness(2)
    answers = company[1].leave("n2")
    company.until(lambda: bool(answers))
    assert answers[0].problem == ""
    last = leave(company[1], "n1")
    assert company.until(lambda: bool(last)) < 5
    assert last[0].problem == "the last member cannot leave"


def test_who_is_no_member_cannot_leave() -> None:
    company = MemberHarness(2)
    (answer,) = leave(company[1], "n9")
    assert answer.problem == "n9 is not a member of this cluster"


def test_a_node_that_is_alone_has_no_members() -> None:
    company = MemberHarness(1, joined=False)
    (answer,) = leave(company[1], "n1")
    assert answer.problem == "n1 is not a member of this cluster"


def test_a_node_behind_in_the_log_does_not_answer_not_a_member() -> None:
    """An operator who asks again takes that for done, and empties a disk, here of the only voter."""
    company = MemberHarness(2, joined=False)
    answers = company[2].join("n1:1")
    company.until(lambda: bool(answers))
    company[2].adopt(answers[0])
    assert "n1" not in company[2].member.membership.members
    answers = leave(company[2], "n1")
    company.until(lambda: bool(answers))
    assert (answers[0].problem, answers[0].ask) == ("", "n1:1")


def test_a_new_leader_answers_only_after_applying_earlier_entries() -> None:
    """Else an operator hears that a member stays who is gone a moment later (3 nodes, seed 223279)."""
    company = MemberHarness(3)
    leader = company.leader()
    heir, gone = (seat for seat in company.seats if seat is not leader)
    gone.kill()
    company.until(lambda: heir.member.view.row(gone.name) is None)
    assert leader.member.consensus is not None and heir.member.consensus is not None
    for seat in company.seats:
        seat.disks[1].latency_s = (0.01, 0.01)
    leader.member.consensus.raft.transfer(heir.member.peer)
    leader.member.consensus.pump()
    while not heir.member.consensus.leads:
        company.pass_s(0.0001)
    stranger, needed = leave(heir, "n9"), leave(heir, leader.name)
    assert not stranger and not needed and not heir.member.consensus.raft.up_to_date
    assert company.until(lambda: bool(stranger and needed)) < 1
    assert heir.member.consensus.raft.up_to_date
    assert stranger[0].problem == "n9 is not a member of this cluster"
    assert needed[0].problem.startswith(f"{leader.name} is needed for a majority")


def test_a_leave_and_a_join_of_the_same_name_have_each_their_own_end() -> None:
    """A machine is replaced while the operator takes out the old one: neither is told of the other's success."""
    company = MemberHarness(3)
    leader = company.leader()
    victim = next(seat for seat in company.seats if seat is not leader)
    left = leave(leader, victim.name)
    victim.kill()
    company.until(lambda: not leader.member.links.hears(victim.name))
    joined = join(leader, request(leader, victim.name, disk="new", boot=2 + UNLOGGED_MAX, replace=True))
    company.until(lambda: bool(left and joined))
    assert left[0].problem == ""
    assert joined[0].problem == ""
    company.pass_s(3.0)
    row = leader.member.membership.members.get(victim.name)
    assert row is None or row.disk == "new"


def test_a_leader_that_is_none_any_more_sends_those_who_wait_to_the_next() -> None:
    company = MemberHarness(3)
    leader = company.leader()
    others = [seat for seat in company.seats if seat is not leader]
    for seat in others:
        company.network.cut(leader.name, seat.name)
    answers = join(leader, request(leader, "n4"))
    company.pass_s(3.0)
    company.network.heal()
    company.until(lambda: bool(answers))
    assert answers[0].ask in {f"{seat.name}:1" for seat in company.seats} or answers[0].problem == ""


@pytest.mark.parametrize("method", ["join", "leave"])
def test_noise_is_an_error(method: str) -> None:
    company = MemberHarness(1, joined=False)
    with pytest.raises(MalformedCall):
        company[1].member.answer_call(method, b"\xc1", lambda _: None)
    assert not company[1].member.clustered


def test_a_repeated_join_with_a_new_disk_is_answered_after_a_kill() -> None:
    company = MemberHarness(3)
    company[3].kill()
    company[3].replace_disk("n3-second-disk")
    company[3].start()
    company[3].join("n1:1")
    company.until(lambda: company[1].member.membership.members["n3"].disk == "n3-second-disk")
    company[3].kill()
    company[3].start()
    assert not company[3].member.clustered
    company.join(company[3])
    company.whole()


@pytest.mark.parametrize("method", ["join", "leave"])
def test_a_request_at_the_moment_of_an_election_is_kept(method: str) -> None:
    """Its former lease is still valid, and a leader that hands over sends those who ask to it."""
    company = MemberHarness(3)
    leader = company.leader()
    heir, other = (seat for seat in company.seats if seat is not leader)
    assert leader.member.consensus is not None and heir.member.consensus is not None
    leader.member.consensus.raft.transfer(heir.member.peer)
    leader.member.consensus.pump()
    while not heir.member.consensus.leads:
        company.pass_s(0.0001)
    assert heir.member.leased()
    answers = leave(heir, other.name) if method == "leave" else join(heir, request(heir, "n4"))
    assert company.until(lambda: bool(answers)) < 5
    assert answers[0].problem == ""


@pytest.mark.parametrize("method", ["join", "leave"])
def test_a_request_survives_a_failed_leadership_transfer(method: str) -> None:
    company = MemberHarness(3)
    leader = company.leader()
    heir, other = (seat for seat in company.seats if seat is not leader)
    assert leader.member.consensus is not None
    leader.member.consensus.raft.transfer(heir.member.peer)
    heir.kill()
    answers = leave(leader, heir.name) if method == "leave" else join(leader, request(leader, "n4"))
    assert company.until(lambda: bool(answers)) < 5
    assert answers[0].problem == "" and other.member.leased()


def test_the_only_voter_of_two_cannot_leave_before_there_is_a_third() -> None:
    """The other one could elect nobody any more, and let nobody in."""
    company = MemberHarness(3, joined=False)
    company.join(company[2])
    company.until(lambda: all(seat.member.whole for seat in company.seats[:2]))
    answers = company[2].leave("n1")
    company.until(lambda: bool(answers))
    assert answers[0].problem == "n1 is needed for a majority of the members that vote: let another node join first"
    assert company[1].member.leased() and len(company[1].member.membership.members) == 2
    company.join(company[3])
    company.whole()
    answers = company[2].leave("n1")
    company.until(lambda: bool(answers))
    assert answers[0].problem == ""
    company[1].kill()
    company.until(lambda: company[2].member.whole and company[3].member.whole)


def test_a_voter_cannot_leave_while_another_one_is_away() -> None:
    """Taken out first, the one that is away is no voter any more when the other goes: then it can."""
    company = MemberHarness(3)
    leader = company.leader()
    gone, other = (seat for seat in company.seats if seat is not leader)
    gone.kill()
    company.until(lambda: leader.member.view.row(gone.name) is None)
    for name in (leader.name, other.name):
        answers = leave(leader, name)
        company.until(partial(bool, answers))
        assert answers[0].problem == (
            f"{name} is needed for a majority of the members that vote while {gone.name} is away: start it again or "
            "take it out first"
        )
    answers = leave(leader, gone.name)
    company.until(lambda: bool(answers))
    assert answers[0].problem == ""
    consensus = leader.member.consensus
    assert consensus is not None
    company.until(lambda: consensus.raft.configuration.voters == (leader.member.peer,))
    answers = leave(leader, other.name)
    company.until(lambda: bool(answers))
    assert answers[0].problem == "" and leader.member.leased()


def test_a_leader_that_comes_back_with_another_disk_waits_for_another_leader() -> None:
    """It was told to ask the leader, which was itself."""
    company = MemberHarness(3)
    leader = company.leader()
    other = next(seat for seat in company.seats if seat is not leader)
    leader.kill()
    leader.replace_disk("another-disk")
    leader.start()
    company.join(leader, f"{other.name}:1")
    company.whole()
