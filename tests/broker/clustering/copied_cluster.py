"""A cluster whose slots have two copies, and clients whose slots the test places."""

from __future__ import annotations

from strogoff.broker.clustering.slot_replicator import SlotReplicator
from strogoff.cluster.identity import slot_of
from strogoff.cluster.node import ClusterNode
from strogoff.cluster.slots.table import SlotRow
from strogoff.mqtt import packets
from tests.broker.clustering.slot_cluster import SlotCluster
from tests.harness.broker import PacketClient

KINDS = b"sbqiepuzjkya"


class CopiedCluster(SlotCluster):
    """Three nodes with two copies of each slot; the slot of client `sub` is at n1."""

    def __init__(self, nodes: int = 3, **options: object) -> None:
        super().__init__(nodes, **{"queue_replicas": 2, **options})
        self.slot = slot_of("", "sub")

    def replicator(self, number: int) -> SlotReplicator:
        clustering = self[number].host.clustering
        assert clustering is not None
        return clustering.slots.replicator

    def row(self, client_id: str = "sub") -> SlotRow:
        """The row of a client's slot, in the newest table of a running node."""
        members = [harness.member for harness in self.nodes if harness.host.up]
        newest = max(members, key=lambda member: member.slots.index)
        return newest.slots.row(slot_of("", client_id))

    def copied(self, client_id: str = "sub") -> tuple[int, int]:
        """Let time pass until the slot of a client has two copies. Returns the numbers of primary and follower."""
        self.until(lambda: self.row(client_id).primary is not None and len(self.row(client_id).in_sync) == 2)
        row = self.row(client_id)
        assert row.primary is not None
        (other,) = [holder for holder in row.in_sync if holder != row.primary]
        return int(row.primary.node[1:]), int(other.node[1:])

    def lose_follower(self, client_id: str = "sub") -> int:
        """Kill the follower of a client's slot, and let time pass until the table knows. Returns its number."""
        _, follower = self.copied(client_id)
        self[follower].kill()
        self.until(lambda: len(self.row(client_id).in_sync) == 1)
        return follower

    def all_copied(self) -> None:
        """Let time pass until each slot has two copies."""
        self.until(lambda: all(len(row.in_sync) == 2 for row in self._running().slots.rows), 120)

    def _running(self) -> ClusterNode:
        return next(harness.member for harness in self.nodes if harness.host.up)

    def move(self, client_id: str, number: int) -> None:
        """Give the slot of a client, who has a session, to a node."""
        primary, _ = self.copied(client_id)
        if primary != number:
            clustering, outcome = self[primary].host.clustering, list[str]()
            assert clustering is not None
            clustering.slots.moves.begin(slot_of("", client_id), f"n{number}", outcome.append)
            self.until(lambda: bool(outcome), 60)
            assert outcome == [""]

    def third(self, client_id: str = "sub") -> int:
        """The number of the node that is neither primary nor follower."""
        primary, follower = self.copied(client_id)
        return 6 - primary - follower

    def rows(self, number: int, client_id: str = "sub") -> dict[bytes, bytes]:
        """The rows of a client's slot at a node, those that all copies must have."""
        store, slot = self[number].node.env.store, slot_of("", client_id)
        found: dict[bytes, bytes] = {}
        for kind in KINDS:
            found.update(store.scan(bytes((kind, slot)), bytes((kind, slot + 1))))
        return found

    def taken_over(self, former: int, client_id: str = "sub") -> int:
        """Let time pass until another node is the primary. Returns its number."""
        name = f"n{former}"
        self.until(lambda: (row := self.row(client_id)).primary is not None and row.primary.node != name)
        primary = self.row(client_id).primary
        assert primary is not None
        return int(primary.node[1:])


def subscriber(cluster: CopiedCluster, number: int = 1, qos: int = 1, text: str = "t") -> PacketClient:
    """A client with a durable session and one subscription."""
    client = cluster[number].client("sub", clean=False, expiry_s=600)
    client.subscribe((text, qos))
    return client


def resumed(cluster: CopiedCluster, number: int) -> list[bytes]:
    """Connect at a node: the payloads of everything that waits there, answered."""
    client, connack = cluster[number].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present
    return [each.payload for each in client.drain()]


def durable(
    cluster: CopiedCluster, number: int, client_id: str, *filters: tuple[str, int], will: packets.Will | None = None
) -> PacketClient:
    """A connected client with a durable session and these subscriptions."""
    client = cluster[number].client(client_id, clean=False, expiry_s=60000, will=will)
    if filters:
        client.subscribe(*filters)
    return client


def placed_at(cluster: CopiedCluster, follower: int, prefix: str, *filters: tuple[str, int]) -> str:
    """Make a durable session whose slot is at n1, with its copy at this follower. Returns its client id."""
    for number in range(20):
        client_id = f"{prefix}{number}"
        durable(cluster, 1, client_id).leave()
        cluster.move(client_id, 1)
        if cluster.copied(client_id) == (1, follower):
            durable(cluster, 1, client_id, *filters).leave()
            return client_id
    raise AssertionError(f"no slot of {prefix} has its copy at n{follower}")
