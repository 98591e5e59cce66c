"""A slot moves to another node with its durable sessions: nothing is lost, doubled or reordered."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from tests.broker.clustering.slot_cluster import SlotCluster
from tests.harness.broker import PacketClient


class MovingCluster(SlotCluster):
    """Three nodes; the slot of client `sub` is at n1."""

    def __init__(self, nodes: int = 3) -> None:
        super().__init__(nodes)
        self.slot = slot_of("", "sub")
        self.outcome: list[str] = []

    def moves(self, number: int) -> Any:
        clustering = self[number].host.clustering
        assert clustering is not None
        return clustering.slots.moves

    def begin(self, target: int, number: int = 1, client_id: str = "sub") -> None:
        """Begin to move the slot from node `number`."""
        self.outcome.clear()
        self.moves(number).begin(slot_of("", client_id), f"n{target}", self.outcome.append)

    def move(self, target: int, number: int = 1, client_id: str = "sub") -> str:
        """Move the slot; returns the reason why it stays, or ""."""
        self.begin(target, number, client_id)
        self.until(lambda: bool(self.outcome))
        return self.outcome[0]

    def rows(self, number: int) -> list[bytes]:
        """The keys of the slot at a node."""
        store = self[number].node.env.store
        kinds = b"sbqiepujyavfh"
        return [key for kind in kinds for key in store.keys(bytes((kind, self.slot)), bytes((kind, self.slot + 1)))]

    def quiet(self, number: int) -> None:
        """Let time pass until a node has none of the slot's rows."""
        self.until(lambda: not self.rows(number))


def payloads(client: PacketClient) -> list[bytes]:
    found = [each for each in client.take() if isinstance(each, packets.Publish)]
    for each in found:
        if each.qos == 1:
            client.send(packets.Puback(each.packet_id))
    client.broker.settle()
    return [each.payload for each in found]


@pytest.fixture
def cluster() -> MovingCluster:
    return MovingCluster()


def subscriber(cluster: MovingCluster, number: int = 1, **fields: Any) -> PacketClient:
    return cluster[number].client("sub", clean=False, expiry_s=600, **fields)


def test_a_sleeping_session_moves_with_its_queue(cluster: MovingCluster) -> None:
    client = subscriber(cluster)
    client.subscribe(("t", 1))
    client.send(packets.Disconnect())
    writer = cluster[3].client("writer")
    for each in (b"1", b"2", b"3"):
        writer.publish("t", each, 1)
    assert cluster.move(2) == ""
    assert cluster.places("sub") == [("n2", cluster.places("sub")[0][1])] * 3
    writer.publish("t", b"4", 1)
    cluster.settle()
    again = subscriber(cluster, 3)
    assert payloads(again) == [b"1", b"2", b"3", b"4"]
    cluster.quiet(1)
