"""Voters: learners first, dead disks out, an odd number, at most two changes in one entry."""

from __future__ import annotations

from strogoff.cluster.membership.commands import Away, Leave, Row, SetView
from strogoff.cluster.membership.state_machine import MembershipState
from strogoff.cluster.membership.voters import Transfer, next_change
from strogoff.cluster.raft.configuration import changed
from strogoff.cluster.raft.messages import Change, Configuration

from .test_state_machine import ABOVE, apply, cluster, join


class Peers:
    """A Raft of peers such as "a", whose disks are "disk-a". `late` ones lack the log, `away` ones are silent."""

    def __init__(self, own: str, voters: str, learners: str = "", late: str = "") -> None:
        self.peer = peer(own)
        self.term = 1
        self.configuration = Configuration(tuple(map(peer, voters)), tuple(map(peer, learners)))
        self.late = tuple(map(peer, late))
        self.away: tuple[str, ...] = ()

    def answers(self, peer: str) -> bool:
        return peer not in self.away

    def caught_up(self, peer: str) -> bool:
        return peer not in self.late and self.answers(peer)


def peer(name: str) -> str:
    return f"{name}/disk-{name}"


def steps(membership: MembershipState, peers: Peers) -> list[str]:
    """Returns all steps until nothing is left to do, such as "learner b"."""
    done: list[str] = []
    while (change := next_change(membership, peers)) is not None:
        if isinstance(change, Transfer):
            return [*done, f"transfer {change.peer[0]}"]
        peers.configuration = changed(peers.configuration, change)
        done.append(", ".join(f"{step.action} {step.peer[0]}" for step in change.steps))
        assert len(done) < 20
    return done


def test_of_two_nodes_the_elder_votes_alone() -> None:
    assert steps(cluster("a", "b"), Peers("a", "a")) == ["learner b"]


def test_a_third_node_makes_the_second_a_voter() -> None:
    assert steps(cluster("a", "b", "c"), Peers("a", "a", "b")) == ["learner c", "voter b, voter c"]


def test_no_single_new_voter_makes_the_number_even() -> None:
    assert steps(cluster("a", "b", "c"), Peers("a", "a", "bc", late="c")) == []
    assert steps(cluster("a", "b", "c"), Peers("a", "ab", "c", late="c")) == []


def test_a_learner_that_is_late_does_not_vote() -> None:
    assert steps(cluster("a", "b", "c"), Peers("a", "ab", "c")) == ["voter c"]


def test_the_fourth_is_a_learner_and_the_fifth_makes_both_voters() -> None:
    assert steps(cluster("a", "b", "c", "d"), Peers("a", "abc")) == ["learner d"]
    assert steps(cluster("a", "b", "c", "d", "e"), Peers("a", "abc", "d")) == ["learner e", "voter d, voter e"]


def test_at_most_the_seven_eldest_vote() -> None:
    membership = cluster(*"abcdefghij")
    assert steps(membership, Peers("a", "abcdefg", "hij")) == []
    assert steps(membership, Peers("a", "abc", "defghij")) == ["voter d, voter e", "voter f, voter g"]


def test_an_absent_voter_of_a_large_cluster_is_replaced() -> None:
    """One entry gives its vote to another peer; it gets the vote back when it returns."""
    membership = cluster(*"abcdefghi")
    view = membership.view
    apply(membership, SetView(view.id, tuple(row for row in view.rows if row.node != "c")), Away("c", 500))
    peers = Peers("a", "abcdefg", "hi", late="c")
    assert steps(membership, peers) == ["voter h, learner c"]
    apply(membership, SetView(membership.view.id, (*membership.view.rows, Row("c", 1, membership.view.id + 1))))
    peers.late = ()
    assert steps(membership, peers) == ["voter c, learner h"]


def test_a_forgotten_disk_goes_first_and_its_successor_starts_as_learner() -> None:
    membership = cluster("a", "b", "c")
    apply(membership, join("c", disk="new", boot=ABOVE))
    peers = Peers("a", "abc")
    assert next_change(membership, peers) == Change("remove", peer("c"))
    peers.configuration = Configuration((peer("a"), peer("b")))
    assert next_change(membership, peers) == Change("learner", "c/new")
    peers.configuration = Configuration((peer("a"), peer("b")), ("c/new",))
    peers.late = ("c/new",)
    assert next_change(membership, peers) is None
    peers.late = ()
    assert next_change(membership, peers) == Change("voter", "c/new")


def test_with_two_nodes_left_the_younger_stops_voting() -> None:
    membership = cluster("a", "b", "c")
    apply(membership, Leave("c"))
    assert steps(membership, Peers("a", "abc")) == ["remove c, learner b"]


def test_a_leader_that_should_not_vote_hands_over() -> None:
    membership = cluster("a", "b", "c")
    apply(membership, Leave("c"))
    assert steps(membership, Peers("b", "abc", late="c")) == ["transfer a"]
    assert steps(membership, Peers("c", "abc", late="a")) == ["transfer b"]


def test_no_step_that_could_not_be_committed() -> None:
    membership = cluster("a", "b", "c", "d")
    apply(membership, Leave("b"))
    assert next_change(membership, Peers("a", "abc", "d", late="bc")) is None
    assert next_change(membership, Peers("a", "abc", "d", late="b")) == Change(
        "remove", peer("b"), (Change("voter", peer("d")),)
    )
    assert next_change(membership, Peers("a", "abc", "d", late="bd")) == Change("remove", peer("b"))


def test_a_stuck_leader_hands_over_or_does_nothing() -> None:
    membership = cluster("a", "b", "c")
    assert next_change(membership, Peers("a", "abc", late="b"), stuck=True) == Transfer(peer("c"))
    assert next_change(membership, Peers("a", "abc", late="bc"), stuck=True) is None


def test_an_unsettled_cluster_needs_no_steps() -> None:
    assert next_change(MembershipState(), Peers("a", "a")) is None
