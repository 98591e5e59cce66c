"""H-17: a node joins with retained messages that expire, and its clock was wrong."""

from __future__ import annotations

import pytest

from tests.broker.clustering.test_leader_time import LEAPS, YEAR_MS, beside_a_newcomer
from tests.harness.cluster import ClusterHarness
from tests.harness.thinning import thinned


def topics(cluster: ClusterHarness) -> list[list[str]]:
    """The topics with a retained message at each node."""
    now = [harness.node.env.now for harness in cluster.nodes]
    tables = [harness.node.retained.table("") for harness in cluster.nodes]
    return [[each.topic for each in table.match("#", at)] for table, at in zip(tables, now, strict=True)]


def newcomer_with_a_message(leap_ms: float) -> ClusterHarness:
    """n1 and n3 retain a message for 90 s, and n3 joins."""
    cluster = beside_a_newcomer(leap_ms, expire_retain_cache_s=1)
    for number, topic in ((1, "other"), (3, "own")):
        client = cluster[number].client("client")
        answer = client.publish(topic, b"m", 1, retain=True, message_expiry_interval=90)[0]
        assert answer.reason == 0
        client.leave()
    cluster.pass_s(1.0)
    assert cluster[3].join() == ""
    return cluster


@LEAPS
@pytest.mark.parametrize("fault", thinned(["slow", "killed", ""], 3))
def test_retained_messages_of_a_newcomer_keep_their_remaining_time(leap_ms: float, fault: str) -> None:
    """Also if it is killed when it has just joined, or if a slow disk keeps it from its first lease for a while."""
    cluster = newcomer_with_a_message(leap_ms)
    if fault == "killed":
        cluster[3].commit_late_writes()
        cluster[3].kill()
        cluster[3].start()
    if fault == "slow":
        cluster[3].disks[0].stall_until = cluster.loop.now_s + 60
        cluster.pass_s(20.0)
        cluster[3].disks[0].stall_until = 0.0
    cluster.whole()
    cluster.pass_s(40.0)
    assert topics(cluster) == [["other", "own"]] * 3
    cluster.pass_s(60.0)
    assert [harness.node.retained.count for harness in cluster.nodes] == [0, 0, 0]


def test_a_message_of_a_newcomer_that_a_client_deletes_stays_deleted() -> None:
    cluster = newcomer_with_a_message(YEAR_MS)
    cluster[3].disks[0].stall_until = cluster.loop.now_s + 60
    cluster.pass_s(20.0)
    assert topics(cluster)[0] == ["other"], "it is not in the view yet"
    cluster[3].disks[0].stall_until = 0.0
    cluster.until(lambda: topics(cluster)[0] == ["other", "own"], 60.0)
    cluster[3].disks[0].stall_until = cluster.loop.now_s + 60
    cluster[1].client("client").publish("own", b"", 1, retain=True)
    cluster.pass_s(10.0)
    cluster[3].disks[0].stall_until = 0.0
    cluster.whole()
    cluster.pass_s(5.0)
    assert topics(cluster) == [["other"]] * 3
