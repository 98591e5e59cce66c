"""Requests to join or leave: each gets one answer with its result."""

from __future__ import annotations

from functools import partial

import msgspec
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
from strogoff.cluster.membership.state_machine import UNLOGGED_MAX, zone_of
from strogoff.cluster.raft.messages import Change
from tests.harness.members import Machine, MemberHarness


def request(
    machine: Machine,
    node: str,
    disk: str = "d",
    boot: int = 1,
    versions: tuple[int, int] = VERSIONS,
    replace: bool = False,
    if_safe: bool = False,
) -> bytes:
    return encode_call(JoinRequest(node, disk, boot, f"{node}/{disk}", f"{node}:1", versions, replace, if_safe=if_safe))


def join(machine: Machine, data: bytes) -> list[CallAnswer]:
    answers: list[CallAnswer] = []
    machine.member.join_leave.join(data, lambda answer: answers.append(decode_answer(answer)))
    return answers


def leave(machine: Machine, node: str, empty: bool = False) -> list[CallAnswer]:
    answers: list[CallAnswer] = []
    data = encode_call(LeaveRequest(node, True, empty))
    machine.member.join_leave.leave(data, lambda answer: answers.append(decode_answer(answer)))
    return answers


def test_a_join_is_answered_when_the_log_has_it() -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    answers = join(leader, request(leader, "n4"))
    assert answers == []
    assert leader.member.join_leave.open_requests == 1
    cluster.until(lambda: bool(answers))
    assert leader.member.join_leave.open_requests == 0
    (answer,) = answers
    assert (answer.problem, answer.cluster_id) == ("", "cluster-of-n1")
    assert sorted(answer.members) == [(f"n{number}", f"n{number}:1") for number in (1, 2, 3, 4)]


def test_a_follower_names_the_leader_at_once() -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    other = next(machine for machine in cluster.machines if machine is not leader)
    (answer,) = join(other, request(other, "n4"))
    assert (answer.ask, answer.problem) == (f"{leader.name}:1", "")


def test_two_nodes_can_join_a_node_alone_at_once() -> None:
    cluster = MemberHarness(3, joined=False)
    second, third = cluster[2].join("n1:1"), cluster[3].join("n1:1")
    cluster.until(lambda: bool(second and third))
    cluster[2].adopt(second[0])
    cluster[3].adopt(third[0])
    cluster.whole()
    assert cluster[1].member.view.serving == ("n1", "n2", "n3")


def test_the_same_join_twice_is_answered_twice_and_done_once() -> None:
    cluster = MemberHarness(2)
    leader = cluster.leader()
    answers = join(leader, request(leader, "n4")) , join(leader, request(leader, "n4"))  # fmt: skip
    cluster.until(lambda: all(answers))
    assert [each[0].problem for each in answers] == ["", ""]
    assert sorted(leader.member.membership.members) == ["n1", "n2", "n4"]


def test_a_join_to_itself_or_with_an_unknown_protocol_is_refused() -> None:
    cluster = MemberHarness(1, joined=False)
    (answer,) = join(cluster[1], request(cluster[1], "n1"))
    assert answer.problem == "n1 cannot join itself"
    later = VERSIONS[1] + 1
    (answer,) = join(cluster[1], request(cluster[1], "n2", versions=(later, later + 2)))
    assert answer.problem == f"n2 speaks version {later} to {later + 2}, this cluster {VERSIONS[0]} to {VERSIONS[1]}"
    assert not cluster[1].member.clustered  # and no cluster was founded for this request


def test_a_node_that_is_about_to_join_founds_no_cluster() -> None:
    cluster = MemberHarness(1, joined=False)
    cluster[1].member.join_leave.joining = True
    (answer,) = join(cluster[1], request(cluster[1], "n2"))
    assert answer.problem == "n1 is about to join a cluster itself"
    assert not cluster[1].member.clustered


def test_a_refused_boot_number_is_answered_with_the_highest_one() -> None:
    cluster = MemberHarness(2)
    cluster[2].kill()
    leader = cluster[1]
    cluster.until(lambda: not leader.member.links.hears("n2"))
    answers = join(leader, request(leader, "n2", disk="new", boot=1, replace=True))
    cluster.until(lambda: bool(answers))
    assert answers[0].boot == 1 + UNLOGGED_MAX
    assert "boot 1 is not above 1001" in answers[0].problem


