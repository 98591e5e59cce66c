"""A machine of a cluster: its node joins, leaves, and is a member again after a kill."""

from __future__ import annotations

from strogoff.netsplit.policy import ViewState
from tests.harness.cluster import ClusterHarness


def test_a_member_promises_nothing_before_it_has_a_lease() -> None:
    theatre = ClusterHarness(3)
    spot = theatre[2]
    spot.kill()
    spot.start()
    before = spot.node.policy.view_state
    theatre.whole()
    assert (before, spot.node.policy.view_state) == (ViewState.MINORITY, ViewState.WHOLE)


def test_joining_oneself_and_leaving() -> None:
    theatre = ClusterHarness(3)
    problems: list[str] = []
    theatre[2].host.join("n2:1", problems.append)
    theatre.until(lambda: bool(problems))
    assert "cannot join itself" in problems[0]
    theatre[1].host.leave("n3", problems.append)
    theatre.until(lambda: len(problems) == 2)
    assert problems[1] == ""
    member = theatre[1].host.member
    assert member is not None and sorted(member.membership.members) == ["n1", "n2"]
