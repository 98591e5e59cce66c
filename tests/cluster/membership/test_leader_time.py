"""What a leader takes for cluster time if it does not know it (H-17)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from strogoff.cluster.membership.commands import SetView, Stale
from strogoff.cluster.membership.leader_time import LeaderTime
from strogoff.cluster.membership.messages import LeaseRequest

from .test_state_machine import apply, cluster


class Leader:
    """The leader `a` of a cluster with `b` and `c`. `followed` has all calls of `follow`."""

    def __init__(self, known: bool = False) -> None:
        self.known = known
        self.followed: list[float | None] = []
        self.raft = SimpleNamespace(up_to_date=True)
        self.membership = cluster("a", "b", "c")
        self.consensus = cast(Any, SimpleNamespace(leads=True, raft=self.raft, membership=self.membership))
        self.time = LeaderTime("a", self.consensus, lambda: 1_234, lambda: self.known, self._follow)
        self.silent: tuple[str, ...] = ()

    def _follow(self, offset_ms: float | None) -> None:
        self.followed.append(offset_ms)
        self.known = True

    def heard(self, node: str, cluster_ms: int | None = None) -> bool:
        return self.time.heard(LeaseRequest(node, 1, "p", 1, (), 1, 1, cluster_ms=cluster_ms), 1000.0)

    def settle(self) -> bool:
        return self.time.settle(lambda node: node in self.silent)


def test_a_leader_that_knows_the_time_follows_its_wall_clock() -> None:
    leader = Leader(known=True)
    leader.time.elected()
    assert leader.followed == [None] and leader.time.known_ms() == 1_234
    assert not leader.heard("b", 900_000) and not leader.settle()
    assert leader.followed == [None, 899_000.0, None], "the clock is only set if the machine stood still"


def test_a_leader_takes_the_time_of_the_first_member_that_knows_it() -> None:
    leader = Leader()
    leader.time.elected()
    assert leader.followed == [] and leader.time.known_ms() is None and not leader.heard("b")
    assert leader.heard("c", 900_000) and leader.followed == [899_000.0, None]
    assert not leader.heard("b") and not leader.settle()
    assert leader.followed == [899_000.0, None]


def test_a_leader_takes_its_wall_clock_if_no_member_knows_the_time() -> None:
    leader = Leader()
    assert not leader.heard("b") and not leader.settle()
    assert not leader.heard("c") and leader.settle()
    assert leader.followed == [None] and not leader.settle()


def test_a_leader_does_not_wait_for_silent_and_stale_members() -> None:
    leader = Leader()
    leader.heard("b")
    leader.silent = ("c",)
    assert leader.settle()
    leader = Leader()
    leader.heard("b")
    without_c = SetView(leader.membership.view.id, leader.membership.view.rows[:2])
    apply(leader.membership, without_c, Stale("c"))
    assert leader.settle()


def test_what_was_heard_in_an_earlier_term_does_not_count() -> None:
    leader = Leader()
    leader.heard("b")
    leader.heard("c")
    leader.time.elected()
    assert not leader.settle()
    leader.heard("b")
    assert not leader.settle() and leader.followed == []


def test_a_leader_that_may_not_know_all_members_waits() -> None:
    leader = Leader()
    leader.heard("b")
    leader.heard("c")
    leader.raft.up_to_date = False
    assert not leader.settle()
    leader.raft.up_to_date, leader.consensus.leads = True, False
    assert not leader.settle() and leader.followed == []


def test_the_only_member_takes_its_wall_clock() -> None:
    leader = Leader()
    leader.consensus.membership = cluster("a")
    assert leader.settle() and leader.followed == [None]


def test_a_follower_goes_on_with_the_time_that_it_learns() -> None:
    follower = Leader()
    follower.consensus.leads = False
    follower.time.learn(899_000.0)
    assert follower.followed == [899_000.0]