@pytest.mark.parametrize("replace", [False, True])
def test_the_name_of_a_member_that_is_heard_cannot_be_taken(replace: bool) -> None:
    """A join with another disk and a higher boot would remove the live node. No boot number is
    raised at either node.
    """
    cluster = MemberHarness(3)
    leader = cluster.leader()
    alive = next(machine for machine in cluster.machines if machine is not leader)
    membership = leader.member.membership
    before = (membership.members[alive.name], membership.boots[alive.name], membership.view)
    answers = join(leader, request(leader, alive.name, disk="new", boot=2 + UNLOGGED_MAX, replace=replace))
    cluster.until(lambda: bool(answers))
    assert f"{alive.name} is a running member at {alive.name}:1" in answers[0].problem
    assert (answers[0].boot, answers[0].cluster_id, answers[0].members) == (0, "cluster-of-n1", ())
    cluster.pass_s(3.0)
    assert (membership.members[alive.name], membership.boots[alive.name], membership.view) == before
    assert alive.member.leased()


def test_the_name_of_an_absent_member_is_taken_only_with_replace() -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    dead = next(machine for machine in cluster.machines if machine is not leader)
    dead.kill()
    cluster.until(lambda: not leader.member.links.hears(dead.name))
    boots = dict(leader.member.membership.boots)
    refused = join(leader, request(leader, dead.name, disk="new", boot=1))
    cluster.until(lambda: bool(refused))
    assert "if the disk is lost, join with --replace" in refused[0].problem
    assert refused[0].boot == 0 and leader.member.membership.boots == boots
    taken = join(leader, request(leader, dead.name, disk="new", boot=2 + UNLOGGED_MAX, replace=True))
    cluster.until(lambda: bool(taken))
    assert taken[0].problem == ""
    assert leader.member.membership.members[dead.name].disk == "new"


