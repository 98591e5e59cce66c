"""The leader's side, step by step. Times are the leader's clock, in milliseconds."""

from __future__ import annotations

from functools import partial

from strogoff.cluster.membership.commands import Away, Boot, Command, Leave, RecoverSlots, Row, SetSlots, SetView, Stale
from strogoff.cluster.membership.coordinator import SLOTS_MS, SUBMITTED_MOST, MembershipCoordinator
from strogoff.cluster.membership.messages import Goodbye, LeaseReply, LeaseRequest
from strogoff.cluster.membership.settings import Settings
from strogoff.cluster.membership.state_machine import MembershipState
from strogoff.cluster.membership.voters import Transfer
from strogoff.cluster.raft.messages import Configuration
from strogoff.cluster.slots.table import SlotRow

from .test_state_machine import apply, boot, cluster, join
from .test_voters import Peers, peer

TIMES = Settings(lease_ms=2000, detection_ms=2500)
A = Row("a", 1, 1, True)
B = Row("b", 1, 2, True)
C = Row("c", 1, 2, True)


class Leader:
    """A coordinator at node a of a cluster of three, elected long ago; b, c and a are heard as the test wants it."""

    def __init__(self, membership: MembershipState | None = None, elected: float = -10_000) -> None:
        self.membership = membership or cluster("a", "b", "c")
        self.clock_ms = 777
        self.known_slow: dict[str, int] = {}
        self.coordinator = MembershipCoordinator("a", self.membership, lambda: self.clock_ms, TIMES)
        self.peers = Peers("a", "abc")
        self.coordinator.decide(elected, self.peers)
        self.number = 0

    def request(self, node: str, now: float, hears: str | None = None, view: int | None = None) -> int | None:
        self.number += 1
        member, row = self.membership.members[node], self.membership.view.row(node)
        others = "abc".replace(node, "") if hears is None else hears
        at = self.membership.view.id if view is None else view
        entered_in_view = row.entered_in_view if row else 0
        return self.coordinator.request(
            LeaseRequest(node, member.boot, member.process, self.number, tuple(others), at, entered_in_view), now
        )

    def grant(self, node: str, now: float, hears: str | None = None) -> list[tuple[str, LeaseReply]]:
        ticket = self.request(node, now, hears)
        return [] if ticket is None else self.coordinator.confirmed(ticket, now, self.known_slow)

    def decide(self, now: float) -> list[object]:
        return list(self.coordinator.decide(now, self.peers))

    def quiet_until(self, begin: float, end: float, *nodes: str, deaf: str = "") -> float | None:
        """Requests of `nodes` each 250 ms from `begin`; nodes in `deaf` are not heard. Returns the time of the first
        proposed view.
        """
        now = begin
        while now < end:
            for node in nodes:
                self.grant(node, now, "".join(n for n in "abc" if n not in (node, *deaf)))
            if any(isinstance(proposal, SetView) for proposal in self.decide(now)):
                return now
            now += 50
        return None


def test_a_lease_after_a_majority_confirmed_it() -> None:
    leader = Leader()
    ticket = leader.request("b", 100)
    assert ticket is not None
    assert leader.coordinator.confirmed(ticket, 150) == [("b", LeaseReply("b", 1, "b-1", 1, 2, 777, held_ms=50))]
    assert leader.coordinator.confirmed(ticket, 160) == []


def test_strangers_former_processes_and_old_requests_get_no_lease() -> None:
    leader = Leader()
    old = LeaseRequest("b", 1, "b-0", 1, (), 3, 2)
    assert leader.coordinator.request(old, 0) is None
    assert leader.coordinator.request(LeaseRequest("x", 1, "x-1", 1, (), 3, 2), 0) is None
    again = LeaseRequest("b", 1, "b-1", 5, ("a", "c"), 3, 2)
    assert leader.coordinator.request(again, 0) is not None and leader.coordinator.request(again, 1) is None


def test_no_lease_for_an_incarnation_that_the_node_does_not_know() -> None:
    leader = Leader()
    assert leader.coordinator.request(LeaseRequest("b", 1, "b-1", 1, ("a",), 2, 1), 0) is None


def test_a_node_removed_during_confirmation_gets_no_lease() -> None:
    leader = Leader()
    ticket = leader.request("b", 0)
    apply(leader.membership, boot("b", 2))
    assert ticket is not None and leader.coordinator.confirmed(ticket, 10) == []


