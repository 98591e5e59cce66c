"""The rows that operators see of a cluster: alone, whole, with an absent node, and from a minority."""

from __future__ import annotations

from strogoff.broker.clustering.rows import node_rows, slots_and_zones, status_row
from strogoff.cluster.node import ClusterNode
from strogoff.netsplit.policy import ViewState

from ...harness.cluster import ClusterHarness


def member(cluster: ClusterHarness, number: int) -> ClusterNode:
    found = cluster[number].host.member
    assert found is not None
    return found


def test_a_node_alone_is_a_cluster_of_one() -> None:
    cluster = ClusterHarness(1, joined=False)
    (row,) = node_rows(member(cluster, 1))
    assert (row.node, row.running, row.state, row.incarnation, row.voter) == ("n1", True, "serving", "", True)
    status = status_row(member(cluster, 1), "whole", 0)
    assert (status.members, status.serving, status.view_id, status.leader, status.lease_ms_left) == (1, 1, 0, "n1", 0)


def test_rows_show_serving_and_absent_nodes() -> None:
    cluster = ClusterHarness(3)
    cluster.pass_s(1.0)
    rows = node_rows(member(cluster, 2))
    assert [(row.node, row.running, row.state) for row in rows] == [(f"n{n}", True, "serving") for n in (1, 2, 3)]
    assert [row.incarnation.startswith("boot 1 since view ") for row in rows] == [True] * 3
    assert rows[1].heard_ms is None and rows[0].heard_ms is not None
    assert [row.voter for row in rows] == [True] * 3
    cluster[3].kill()
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    gone = node_rows(member(cluster, 1))[2]
    assert (gone.running, gone.state, gone.incarnation, gone.stale) == (False, "absent", "", False)
    status = status_row(member(cluster, 1), "majority", 4)
    assert (status.sees, status.members, status.serving, status.incidents) == ("majority", 3, 2, 4)
    assert 0 < status.lease_ms_left <= 2000 and status.leader in ("n1", "n2")


def test_a_restarted_node_without_connections_is_shown_as_absent() -> None:
    """Its log has the old view. Before, /health was OK during the cut although all clients were refused."""
    cluster = ClusterHarness(3)
    cluster.pass_s(1.0)
    for number in (1, 2, 3):
        cluster[number].kill()
    cluster[3].start()
    cluster.pass_s(3.0)
    rows = node_rows(member(cluster, 3))
    assert member(cluster, 3).view.row("n3") is not None
    assert (rows[2].running, rows[2].state, rows[2].incarnation) == (True, "absent", "")
    assert cluster[3].node.policy.view_state is ViewState.MINORITY


def test_a_minority_counts_nobody_whom_it_does_not_hear() -> None:
    """It cannot take the others out of its view. Before, two killed nodes were shown as serving."""
    cluster = ClusterHarness(3)
    cluster.pass_s(1.0)
    cluster[1].kill()
    cluster[2].kill()
    cluster.until(lambda: cluster[3].node.policy.view_state is ViewState.MINORITY)
    rows = node_rows(member(cluster, 3))
    assert [(row.running, row.state) for row in rows] == [(False, "silent"), (False, "silent"), (True, "serving")]
    status = status_row(member(cluster, 3), "minority", 0)
    assert (status.members, status.serving) == (3, 1)
    assert status.no_lease and not status_row(member(cluster, 3), "minority", 0, "this node has left").no_lease
    assert status_row(member(cluster, 3), "minority", 0, accepts_alone=False).serving == 0
    assert status_row(member(cluster, 3), "majority", 0, accepts_alone=False).serving == 1


def test_a_node_that_serves_nobody_is_absent() -> None:
    """The cluster has taken the node out. The last view that the node has applied still names it as serving."""
    cluster = ClusterHarness(3)
    cluster.pass_s(1.0)
    rows = node_rows(member(cluster, 3), "this node has left the cluster")
    assert [(row.state, row.incarnation != "") for row in rows] == [
        ("serving", True),
        ("serving", True),
        ("absent", False),
    ]


def test_an_even_cluster_has_a_member_without_a_vote() -> None:
    cluster = ClusterHarness(2)
    cluster.pass_s(1.0)
    assert [row.voter for row in node_rows(member(cluster, 1))] == [True, False]


def test_slots_of_a_node_alone_and_of_a_cluster() -> None:
    table, zones = slots_and_zones(member(ClusterHarness(1, joined=False), 1))
    assert {node: len(slots) for node, slots in table.slots_by_primary.items()} == {"n1": 256} and zones == {"n1": "n1"}
    cluster = ClusterHarness(2)
    for number in (1, 2):
        table, zones = slots_and_zones(member(cluster, number))
        assert set(table.slots_by_primary) == {"n1"} and zones == {"n1": "n1", "n2": "n2"}
        assert table.index > 0 and table is member(cluster, number).slots
