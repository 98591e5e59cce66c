"""Members on virtual time: joining, leaving, coming back, and what a log that is read again must not do."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest

from strogoff.cluster.links.hello import PeerInfo
from strogoff.cluster.links.ports import Lane
from tests.harness.members import Machine, MemberHarness


def told(seat: Machine) -> tuple[str, bool, bool]:
    """The last event about lease and view that the listener got."""
    _, leased, whole = next(each for each in reversed(seat.guest.said) if each[0] == "standing")
    return ("standing", leased, whole)


def test_a_node_without_a_cluster_is_standalone_and_may_acknowledge() -> None:
    member = MemberHarness(1, joined=False)[1].member
    assert (member.standalone, member.leased(), member.whole, member.clustered) == (True, True, True, False)
    assert member.view.id == 0
    assert member.incarnation is None


def test_three_nodes_become_one_cluster() -> None:
    company = MemberHarness(3)
    views = [seat.member.view for seat in company.seats]
    assert views[0] == views[1] == views[2]
    assert [seat.member.me.cluster_id for seat in company.seats] == ["cluster-of-n1"] * 3
    assert company[1].member.view.serving == ("n1", "n2", "n3")
    assert all(not seat.member.standalone for seat in company.seats)


def test_publishes_cross_in_order_and_are_acknowledged() -> None:
    company = MemberHarness(2)
    for number in range(50):
        company[1].member.links.send("n2", Lane.PUBLISH, b"%d" % number)
    company.pass_s(0.1)
    assert [payload for _, payload in company[2].guest.taken] == [b"%d" % number for number in range(50)]
    assert company[1].guest.acknowledged == {"n2": 50}


def test_a_cut_off_node_loses_its_lease_before_the_view_changes() -> None:
    company = MemberHarness(3)
    for other in ("n1", "n2"):
        company.network.cut(other, "n3")
    member = company[3].member
    company.until(lambda: company[1].member.view.row("n3") is None)
    assert not member.leased()
    company.network.heal()
    company.whole()
    since = [said[1] for said in company[3].guest.said if said[0] == "entering"]
    assert since == sorted(since)
    assert len(since) == 2


def test_it_enters_before_it_announces_and_is_informed_before_it_serves() -> None:
    company = MemberHarness(3)
    said = [each[0] for each in company[3].guest.said if each[0] in ("entering", "announce", "informed")]
    assert said[:3] == ["entering", "announce", "informed"]


@pytest.mark.parametrize("power", [False, True])
def test_a_fast_restart_is_another_incarnation(power: bool) -> None:
    company = MemberHarness(3)
    before = company[1].member.view.incarnation("n2")
    company[2].kill(power)
    company[2].start()
    company.until(lambda: company[2].serving)
    company.whole()
    after = company[1].member.view.incarnation("n2")
    assert before is not None
    assert after is not None
    assert after.boot == before.boot + 1
    assert after.entered_in_view > before.entered_in_view
    downs = [facts["target"] for kind, facts in company[1].events if kind == "mem.down"]
    assert downs == ["n2"]


def test_all_restart_at_once() -> None:
    company = MemberHarness(3)
    for seat in company.seats:
        seat.kill(power=True)
    for seat in company.seats:
        seat.start()
    assert company.whole() < 6.0
    assert [row.boot for row in company[1].member.view.rows] == [2, 2, 2]


def test_a_founder_killed_with_an_empty_log_reports_its_lease() -> None:
    """The listener of every member begins without a lease. A founder always has one, so it must be reported once."""
    company = MemberHarness(1, joined=False)
    company[1].member.found()
    company.pass_s(0.1)
    company[1].kill()
    company[1].start()
    assert company[1].member.membership.members == {}
    company.pass_s(1.0)
    assert told(company[1]) == ("standing", True, True)


def test_a_restarted_founder_is_not_standalone_before_it_has_read_its_log() -> None:
    """Of two only it votes: it leads at once, and applies what is in the log after the next write of its disk."""
    company = MemberHarness(2)
    company[1].kill()
    company[1].start()
    assert not company[1].member.standalone
    assert not company[1].member.leased()
    assert told(company[1])[1] is False
    company.whole()


def test_a_new_disk_ignores_the_log_entries_of_its_former_disk() -> None:
    company = MemberHarness(3)
    company[1].kill()
    company[1].replace_disk("n1-second-disk")
    company[1].start()
    before = len(company[1].guest.said)
    company.until(lambda: company[2].member.view.row("n1") is None)
    company.join(company[1], "n2:1")
    assert company[1].guest.said[before:].index(("standing", True, True)) > company[1].guest.said.index(("informed",))


def test_a_member_back_with_another_disk_ignores_its_logged_leave() -> None:
    company = MemberHarness(3)
    answers = company[1].leave("n3")
    company.until(lambda: bool(answers))
    assert answers[0].problem == ""
    company[3].member.left()
    assert company[3].left == 1
    company[3].kill()
    company[3].replace_disk("n3-second-disk")
    company[3].start()
    company.join(company[3])
    company.whole()
    assert company[3].left == 1  # the old one alone
    assert company[3].member.registrar.problem == ""


@pytest.mark.parametrize("leader", ["new node", "new disk"])
def test_a_member_that_does_not_know_the_leader_learns_from_another(leader: str) -> None:
    """Only the leader can tell it the log, which says that the leader is no stranger (5 nodes, seeds 1379 and 1574)."""
    company = MemberHarness(5, joined=False)
    new, away = (company[4], company[3]) if leader == "new node" else (company[5], company[2])
    for seat in company.seats[1:]:
        if leader == "new disk" or seat.name in ("n2", "n3"):
            company.join(seat)
    company.until(lambda: len(company.leader().member.consensus.raft.configuration.voters) % 2)  # type: ignore[union-attr]
    for seat in company.seats:
        if seat is not away:
            company.network.cut(seat.name, away.name)
    if leader == "new disk":
        new.kill()
        new.replace_disk("second-disk")
        new.start()
    for seat in company.seats[3:]:
        if not seat.member.clustered:
            company.join(seat)
    peer = new.member.peer
    company.until(lambda: company.leader().member.consensus.raft.caught_up(peer))  # type: ignore[union-attr]
    company.until(lambda: peer in company.leader().member.consensus.raft.configuration.voters)  # type: ignore[union-attr]
    company.leader().member.consensus.raft.transfer(peer)  # type: ignore[union-attr]
    company.until(lambda: new.member.consensus.leads)  # type: ignore[union-attr]
    company.network.heal()
    company.until(lambda: away.serving and new.member.whole)


def test_a_node_behind_in_the_log_keeps_its_tombstones() -> None:
    """It does not know who else is a member (3 nodes, seed 41100 with disk_lost,kill,cut)."""
    company = MemberHarness(3, joined=False)
    company.join(company[2])
    answers = company[3].join("n1:1")
    company.until(lambda: bool(answers))
    for other in ("n1", "n2"):
        company.network.cut("n3", other)
    company[3].adopt(answers[0])
    metadata = company[3].member.metadata
    metadata.put(b"tx", b"v")
    metadata.delete(b"tx")
    company.pass_s(20.0)
    assert metadata.statistics().tombstones == 1
    company.network.heal()
    company.whole()
    company.pass_s(30.0)
    assert metadata.statistics().tombstones == 0


def test_who_left_in_its_absence_stays_out() -> None:
    company = MemberHarness(3)
    company[3].kill()
    company.until(lambda: company[1].member.view.row("n3") is None)
    answers = company[1].leave("n3")
    company.until(lambda: bool(answers))
    company[3].start()
    company.pass_s(5.0)
    assert not company[3].serving
    assert company[1].member.whole


def test_what_is_told_of_a_new_disk_is_told_once_in_its_time() -> None:
    company = MemberHarness(3)
    company[3].kill()
    company[3].replace_disk("n3-second-disk")
    company[3].start()
    company.join(company[3])
    company.whole()
    assert ("replaced", "n3") in company[1].guest.said
    company[2].kill()
    company[2].start()
    company.whole()
    company[3].member.links.send("n2", Lane.PUBLISH, b"after")
    company.pass_s(1.0)
    assert company[2].guest.taken == [("n3", b"after")]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cluster_id": "other"}, "belongs to the cluster other, not to cluster-of-n1"),
        ({"node": "n9"}, "n9 is not a member of this cluster"),
        ({"disk": "stolen"}, "the disk of n2 is another one than that of the member"),
        ({"boot": 0}, "n2 was started 1 times, and this is start 0"),
        ({"process": "twin"}, "start 1 of n2 was another process"),
    ],
)
def test_strangers_are_refused_with_a_reason(change: dict[str, object], reason: str) -> None:
    company = MemberHarness(2)
    me = company[2].member.me
    fields = {"node": me.node, "boot": me.boot, "disk": me.disk, "process": me.process} | {
        "cluster_id": me.cluster_id,
        "address": me.address,
    }
    said = company[1].member.check(PeerInfo(**(fields | change)))  # type: ignore[arg-type]
    assert said is not None
    assert reason in said
    assert company[1].member.check(PeerInfo(**fields)) is None  # type: ignore[arg-type]


def test_a_node_alone_talks_to_nobody() -> None:
    company = MemberHarness(2, joined=False)
    me = company[2].member.me
    hello = PeerInfo(me.node, me.boot, me.disk, me.process, me.cluster_id, me.address)
    assert company[1].member.check(hello) == "n1 is not in a cluster"


def test_an_unknown_call_is_answered() -> None:
    company = MemberHarness(1, joined=False)
    answers: list[bytes] = []
    company[1].member.answer_call("dance", b"", answers.append)
    assert b"does not know the call dance" in answers[0]


def test_views_are_applied_alike_and_in_order() -> None:
    company = MemberHarness(3)
    company[2].kill()
    company.until(lambda: company[1].member.view.row("n2") is None)
    company[2].start()
    company.whole()
    for number in (1, 3):
        seen = [said[1] for said in company[number].guest.said if said[0] == "view"]
        assert all(a < b for a, b in pairwise(seen))


def test_a_closed_member_is_silent() -> None:
    company = MemberHarness(2)
    company[2].member.close()
    company.pass_s(1.0)
    frames = company[2].member.links.traffic.frames_out
    company.pass_s(3.0)
    assert company[2].member.links.traffic.frames_out == frames
    assert company[1].member.view.row("n2") is None


@pytest.mark.parametrize("later_ms", range(0, 700, 35))
def test_the_cluster_survives_when_the_second_node_dies_while_a_third_joins(later_ms: int) -> None:
    """Two of three are alive, whenever it dies. The second and the third begin to vote in one entry of the log."""
    company = MemberHarness(3, joined=False)
    company.join(company[2])
    answers = company[3].join("n1:1")
    company.until(lambda: bool(answers))
    company[3].adopt(answers[0])
    company.pass_s(later_ms / 1000)
    company[2].kill()
    assert company.until(lambda: company[1].serving and company[3].serving) < 5
    company.pass_s(3)
    assert company[1].serving and company[3].serving


@pytest.mark.parametrize("who", ["the leader", "another"])
def test_a_node_that_stops_in_order_is_out_of_the_view_at_once(who: str) -> None:
    company = MemberHarness(3)
    leader = company.leader()
    seat = leader if who == "the leader" else next(each for each in company.seats if each is not leader)
    others = [each for each in company.seats if each is not seat]
    assert seat.serving and seat.member.goodbye()
    assert not seat.serving and not seat.member.leased()
    began = company.loop.now_s
    company.until(lambda: seat.member.has_left_view or company.loop.now_s - began > 0.1)
    seat.member.close()
    seat.kill()
    assert company.until(lambda: all(each.member.view.row(seat.name) is None for each in others)) < 0.1
    for _ in range(40):
        company.pass_s(0.1)
        assert all(each.serving for each in others)
    seat.start()
    company.whole()


def test_a_node_that_said_goodbye_is_not_let_in_again_before_it_starts_anew() -> None:
    company = MemberHarness(3)
    leader = company.leader()
    seat = next(each for each in company.seats if each is not leader)
    assert seat.member.goodbye()
    company.pass_s(3.0)
    assert seat.member.has_left_view and not seat.member.leased()
    assert leader.member.view.row(seat.name) is None and leader.serving


def test_the_last_majority_stays_in_the_view_when_it_stops() -> None:
    """All stop, one after the other. Whoever is back first does not wait for the one that stopped last."""
    company = MemberHarness(3)
    leader = company.leader()
    first, second = (each for each in company.seats if each is not leader)
    for seat in (first, second, leader):
        seat.member.goodbye()
        company.pass_s(0.1)
        seat.kill()
    informed_members = leader.member.membership.informed_members
    assert informed_members == tuple(sorted([second.name, leader.name]))
    first.start()
    second.start()
    assert company.until(lambda: first.serving and second.serving) < 10


def test_a_node_alone_says_goodbye_to_nobody() -> None:
    company = MemberHarness(1, joined=False)
    assert not company[1].member.goodbye()
    company[1].member.found()
    company.until(lambda: company[1].serving)
    assert not company[1].member.goodbye()
    assert company[1].serving


@pytest.mark.parametrize("when", ["while it ran", "while it was away"])
def test_a_node_that_was_taken_out_says_so_after_its_next_start(when: str) -> None:
    company = MemberHarness(3)
    seat = next(each for each in company.seats if each is not company.leader())
    if when == "while it was away":
        seat.kill()
        company.until(lambda: company.leader().member.view.row(seat.name) is None)
    answers = company.leader().leave(seat.name)
    company.until(lambda: bool(answers))
    assert answers[0].problem == ""
    if when == "while it ran":
        seat.member.left()
        company.pass_s(0.1)
        seat.kill()
    seat.start()
    company.until(lambda: seat.member.registrar.problem)
    problem = seat.member.registrar.problem
    assert "has left the cluster" in problem or "no longer a member" in problem
    assert any("strogoff reset" in text for level, text in seat.log if level == "error")
    assert not seat.member.leased() and company.leader().member.leased()
    seat.kill()
    seat.replace_disk("begun-anew")
    seat.start()
    company.join(seat, f"{company.leader().name}:1")
    company.whole()


def test_a_member_with_a_new_disk_differs_from_the_one_that_left() -> None:
    """Another member may not have read yet that it came back."""
    company = MemberHarness(3)
    membership = company[1].member.membership
    assert membership.last_possible("n4") == 0
    assert membership.last_possible("n3") == membership.boots["n3"] + 1000


def ticks_in(company: MemberHarness, seat: Machine, seconds: float) -> int:
    """How often a member looked at the time."""
    ticked = 0
    reporting = seat.member.reporting
    tick = reporting.tick

    def counted() -> None:
        nonlocal ticked
        ticked += 1
        tick()

    reporting.tick = counted  # type: ignore[method-assign]
    company.pass_s(seconds)
    reporting.tick = tick  # type: ignore[method-assign]
    return ticked


def test_while_all_is_calm_a_member_ticks_once_a_heartbeat_of_the_leader() -> None:
    company = MemberHarness(3)
    company.pass_s(1.0)
    heartbeats = 5.0 / (company.leader().member.settings.raft.heartbeat_ms / 1000)
    for seat in company.seats:
        assert heartbeats - 3 <= ticks_in(company, seat, 5.0) <= heartbeats + 3


def test_while_a_member_is_silent_the_others_tick_at_the_full_rate() -> None:
    """From four heartbeats before it counts as not heard, until it is back."""
    company = MemberHarness(3)
    company.pass_s(1.0)
    silent, *others = sorted(company.seats, key=lambda seat: seat is company.leader())
    for other in others:
        company.network.cut(silent.name, other.name)
    company.pass_s(0.8)
    for seat in others:
        assert ticks_in(company, seat, 2.0) >= 2.0 / seat.member.settings.tick_s - 2
    company.network.heal()
    company.whole()
    company.pass_s(1.0)
    assert all(seat.member.calm() for seat in company.seats)


def test_while_a_lease_is_not_renewed_a_member_ticks_at_the_full_rate() -> None:
    company = MemberHarness(3)
    company.pass_s(1.0)
    other = next(seat for seat in company.seats if seat is not company.leader())
    other.disks[0].stall_until = inf
    company.pass_s(1.2)
    assert other.member.leased() and not other.member.calm() and not company.leader().member.calm()


def test_a_calm_follower_stands_for_election_when_that_is_due() -> None:
    """Its timer ends with the Raft deadline, wherever that lies between two calm ticks."""
    company = MemberHarness(3)
    company.pass_s(1.0)
    seat = next(seat for seat in company.seats if seat is not company.leader())
    consensus = seat.member.consensus
    assert consensus is not None and seat.member.calm()
    due_ms = seat.member.ports.now_ms() + 120
    consensus.raft._election_at_ms = due_ms + 1  # as if the leader had been silent for long
    seat.member._tick()
    company.network.cut(seat.name, company.leader().name)
    company.until(lambda: consensus.raft.role != "follower", 1.0)
    assert abs(seat.member.ports.now_ms() - due_ms) < 20