def test_a_silent_node_is_removed_when_its_lease_has_ended() -> None:
    leader = Leader()
    for node in "abc":
        leader.grant(node, 0)
    assert leader.quiet_until(250, 5000, "a", "c") == 2500
    leader = Leader()
    for node in "abc":
        leader.grant(node, 0)
    assert leader.quiet_until(1000, 5000, "a", "c", deaf="b") == 2500


def test_a_row_is_removed_after_the_last_granted_lease() -> None:
    leader = Leader()
    for node in "abc":
        leader.grant(node, 0)
    leader.grant("a", 250)
    assert leader.grant("c", 250, "a") == []  # b and c do not hear each other: the lower name stays
    assert leader.grant("b", 250, "a") != []
    for now in range(500, 2200, 250):
        assert leader.grant("c", now, "a") == [] and leader.grant("a", now) and leader.grant("b", now, "a")
        assert leader.decide(now) == []
    leader.grant("a", 2190)
    assert leader.decide(2199) == []
    assert leader.decide(2200) == [SetView(3, (A, B), True, True)]


def test_granting_resumes_when_they_hear_each_other_again() -> None:
    leader = Leader()
    leader.grant("a", 0)
    leader.grant("b", 0)
    leader.grant("c", 0, "a")
    assert leader.grant("c", 250, "a") == []
    assert leader.grant("c", 500) != []
    assert leader.quiet_until(600, 3000, "a", "b", "c") is None


def test_a_node_that_a_proposal_removes_gets_no_lease() -> None:
    leader = Leader()
    for node in "abc":
        leader.grant(node, 0)
    for now in range(250, 2500, 250):
        leader.grant("a", now)
        leader.grant("c", now)
        leader.decide(now)
    leader.grant("a", 2490)
    leader.grant("c", 2490)
    assert leader.decide(2500) == [SetView(3, (A, C), True, True)]
    assert leader.request("b", 2510) is None
    assert leader.decide(2520) == []  # one proposal at a time
    leader.grant("a", 3490)
    leader.grant("c", 3490)
    assert leader.decide(3500) == [SetView(3, (A, C), True, True)]
    apply(leader.membership, SetView(3, (A, C), True, True))
    for node in "abc":
        leader.request(node, 3600)
    assert leader.decide(3600) == [SetView(4, (A, Row("b", 1, 5), C), True, True)]


def test_a_new_leader_waits_for_old_leases_before_removing_nodes() -> None:
    leader = Leader(elected=0)
    assert leader.quiet_until(0, 5000, "a", "c") == 2200
    leader = Leader(elected=0)
    leader.grant("a", 0)
    leader.grant("b", 10, "a")
    leader.grant("c", 10, "a")
    assert leader.quiet_until(50, 5000, "a", "b", "c", deaf="c") == 2200


def test_an_unreported_election_is_noticed_by_its_term() -> None:
    leader = Leader()
    for node in "abc":
        leader.grant(node, 0)
    leader.peers.term += 1
    assert leader.quiet_until(20_000, 30_000, "a", "c") == 22_200


def test_a_leader_after_a_pause_first_reads_waiting_requests() -> None:
    leader = Leader()
    for node in "abc":
        leader.grant(node, 0)
    leader.decide(0)
    assert leader.decide(3000) == []
    for node in "abc":
        leader.grant(node, 3001)
    assert leader.quiet_until(3010, 5000, "a", "b", "c") is None


def test_a_leader_whose_disk_hangs_hands_over_before_it_is_out() -> None:
    leader = Leader()
    for now in range(0, 2000, 50):
        for node in "bc" if now else "abc":
            leader.grant(node, now)
        decided = leader.decide(now)
        if decided:
            assert decided == [Transfer("b/disk-b")] and now == 1050
            return
    raise AssertionError


def test_a_node_that_does_not_apply_views_is_out() -> None:
    leader = Leader(elected=0)
    apply(leader.membership, join("d"))
    for now in range(0, 5000, 250):
        for node in "ac":
            leader.grant(node, now)
        leader.request("b", now, view=2)
        proposals = leader.decide(now)
        if any(isinstance(proposal, SetView) for proposal in proposals):
            assert now >= 2500 and SetView(3, (A, C), True, True) in proposals
            return
    raise AssertionError


def wait_for(leader: Leader, command: Command, *nodes: str) -> float:
    now = 10.0
    while command not in leader.decide(now):
        now += 50
        assert now < 5000
        for node in nodes:
            leader.grant(node, now)
    return now


def test_a_leave_waits_for_the_end_of_the_lease() -> None:
    leader = Leader()
    for node in "abc":
        leader.grant(node, 0)
    leader.coordinator.submit(Leave("b"))
    leader.coordinator.submit(Leave("b"))
    assert leader.grant("b", 5) == []
    assert wait_for(leader, Leave("b"), "a", "b", "c") == 2210
    assert leader.grant("b", 2300) == []


