"""Deletions that meet a message which does not know of them."""

from __future__ import annotations

import pytest

from strogoff.mqtt import packets
from tests.harness.broker import publish
from tests.harness.cluster import MAJORITY, ClusterHarness


def kept(cluster: ClusterHarness) -> list[list[bytes]]:
    """The retained message of t of each node that runs."""
    nodes = [harness.node for harness in cluster.nodes if harness.host.node is not None]
    return [[each.payload for each in node.retained.table("").match("t", node.env.now)] for node in nodes]


@pytest.mark.parametrize("deletes_first", [False, True])
def test_an_acknowledged_deletion_meets_nothing_of_a_node_that_died(deletes_first: bool) -> None:
    """n2 has the message of n1, which nobody has acknowledged, and n3 has not: it deletes what it does not know
    (H-16)."""
    cluster = ClusterHarness(3, **MAJORITY)
    client, other = cluster[1].client("client"), cluster[3].client("other")
    cluster.network.cut("n1", "n3")
    message, deletion = (client, publish("t", b"lost", 1, 1, True)), (other, publish("t", b"", 1, 1, True))
    for sender, packet in (deletion, message) if deletes_first else (message, deletion):
        sender.send(packet)
        cluster.pass_s(0.1)
    assert kept(cluster)[1] == [b"lost"]
    cluster[1].kill()
    cluster.network.delay("n3", "n2", 0.1)
    answers: list[packets.Packet] = []
    while not answers and cluster.loop.now_s < 60:
        cluster.pass_s(0.01)
        answers = other.take()
    assert [type(each) for each in answers] == [packets.Puback]
    assert kept(cluster) == [[]] * 2, "at once"
    cluster.network.heal()
    cluster[1].start()
    cluster.whole()
    assert kept(cluster) == [[]] * 3


def test_a_deletion_that_nobody_waits_for_gives_way_to_an_acknowledged_message() -> None:
    """The same client may have sent the message, at another node, after the deletion (H-16)."""
    cluster = ClusterHarness(3, **MAJORITY)
    client, other = cluster[1].client("client"), cluster[3].client("other")
    cluster.network.cut("n1", "n3")
    other.send(publish("t", b"", 0, 0, True))
    client.send(publish("t", b"kept", 1, 1, True))
    cluster.pass_s(0.5)
    cluster.network.heal()
    cluster.pass_s(5.0)
    assert [type(each) for each in client.take()] == [packets.Puback]
    assert kept(cluster) == [[b"kept"]] * 3