def test_a_stale_member_rejoins_with_another_disk_without_replace() -> None:
    """The log already says that the data of the old disk is given up."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    dead = next(machine for machine in cluster.machines if machine is not leader)
    dead.kill()
    cluster.until(lambda: leader.member.view.row(dead.name) is None)
    assert leader.member.lease_service is not None
    leader.member.lease_service.submit(Stale(dead.name))
    cluster.until(lambda: leader.member.membership.members[dead.name].stale)
    taken = join(leader, request(leader, dead.name, disk="new", boot=2 + UNLOGGED_MAX))
    cluster.until(lambda: bool(taken))
    assert taken[0].problem == ""


def test_without_a_majority_a_request_ends_with_the_reason() -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    others = [machine for machine in cluster.machines if machine is not leader]
    for machine in others:
        machine.kill()
    answers = join(leader, request(leader, "n4"))
    took = cluster.until(lambda: bool(answers))
    assert took < 10.2
    assert "there is no leader" in answers[0].problem and answers[0].undecided


def test_a_leave_waits_for_the_last_lease_and_is_answered() -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    other = next(machine for machine in cluster.machines if machine is not leader)
    answers = leave(leader, other.name)
    while not answers:
        assert other.member.leased() or other.name in leader.member.membership.members
        cluster.pass_s(0.01)
    assert answers[0].problem == ""
    assert not other.member.leased()


def test_the_leader_leaves() -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    other = next(machine for machine in cluster.machines if machine is not leader)
    answers = other.leave(leader.name)
    cluster.until(lambda: bool(answers))
    assert answers[0].problem == ""
    cluster.until(lambda: leader.name not in other.member.membership.members)
    rest = [machine for machine in cluster.machines if machine is not leader]
    cluster.until(lambda: all(machine.serving and machine.member.whole for machine in rest))


def test_the_last_member_cannot_leave() -> None:
    cluster = MemberHarness(2)
    answers = cluster[1].leave("n2")
    cluster.until(lambda: bool(answers))
    assert answers[0].problem == ""
    last = leave(cluster[1], "n1")
    assert cluster.until(lambda: bool(last)) < 5
    assert last[0].problem == "the last member cannot leave"


def test_a_node_that_is_not_a_member_cannot_leave() -> None:
    cluster = MemberHarness(2)
    (answer,) = leave(cluster[1], "n9")
    assert answer.problem == "n9 is not a member of this cluster"


def test_a_node_that_asks_again_after_a_lost_answer_learns_that_it_has_left() -> None:
    cluster = MemberHarness(2)
    answers = leave(cluster[1], "n2", empty=True)
    cluster.until(lambda: bool(answers))
    (answer,) = leave(cluster[1], "n2", empty=True)
    assert answer.problem == ""


@pytest.mark.parametrize("proposed", [False, True])
def test_a_leave_without_a_decision_in_time_does_not_happen_or_may_happen_later(proposed: bool) -> None:
    """The disk of the only voter's log hangs, before or while it writes the entry. A node that was told no begins
    sessions again, and the entry says that it has none."""
    cluster = MemberHarness(2)
    consensus = cluster[1].member.consensus
    assert consensus is not None
    answers = leave(cluster[1], "n2", empty=True)
    if proposed:
        cluster[1].disks[1].latency_s = (12.0, 12.0)
    else:
        cluster[1].disks[1].stall_until = cluster.loop.now_s + 12.0
        consensus.change(Change("learner", "x/d"))
    cluster.until(lambda: bool(answers))
    assert answers[0].problem == "the cluster did not decide within 10 s"
    assert answers[0].undecided is proposed is bool(consensus.unapplied())
    cluster.pass_s(30)
    assert ("n2" not in cluster[1].member.membership.members) is proposed


@pytest.mark.parametrize(("disk", "named"), [("n2-disk", ""), ("new", "cluster-of-n1")])
def test_a_refusal_names_the_cluster_if_the_log_has_no_member_with_this_disk(disk: str, named: str) -> None:
    """Then no earlier request of that node has made it a member."""
    cluster = MemberHarness(2)
    cluster[2].kill()
    assert cluster[1].member.membership.members["n2"].disk == "n2-disk"
    cluster.until(lambda: not cluster[1].member.links.hears("n2"))
    answers = join(cluster[1], request(cluster[1], "n2", disk=disk, boot=1, replace=True))
    cluster.until(lambda: bool(answers))
    assert (answers[0].problem != "", answers[0].cluster_id) == (True, named)


@pytest.mark.parametrize("proposed", [False, True])
def test_a_join_without_a_decision_in_time_says_whether_it_may_happen_later(proposed: bool) -> None:
    """A node that may become a member serves no client until it knows. One that was not proposed goes on alone."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    others = [machine for machine in cluster.machines if machine is not leader]
    if not proposed:
        for machine in others:
            machine.kill()
        cluster.until(lambda: not leader.member.leased())
    answers = join(leader, request(leader, "n4"))
    for machine in others:
        machine.kill()
    cluster.until(lambda: bool(answers))
    assert answers[0].undecided is proposed
    for machine in others:
        machine.start()
    cluster.whole()
    cluster.pass_s(5.0)
    assert ("n4" in cluster[1].member.membership.members) is proposed


def test_a_node_that_is_alone_has_no_members() -> None:
    cluster = MemberHarness(1, joined=False)
    (answer,) = leave(cluster[1], "n1")
    assert answer.problem == "n1 is not a member of this cluster"


def test_a_node_behind_in_the_log_does_not_answer_not_a_member() -> None:
    """An operator that asks again would take the answer for success and delete a disk, here that of the only voter."""
    cluster = MemberHarness(2, joined=False)
    answers = cluster[2].join("n1:1")
    cluster.until(lambda: bool(answers))
    cluster[2].adopt(answers[0])
    assert "n1" not in cluster[2].member.membership.members
    answers = leave(cluster[2], "n1")
    cluster.until(lambda: bool(answers))
    assert (answers[0].problem, answers[0].ask) == ("", "n1:1")


