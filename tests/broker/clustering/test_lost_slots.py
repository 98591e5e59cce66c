"""A node with the policy `on` is cut off, and another node takes its slots: nothing that the next primary lacks is
acknowledged (H-55).
"""

from __future__ import annotations

from math import inf

import pytest

from strogoff.broker.clustering.lost_slots import slots_lost
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.harness.broker import PacketClient, publish
from tests.harness.cluster import ON


class CutOff(CopiedCluster):
    """Client `sub` has a session, and is away. The primary of its slot is cut off, and `taker` is the next one.
    `writer` is connected at `primary`."""

    def __init__(self, nodes: int = 3, qos: int = 1) -> None:
        super().__init__(nodes, level=2, **ON)
        subscriber(self, qos=qos).leave()
        self.primary, _ = self.copied()
        self.writer = self[self.primary].client("writer")

    def cut_off(self) -> None:
        self.isolate(self.primary)
        self.taker = self.taken_over(self.primary)
        assert self[self.primary].node.policy.view_state is ViewState.MINORITY

    def heal(self) -> None:
        self.network.heal()
        self.whole()

    def rows_of(self, kind: str) -> list[dict[str, object]]:
        return [row for row in self[self.primary].host.events if row["type"] == kind]


def repeated(cluster: CutOff, qos: int) -> PacketClient:
    """The writer connects again, at the node with the slot, and sends what it has no answer for."""
    writer = cluster[cluster.taker].client("writer")
    assert [each.reason for each in writer.publish("t", b"1", qos, 7, dup=True)] == [0]
    return writer


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publish_that_waits_for_the_follower_of_a_lost_slot_is_not_acknowledged(qos: int) -> None:
    """No other node has the message, and this one deletes it."""
    cluster = CutOff(qos=qos)
    cluster.cut_off()
    cluster.writer.send(publish("t", b"1", qos, 7))
    cluster.pass_s(5)
    assert cluster.writer.take() == [], "the follower has not got it"
    cluster.heal()
    assert [type(each) for each in cluster.writer.take()] == [packets.Disconnect]
    assert cluster.writer.closed and cluster.rows_of("pub.ack") == []
    repeated(cluster, qos)
    assert resumed(cluster, cluster.taker) == [b"1"]


def test_a_publish_that_was_sent_before_the_cut_is_not_acknowledged() -> None:
    """The node has accepted it with a lease, and the follower has never got it."""
    cluster = CutOff()
    cluster.isolate(cluster.primary)
    cluster.writer.send(publish("t", b"1", 1, 7))
    cluster.cut_off()
    cluster.pass_s(5)
    assert cluster.writer.take() == []
    cluster.heal()
    assert [type(each) for each in cluster.writer.take()] == [packets.Disconnect]
    repeated(cluster, 1)
    assert resumed(cluster, cluster.taker) == [b"1"]


def test_the_end_of_a_session_that_waits_for_the_follower_of_a_lost_slot_is_not_acknowledged() -> None:
    """The next primary has the session still, and its client must not take it for ended."""
    cluster = CutOff()
    cluster.cut_off()
    fresh = cluster[cluster.primary].connect_soon("sub", clean=True)
    cluster.pass_s(1)
    assert fresh.take() == []
    cluster.heal()
    answers = [each for each in fresh.take() if isinstance(each, packets.Connack)]
    assert [each.reason for each in answers] == [0x88] and fresh.closed
    assert resumed(cluster, cluster.taker) == []


def test_clients_that_wait_for_nothing_stay_connected() -> None:
    cluster = CutOff()
    cluster.cut_off()
    assert [each.reason for each in cluster.writer.publish("elsewhere", b"1", 1, 7)] == [0x10]
    cluster.heal()
    assert not cluster.writer.closed


def test_a_message_for_a_lost_slot_is_routed_again_when_its_publisher_repeats_it() -> None:
    """The publisher's slot stays here. It may come back before the node is in the view, and its packet id is known."""
    cluster = CutOff(qos=2)
    primary, follower = cluster.copied()
    copies = {name: cluster.copied(name) for name in [f"writer{number}" for number in range(20)]}
    name = next(name for name, (first, second) in copies.items() if first == primary and second != follower)
    writer = cluster[primary].client(name, clean=False, expiry_s=600)
    cluster[follower].disks[0].stall_until = inf
    writer.send(publish("t", b"1", 2, 7))
    cluster.pass_s(0.1)
    (session,) = [each for each in cluster[primary].node.sessions.in_memory() if each.client_id == name]
    clustering = cluster[primary].host.clustering
    assert session.inbound.records[7].routed and not session.inbound.forward_again and clustering is not None
    slots_lost(cluster[primary].node, clustering.incidents)
    cluster.settle()
    assert writer.closed and session.inbound.forward_again == {7}
