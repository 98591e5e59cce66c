"""A machine of a cluster: its node joins, leaves, and is a member again after a kill."""

from __future__ import annotations

from strogoff.netsplit.policy import ViewState
from tests.harness.cluster import ClusterHarness


def test_a_member_promises_nothing_before_it_has_a_lease() -> None:
    cluster = ClusterHarness(3)
    harness = cluster[2]
    harness.kill()
    harness.start()
    before = harness.node.policy.view_state
    cluster.whole()
    assert (before, harness.node.policy.view_state) == (ViewState.MINORITY, ViewState.WHOLE)


def test_joining_oneself_and_leaving() -> None:
    cluster = ClusterHarness(3)
    problems: list[str] = []
    cluster[2].host.join("n2:1", problems.append)
    cluster.until(lambda: bool(problems))
    assert "cannot join itself" in problems[0]
    cluster[1].host.leave("n3", problems.append)
    cluster.until(lambda: len(problems) == 2)
    assert problems[1] == ""
    member = cluster[1].host.member
    assert member is not None and sorted(member.membership.members) == ["n1", "n2"]