def test_a_new_leader_answers_only_after_applying_earlier_entries() -> None:
    """Otherwise an operator gets the answer that a removed node is a member (3 nodes, seed 223279)."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    heir, gone = (machine for machine in cluster.machines if machine is not leader)
    gone.kill()
    cluster.until(lambda: heir.member.view.row(gone.name) is None)
    assert leader.member.consensus is not None and heir.member.consensus is not None
    for machine in cluster.machines:
        machine.disks[1].latency_s = (0.01, 0.01)
    leader.member.consensus.raft.transfer(heir.member.peer)
    leader.member.consensus.pump()
    while not heir.member.consensus.leads:
        cluster.pass_s(0.0001)
    stranger, needed = leave(heir, "n9"), leave(heir, leader.name)
    assert not stranger and not needed and not heir.member.consensus.raft.up_to_date
    assert cluster.until(lambda: bool(stranger and needed)) < 1
    assert heir.member.consensus.raft.up_to_date
    assert stranger[0].problem == "n9 is not a member of this cluster"
    assert needed[0].problem.startswith(f"{leader.name} is needed for a majority")


def test_a_leave_and_a_join_of_the_same_name_have_each_their_own_end() -> None:
    """A machine is replaced while the operator removes the old one: each request gets its own result."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    victim = next(machine for machine in cluster.machines if machine is not leader)
    left = leave(leader, victim.name)
    victim.kill()
    cluster.until(lambda: not leader.member.links.hears(victim.name))
    joined = join(leader, request(leader, victim.name, disk="new", boot=2 + UNLOGGED_MAX, replace=True))
    cluster.until(lambda: bool(left and joined))
    assert left[0].problem == ""
    assert joined[0].problem == ""
    cluster.pass_s(3.0)
    row = leader.member.membership.members.get(victim.name)
    assert row is None or row.disk == "new"


def test_a_former_leader_redirects_waiting_requests() -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    others = [machine for machine in cluster.machines if machine is not leader]
    for machine in others:
        cluster.network.cut(leader.name, machine.name)
    answers = join(leader, request(leader, "n4"))
    cluster.pass_s(3.0)
    cluster.network.heal()
    cluster.until(lambda: bool(answers))
    assert answers[0].ask in {f"{machine.name}:1" for machine in cluster.machines} and answers[0].undecided


@pytest.mark.parametrize("method", ["join", "leave"])
def test_noise_is_an_error(method: str) -> None:
    cluster = MemberHarness(1, joined=False)
    with pytest.raises(MalformedCall):
        cluster[1].member.answer_call(method, b"\xc1", lambda _: None)
    assert not cluster[1].member.clustered


def test_a_repeated_join_with_a_new_disk_is_answered_after_a_kill() -> None:
    cluster = MemberHarness(3)
    cluster[3].kill()
    cluster[3].replace_disk("n3-second-disk")
    cluster[3].start()
    cluster[3].join("n1:1")
    cluster.until(lambda: cluster[1].member.membership.members["n3"].disk == "n3-second-disk")
    cluster[3].kill()
    cluster[3].start()
    assert not cluster[3].member.clustered
    cluster.join(cluster[3])
    cluster.whole()


