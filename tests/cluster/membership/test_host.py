"""A node implements the host that its parts need."""

from __future__ import annotations

from strogoff.cluster.membership.host import Host
from tests.harness.members import MemberHarness


def test_a_node_has_all_attributes_of_the_host() -> None:
    cluster = MemberHarness(2)
    wanted = [name for name in vars(Host) if not name.startswith("_")]
    assert len(wanted) == 9
    assert [name for name in wanted if not hasattr(cluster[1].member, name)] == []