def test_a_new_disk_waits_for_the_lease_and_other_changes_do_not() -> None:
    leader = Leader()
    for node in "abc":
        leader.grant(node, 0)
    leader.coordinator.submit(join("b", disk="new", boot=2))
    assert wait_for(leader, join("b", disk="new", boot=2), "a", "b", "c") == 2210
    for command in (boot("c", 2), join("c"), join("d"), Stale("d"), Leave("x")):
        leader = Leader()
        for node in "ab":
            leader.grant(node, 0)
        leader.coordinator.submit(command)
        assert leader.decide(1) == [command] and leader.decide(2) == []


def test_a_start_waits_while_another_node_may_be_dead() -> None:
    """Else the slots of both would stay with the dead node alone (H-46)."""
    leader = Leader()
    for node in "ab":
        leader.grant(node, 0)
    leader.coordinator.submit(boot("c", 2))
    leader.grant("a", 1100)
    assert leader.decide(1100) == [], "b was silent for more than four heartbeats"
    leader.grant("b", 1200)
    assert leader.decide(1200) == [boot("c", 2)]


def test_a_start_waits_no_more_when_the_dead_node_is_out_of_the_view() -> None:
    leader = Leader()
    for node in "abc":
        leader.grant(node, 0)
    for now in range(250, 3501, 250):
        leader.grant("a", now, "c")
        if now == 1250:
            leader.coordinator.submit(boot("c", 2))
        proposals = leader.decide(now)
        if proposals:
            break
    (view,) = proposals
    assert isinstance(view, SetView) and [row.node for row in view.rows] == ["a"] and now >= 2000
    apply(leader.membership, view)
    assert leader.decide(now + 50) == [boot("c", 2)]


def test_nodes_that_start_at_the_same_time_do_not_wait_for_each_other() -> None:
    leader = Leader()
    leader.grant("a", 0)
    leader.coordinator.submit(boot("b", 2))
    assert leader.decide(1) == []
    leader.coordinator.submit(boot("c", 2))
    assert leader.decide(2) == [boot("b", 2), boot("c", 2)]


def test_a_node_that_stops_waits_for_the_detection_while_another_one_may_be_dead() -> None:
    leader = Leader()
    for node in "abc":
        leader.grant(node, 0)
    leader.grant("a", 1100)
    assert not leader.coordinator.goodbye(Goodbye("c", 1, "c-1"), leader.peers, 1100)
    leader.grant("b", 1200)
    assert leader.coordinator.goodbye(Goodbye("c", 1, "c-1"), leader.peers, 1200)


def test_the_reply_names_those_whose_disk_is_full() -> None:
    leader = Leader()
    full = LeaseRequest("c", 1, "c-1", 1, ("a", "b"), 3, 2, (), True)
    leader.coordinator.request(full, 0)
    leader.grant("a", 0)
    ((_, reply),) = leader.grant("b", 1)
    assert reply.full == ("c",)


def test_the_reply_names_the_nodes_with_a_slow_disk() -> None:
    leader = Leader()
    leader.coordinator.request(LeaseRequest("c", 1, "c-1", 1, ("a", "b"), 3, 2, slow_ms=700), 0)
    leader.grant("a", 0)
    ((_, reply),) = leader.grant("b", 1)
    assert reply.slow == (("c", 700),)
    leader.coordinator.request(LeaseRequest("c", 1, "c-1", 2, ("a", "b"), 3, 2), 2)
    ((_, reply),) = leader.grant("b", 3)
    assert reply.slow == ()


def test_a_new_leader_knows_the_slow_disks_of_the_former_one_until_it_hears_their_nodes() -> None:
    leader = Leader()
    leader.known_slow = {"b": 600, "c": 700, "x": 800}
    leader.grant("a", 0)
    ((_, reply),) = leader.grant("b", 1)
    assert reply.slow == (("c", 700),), "b has said that it is quick, and x is not in the view"


def test_an_unsettled_cluster_gets_only_requested_changes() -> None:
    leader = Leader(MembershipState())
    assert leader.decide(0) == []
    command = Boot("a", "d", 1, "p", "")
    leader.coordinator.submit(command)
    assert leader.decide(10) == [command]