@pytest.mark.parametrize("method", ["join", "leave"])
def test_a_request_at_the_moment_of_an_election_is_kept(method: str) -> None:
    """Its former lease is still valid, and a leader that hands over redirects requests to it."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    heir, other = (machine for machine in cluster.machines if machine is not leader)
    assert leader.member.consensus is not None and heir.member.consensus is not None
    leader.member.consensus.raft.transfer(heir.member.peer)
    leader.member.consensus.pump()
    while not heir.member.consensus.leads:
        cluster.pass_s(0.0001)
    assert heir.member.leased()
    answers = leave(heir, other.name) if method == "leave" else join(heir, request(heir, "n4"))
    assert cluster.until(lambda: bool(answers)) < 5
    assert answers[0].problem == ""


@pytest.mark.parametrize("method", ["join", "leave"])
def test_a_request_survives_a_failed_leadership_transfer(method: str) -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    heir, other = (machine for machine in cluster.machines if machine is not leader)
    assert leader.member.consensus is not None
    leader.member.consensus.raft.transfer(heir.member.peer)
    heir.kill()
    answers = leave(leader, heir.name) if method == "leave" else join(leader, request(leader, "n4"))
    assert cluster.until(lambda: bool(answers)) < 5
    assert answers[0].problem == "" and other.member.leased()


def test_the_only_voter_of_two_cannot_leave_before_there_is_a_third() -> None:
    """The other node could not elect a leader any more."""
    cluster = MemberHarness(3, joined=False)
    cluster.join(cluster[2])
    cluster.until(lambda: all(machine.member.whole for machine in cluster.machines[:2]))
    answers = cluster[2].leave("n1")
    cluster.until(lambda: bool(answers))
    assert answers[0].problem == "n1 is needed for a majority of the members that vote: let another node join first"
    assert cluster[1].member.leased() and len(cluster[1].member.membership.members) == 2
    cluster.join(cluster[3])
    cluster.whole()
    answers = cluster[2].leave("n1")
    cluster.until(lambda: bool(answers))
    assert answers[0].problem == ""
    cluster[1].kill()
    cluster.until(lambda: cluster[2].member.whole and cluster[3].member.whole)


def test_a_voter_cannot_leave_while_another_one_is_away() -> None:
    """If the absent one is removed first, it is no voter when the other one leaves: then it can."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    gone, other = (machine for machine in cluster.machines if machine is not leader)
    gone.kill()
    cluster.until(lambda: leader.member.view.row(gone.name) is None)
    for name in (leader.name, other.name):
        answers = leave(leader, name)
        cluster.until(partial(bool, answers))
        assert answers[0].problem == (
            f"{name} is needed for a majority of the members that vote while {gone.name} is away: start it again or "
            "take it out first"
        )
    answers = leave(leader, gone.name)
    cluster.until(lambda: bool(answers))
    assert answers[0].problem == ""
    consensus = leader.member.consensus
    assert consensus is not None
    cluster.until(lambda: consensus.raft.configuration.voters == (leader.member.peer,))
    answers = leave(leader, other.name)
    cluster.until(lambda: bool(answers))
    assert answers[0].problem == "" and leader.member.leased()


@pytest.mark.parametrize(("size", "going"), [(3, (2, 3)), (3, (1, 2)), (4, (2, 3)), (5, (2, 3, 4)), (5, (1, 2, 3))])
def test_members_that_leave_at_once_leave_a_majority_of_the_voters(size: int, going: tuple[int, ...]) -> None:
    """One goes after the other: the next one when the voters are members again. A leader that leaves answers
    requests of others that wait at it with an error.
    """
    cluster = MemberHarness(size)
    leader = cluster.leader()
    answers = {number: leave(leader, f"n{number}") for number in going}
    cluster.until(lambda: all(answers.values()))
    gone = [number for number, (answer,) in answers.items() if not answer.problem]
    assert gone == list(going) or gone == [1]
    for number in gone:
        cluster[number].kill()
    cluster.whole()
    cluster.pass_s(3.0)
    assert all(machine.member.leased() for machine in cluster.machines if machine.up)


def test_a_member_stays_if_another_voter_dies_before_it_has_left() -> None:
    """The row of the dead voter is in the view for as long as that of the one that leaves."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    dead, other = (machine for machine in cluster.machines if machine is not leader)
    answers = leave(leader, other.name)
    dead.kill()
    cluster.until(partial(bool, answers))
    assert answers[0].problem.startswith(f"{other.name} is needed for a majority of the members that vote")
    cluster.until(lambda: dead.name not in leader.member.view.nodes)
    cluster.pass_s(3.0)
    assert leader.member.leased() and other.member.leased()


def test_a_leader_that_comes_back_with_another_disk_waits_for_another_leader() -> None:
    """Before, it was told to ask the leader, which was itself."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    other = next(machine for machine in cluster.machines if machine is not leader)
    leader.kill()
    leader.replace_disk("another-disk")
    leader.start()
    cluster.join(leader, f"{other.name}:1")
    cluster.whole()


def test_a_leader_that_has_just_lost_its_disk_founds_no_cluster_for_a_node_sent_to_it() -> None:
    """The others take it for the leader for a moment, and send a joining node to it."""
    cluster = MemberHarness(4, joined=False)
    for machine in cluster.machines[1:3]:
        cluster.join(machine)
    cluster.until(lambda: all(machine.settled for machine in cluster.machines[:3]))
    leader, newcomer = cluster.leader(), cluster[4]
    other = next(machine for machine in cluster.machines[:3] if machine is not leader)
    leader.kill()
    leader.replace_disk("another-disk")
    leader.start()
    answers = newcomer.join(f"{other.name}:1")
    cluster.until(lambda: bool(answers))
    assert answers[0].problem.startswith(f"{leader.name} is not in the cluster cluster-of-n1, which takes it")
    assert not leader.member.clustered and not newcomer.member.clustered
    cluster.until(lambda: other.member.view.row(leader.name) is None)
    cluster.join(newcomer, f"{other.name}:1")
    cluster.join(leader, f"{other.name}:1")
    cluster.whole()


