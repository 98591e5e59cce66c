"""The connection of a clean client at a node that was cut off, and a durable session of this client since (H-37)."""

from __future__ import annotations

import pytest

from strogoff.mqtt import packets
from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.harness.cluster import MAJORITY, ClusterHarness


def _away(cluster: ClusterHarness, number: int, fault: str) -> None:
    """Cut a node off, or stop its process, until it is out of the view."""
    cluster.isolate(number) if fault == "cut" else cluster[number].pause_process()
    other = cluster[1 if number != 1 else 2].member
    cluster.until(lambda: other.view.incarnation(f"n{number}") is None)
    cluster.pass_s(1)


def _back(cluster: ClusterHarness, number: int, fault: str) -> None:
    cluster.network.heal() if fault == "cut" else cluster[number].resume_process()
    cluster.whole()
    cluster.pass_s(5)


def _subscribes_and_leaves(cluster: ClusterHarness, number: int) -> None:
    """The client has a durable session since, and a message waits in it."""
    client = cluster[number].client("sub", clean=False, expiry_s=600)
    client.subscribe(("t", 1))
    client.leave()
    writer = cluster[number].client("writer")
    assert [type(each) for each in writer.publish("t", b"1", 1, 1)] == [packets.Puback]


def _payloads(cluster: ClusterHarness, number: int) -> list[bytes]:
    client, connack = cluster[number].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present
    return [each.payload for each in client.drain()]


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("fault", ["cut", "pause"])
def test_a_connection_from_before_the_session_ends_although_its_node_is_back(copies: int, fault: str) -> None:
    cluster = ClusterHarness(3, queue_replicas=copies, **MAJORITY)
    cluster.put(sub=1)
    cluster.pass_s(8)
    former = cluster[3].client("sub")
    _away(cluster, 3, fault)
    _subscribes_and_leaves(cluster, 2)
    _back(cluster, 3, fault)
    assert former.closed and _payloads(cluster, 2) == [b"1"]


@pytest.mark.parametrize("fault", ["cut", "pause"])
def test_a_connection_at_the_former_primary_ends_when_that_is_back(fault: str) -> None:
    """The slot has gone to its follower, where the session has begun."""
    cluster = CopiedCluster()
    former = cluster[1].client("sub")
    primary, follower = cluster.copied("sub")
    assert primary == 1
    cluster.all_copied()
    cluster.pass_s(8)
    _away(cluster, 1, fault)
    _subscribes_and_leaves(cluster, 5 - follower)
    _back(cluster, 1, fault)
    assert former.closed and _payloads(cluster, 5 - follower) == [b"1"]


def test_a_clean_start_at_another_registrar_ends_the_session_from_before() -> None:
    """The primary was cut off when the client discarded its session, and has it still when it is back."""
    cluster = ClusterHarness(3, queue_replicas=1, **MAJORITY)
    cluster.put(sub=1)
    cluster.pass_s(8)
    cluster[2].client("sub", clean=False, expiry_s=600).leave()
    _away(cluster, 1, "cut")
    clean = cluster[3].client("sub")
    _back(cluster, 1, "cut")
    assert not clean.closed and cluster[1].node.sessions.known("", "sub") is None