def test_requested_slots_share_an_entry_and_wait_for_the_next_one() -> None:
    leader = Leader()
    rows = [SlotRow(slot, 1, version) for slot, version in ((5, 1), (4, 1), (5, 2))]
    leader.coordinator.request_slots(SetSlots((rows[0], rows[1])))
    leader.coordinator.request_slots(SetSlots((rows[2],)))
    assert leader.decide(0) == [SetSlots((rows[1], rows[2]))] and leader.decide(10) == []
    leader.coordinator.request_slots(SetSlots((rows[0],)))
    assert leader.decide(SLOTS_MS - 1) == [] and not leader.coordinator.calm(SLOTS_MS - 1)
    assert leader.decide(SLOTS_MS) == [SetSlots((rows[0],))]


def test_the_recovery_of_slots_shares_the_pace_and_a_later_request_replaces_an_earlier_one() -> None:
    leader = Leader()
    requests = [RecoverSlots((SlotRow(4, 1, version),), by) for version, by in ((1, "b"), (2, "b"), (1, "c"))]
    for request in requests:
        leader.coordinator.recover_slots(request)
    assert not leader.coordinator.calm(0)
    assert leader.decide(0) == requests[1:] and leader.decide(SLOTS_MS) == []


def test_each_follower_that_takes_itself_out_has_entries_of_its_own() -> None:
    """An entry names one follower. At most one entry of primaries and one of followers come at a time."""
    leader = Leader()
    four, five, other = SlotRow(4, 1, 1), SlotRow(5, 1, 1), SlotRow(5, 1, 2)
    leader.coordinator.request_slots(SetSlots((five,), "c"))
    leader.coordinator.request_slots(SetSlots((five,), "b"))
    leader.coordinator.request_slots(SetSlots((other,)))
    leader.coordinator.request_slots(SetSlots((four,), "c"))
    assert leader.decide(0) == [SetSlots((other,)), SetSlots((four, five), "c")]
    assert leader.decide(SLOTS_MS - 1) == [] and not leader.coordinator.calm(SLOTS_MS - 1)
    leader.coordinator.request_slots(SetSlots((four,), "c"))
    assert leader.decide(SLOTS_MS) == [SetSlots((five,), "b")]
    assert leader.decide(2 * SLOTS_MS) == [SetSlots((four,), "c")] and leader.decide(3 * SLOTS_MS) == []


def test_an_unsettled_cluster_gets_no_slots() -> None:
    leader = Leader(MembershipState())
    leader.coordinator.request_slots(SetSlots((SlotRow(5, 1, 1),)))
    assert leader.decide(0) == []


def test_an_election_forgets_everything() -> None:
    leader = Leader()
    ticket = leader.request("b", 0)
    leader.coordinator.submit(Leave("c"))
    leader.peers.term += 1
    assert leader.decide(10) == []
    leader.coordinator.submit(Leave("c"))
    leader.coordinator.request_slots(SetSlots((SlotRow(5, 1, 1),)))
    leader.coordinator.elected(15)
    leader.peers.configuration = Configuration(leader.peers.configuration.voters)
    assert ticket is not None and leader.coordinator.confirmed(ticket, 20) == [] and leader.decide(30) == []


WEEK_MS = 7 * 86_400_000
NOTICE, AGAIN = Away("c", 1, WEEK_MS + 2), Away("c", 1, WEEK_MS + 3)


def given_up(leader: Leader, now: float) -> list[object]:
    """Returns the leader's proposals about absent nodes, after lease requests of a and b."""
    for node in "ab":
        leader.grant(node, now, "b" if node == "a" else "a")
    return [each for each in leader.decide(now) if isinstance(each, Away | Stale)]


def over(leader: Leader, begin: float, end: float) -> list[object]:
    """Returns the leader's proposals about absent nodes from `begin` until `end`, in order."""
    return [each for now in range(int(begin), int(end), 250) for each in given_up(leader, now)]


def away_for_a_week() -> Leader:
    """A leader of a and b. For a week c has had no row and sent nothing, and the log has the notice."""
    leader = Leader()
    leader.clock_ms = WEEK_MS + 2
    apply(leader.membership, SetView(leader.membership.view.id, (A, B), True, True))
    apply(leader.membership, Away("c", 1))
    leader.peers.away = (peer("c"),)
    assert over(leader, 0, 60_000) == []
    return leader