def test_the_log_has_the_zones_of_founder_and_joining_node_and_of_a_later_start() -> None:
    cluster = MemberHarness(2, joined=False)
    for machine, zone in zip(cluster.machines, ("rack1", "rack2"), strict=True):
        machine.settings = msgspec.structs.replace(machine.settings, zone=zone)
        machine.kill()
        machine.start()
    cluster.join(cluster[2])
    members = cluster[1].member.membership.members
    assert {name: zone_of(row) for name, row in members.items()} == {"n1": "rack1", "n2": "rack2"}
    cluster[2].kill()
    cluster[2].settings = msgspec.structs.replace(cluster[2].settings, zone="rack3")
    cluster[2].start()
    cluster.until(lambda: zone_of(members["n2"]) == "rack3")


def test_a_disk_with_the_only_copies_is_given_up_by_an_operator_alone() -> None:
    """Discovery asks with `if_safe`: perhaps the data disk is not mounted. The first node has all slots here."""
    cluster = MemberHarness(3)
    cluster[1].kill()
    rest = cluster.machines[1:]
    cluster.until(lambda: any(each.member.consensus and each.member.consensus.leads for each in rest))
    leader = cluster.leader()
    cluster.until(lambda: not leader.member.links.hears("n1"))
    boots = dict(leader.member.membership.boots)
    ask = request(leader, "n1", disk="new", boot=2 + UNLOGGED_MAX, replace=True, if_safe=True)
    refused = join(leader, ask)
    cluster.until(lambda: bool(refused))
    assert "no other node has everything of its slots 0-255: start it with that disk; if the" in refused[0].problem
    assert refused[0].boot == 0 and leader.member.membership.boots == boots and not refused[0].taken
    taken = join(leader, request(leader, "n1", disk="new", boot=2 + UNLOGGED_MAX, replace=True))
    cluster.until(lambda: bool(taken))
    assert taken[0].problem == ""


def test_a_disk_of_which_others_have_everything_is_given_up_without_an_operator() -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    dead = next(machine for machine in cluster.machines[1:] if machine is not leader)
    dead.kill()
    cluster.until(lambda: not leader.member.links.hears(dead.name))
    taken = join(leader, request(leader, dead.name, disk="new", boot=2 + UNLOGGED_MAX, replace=True, if_safe=True))
    cluster.until(lambda: bool(taken))
    assert taken[0].problem == ""


def test_a_process_that_wants_the_name_of_a_running_member_is_logged_once() -> None:
    cluster = MemberHarness(3)
    leader = cluster.leader()
    alive = next(machine for machine in cluster.machines if machine is not leader)
    for disk in ("new", "new", "newer"):
        answers = join(leader, request(leader, alive.name, disk=disk, boot=2 + UNLOGGED_MAX, replace=True))
        cluster.until(partial(bool, answers))
        assert answers[0].taken
    name = alive.name
    wants = f"a process at {name}:1 wants to join as {name}, and is refused: a member with that name and another disk"
    assert [text.startswith(wants) for level, text in leader.log if level == "warning" and "wants to" in text] == [
        True
    ] * 2


def test_the_name_of_the_running_leader_is_taken() -> None:
    """Other nodes wait for another leader: perhaps that one has just lost its disk."""
    cluster = MemberHarness(3)
    leader = cluster.leader()
    other = next(machine for machine in cluster.machines if machine is not leader)
    answers = join(other, request(other, leader.name, disk="new", boot=2 + UNLOGGED_MAX, replace=True))
    cluster.until(lambda: bool(answers), 15.0)
    assert answers[0].problem.startswith(f"{leader.name} is a running member at") and answers[0].taken
    assert not answers[0].undecided
