"""The stamps of the event log: no row has a smaller stamp than a row of another node that led to it (docs/eventlog.md).

The clock of one node is half a second ahead. Without its stamps in the frames, what it causes at other nodes would be
logged as half a second earlier.
"""

from __future__ import annotations

from typing import Any

from strogoff.analytics.schema import LOGICAL_BITS
from strogoff.mqtt import packets
from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.harness.broker import publish
from tests.harness.cluster import ClusterHarness, NodeHarness

AHEAD = 500 << LOGICAL_BITS


def get_ahead(harness: NodeHarness) -> int:
    """Let the next rows of this node have stamps half a second ahead. Returns a stamp that is smaller than these."""
    events = harness.node.env.events
    stamp = (harness.node.env.clock.now_ms() << LOGICAL_BITS) + AHEAD
    events.observe(stamp)
    assert events.stamp() == stamp
    return stamp


def rows_of(harness: NodeHarness, kind: str, since: int = 0) -> list[dict[str, Any]]:
    return [row for row in harness.host.events[since:] if row["type"] == kind]


def test_a_publish_is_received_after_it_was_sent() -> None:
    cluster = ClusterHarness(2, level=2)
    cluster[2].client("reader", clean=False, expiry_s=100).subscribe(("t", 1))
    stamp = get_ahead(cluster[1])
    cluster[1].client("writer").publish("t", b"x", 1)
    (sent,), (received,) = rows_of(cluster[1], "fwd.send"), rows_of(cluster[2], "fwd.recv")
    assert stamp < sent["hlc"] < received["hlc"]


def test_a_copy_that_follows_its_slot_to_another_node_has_a_row_of_its_own() -> None:
    """The first node with the slot dies before the copy arrives."""
    cluster = CopiedCluster(level=2)
    for client_id in ("reader", "writer"):
        cluster[1].client(client_id, clean=False, expiry_s=600).leave()
    cluster.move("reader", 2)
    cluster.move("writer", 1)
    cluster[2].client("reader", clean=False, expiry_s=600).subscribe(("t", 1))
    _, follower = cluster.copied("reader")
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    cluster.network.cut("n1", "n2")
    writer.send(publish("t", b"x", 1, 5))
    cluster.until(lambda: bool(rows_of(cluster[1], "fwd.send")))
    cluster[2].kill()
    cluster.network.heal()
    assert cluster.taken_over(2, "reader") == follower == 3
    cluster.until(lambda: any(isinstance(each, packets.Puback) for each in writer.take()))
    assert [row["target"] for row in rows_of(cluster[1], "fwd.send")] == ["n2", "n3"]
    assert [row["source"] for row in rows_of(cluster[3], "fwd.recv")] == ["n1"]


def test_a_publish_is_acknowledged_after_the_other_node_has_it() -> None:
    cluster = ClusterHarness(2, level=2)
    cluster[2].client("reader", clean=False, expiry_s=100).subscribe(("t", 1))
    stamp = get_ahead(cluster[2])
    cluster[1].client("writer").publish("t", b"x", 1)
    (safe,), (acked,) = rows_of(cluster[2], "q.durable"), rows_of(cluster[1], "pub.ack")
    assert stamp < safe["hlc"] < acked["hlc"]


def test_a_view_is_followed_after_the_leader_has_it() -> None:
    cluster = ClusterHarness(3)
    leader = next(harness for harness in cluster.nodes if harness.leads)
    victim, follower = (harness for harness in cluster.nodes if harness is not leader)
    known = len(leader.host.events), len(follower.host.events)
    stamp = get_ahead(leader)
    victim.kill()
    cluster.until(lambda: bool(rows_of(follower, "mem.down", known[1])))
    (first,), (then,) = rows_of(leader, "mem.down", known[0]), rows_of(follower, "mem.down", known[1])
    assert stamp < first["hlc"] < then["hlc"]


def test_a_node_joins_after_the_others_have_agreed() -> None:
    """The join is a call: the node has no stream to the others yet."""
    cluster = ClusterHarness(2, joined=False)
    stamp = get_ahead(cluster[1])
    assert cluster[2].join() == ""
    (joined,) = rows_of(cluster[2], "node.join")
    assert stamp < joined["hlc"]


def test_the_asked_node_logs_a_join_after_the_call() -> None:
    cluster = ClusterHarness(2, joined=False)
    stamp = get_ahead(cluster[2])
    known = len(cluster[1].host.events)
    assert cluster[2].join() == ""
    assert stamp < min(row["hlc"] for row in cluster[1].host.events[known:])