def test_a_member_away_for_too_long_becomes_stale() -> None:
    """After a minute the log has a notice of the absence, so that the next leader knows it; after a
    week it is final.
    """
    leader = Leader()
    leader.clock_ms = 1_000_000
    leader.peers.away = (peer("c"),)
    apply(leader.membership, SetView(leader.membership.view.id, (A, B), True, True))
    at = partial(given_up, leader)
    assert at(0) == []
    assert at(59_000) == []
    assert at(60_000) == [Away("c", 1_000_000 - 60_000)]
    assert at(60_500) == []  # under way
    apply(leader.membership, Away("c", 940_000))
    leader.clock_ms += WEEK_MS - 60_000
    assert at(120_000) == []
    leader.clock_ms += 1
    notice = Away("c", 940_000, leader.clock_ms)
    assert over(leader, 120_000, 122_000) == [notice]
    apply(leader.membership, notice)
    assert over(leader, 122_000, 123_000) == [Stale("c")]
    apply(leader.membership, Stale("c"))
    assert over(leader, 123_000, 130_000) == []


def test_a_member_whose_raft_answers_is_not_given_up() -> None:
    """Its message disk may hang: it requests no lease, but may be a voter that the others need."""
    leader = away_for_a_week()
    leader.peers.away, leader.peers.late = (), (peer("c"),)  # it does not have the log yet
    assert over(leader, 60_000, 65_000) == []
    leader.peers.away = (peer("c"),)
    assert given_up(leader, 65_000) == [NOTICE]


def test_a_member_that_asks_for_a_lease_is_not_given_up() -> None:
    """It has just returned, and this leader's Raft has not heard it yet."""
    leader = away_for_a_week()
    leader.request("c", 59_900)
    assert over(leader, 60_000, 62_250) == []
    assert over(leader, 62_250, 62_750) == [NOTICE]


def test_a_member_is_given_up_only_where_the_others_are_a_majority() -> None:
    """Otherwise the entry needs the member itself, whose disk may be one of the last two with the log."""
    leader = away_for_a_week()
    leader.peers.late = (peer("b"),)
    assert over(leader, 60_000, 65_000) == []
    leader.peers.late = ()
    assert given_up(leader, 65_000) == [NOTICE]


def test_a_member_is_given_up_only_after_a_committed_notice() -> None:
    """A notice that reaches no other node is committed by the member itself on its return, and has no effect."""
    leader = away_for_a_week()
    assert given_up(leader, 60_000) == [NOTICE]
    leader.peers.away = (peer("b"), peer("c"))  # b lost its disk a moment before
    assert over(leader, 60_250, 62_000) == []
    leader.peers.away = (peer("b"),)  # c is back
    apply(leader.membership, NOTICE)
    assert over(leader, 62_000, 63_000) == []
    leader.peers.away, leader.clock_ms = (peer("c"),), WEEK_MS + 3  # b has a new disk, and c is away again
    assert over(leader, 63_000, 63_250) == [AGAIN]
    assert over(leader, 63_250, 64_250) == [AGAIN]
    apply(leader.membership, AGAIN)
    assert over(leader, 64_250, 65_000) == [Stale("c")]


def test_a_notice_of_a_former_leader_is_not_enough() -> None:
    leader = away_for_a_week()
    apply(leader.membership, NOTICE)
    leader.clock_ms += 1
    assert over(leader, 60_000, 61_000) == [AGAIN]


def test_a_new_leader_waits_for_the_leases_of_former_ones() -> None:
    """The leader itself has granted no lease to c; a former leader may have, although c is out of
    the clique at once.
    """
    leader, elected = Leader(elected=10_000), 10_000
    now = elected + 50
    while now < elected + 5000:
        for node, hears in (("a", "bc"), ("b", "a"), ("c", "a")):
            leader.grant(node, now, hears)
        if any(isinstance(proposal, SetView) for proposal in leader.decide(now)):
            break
        now += 50
    assert TIMES.expiry_ms <= now - elected <= TIMES.expiry_ms + 100


def test_a_leader_whose_own_start_waits_is_not_stuck() -> None:
    """It would hand the leadership over again and again, and no leader would see that the dead node is silent."""
    leader = Leader()
    for node in "ab":
        leader.grant(node, 0)
    leader.coordinator.submit(boot("a", 2))
    for now in range(50, 1900, 50):
        if now % 250 == 0:
            leader.grant("b", now)  # c is dead, so the start waits
        assert not any(isinstance(each, Transfer) for each in leader.decide(now)), now


def test_the_commands_that_wait_are_bounded_and_only_the_last_start_of_a_node_waits() -> None:
    coordinator = Leader().coordinator
    for number in range(500):
        coordinator.submit(Boot("b", "disk-b", 2, "b/2", f"b:{number}"))
    (command,) = coordinator._submitted
    assert isinstance(command, Boot) and command.address == "b:499"
    for number in range(SUBMITTED_MOST):
        coordinator.submit(Leave(f"x{number}"))
    assert len(coordinator._submitted) == SUBMITTED_MOST
