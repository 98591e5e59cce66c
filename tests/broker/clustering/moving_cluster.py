"""A cluster in which the slot of one client moves between nodes."""

from __future__ import annotations

from typing import Any

from strogoff.broker.clustering.slot_departure import COPYING
from strogoff.broker.clustering.slot_moves import SlotMoves
from strogoff.cluster.identity import slot_of
from tests.broker.clustering.slot_cluster import SlotCluster
from tests.harness.broker import PacketClient


class MovingCluster(SlotCluster):
    """Three nodes; the slot of client `sub` is at n1."""

    def __init__(self, nodes: int = 3, **options: object) -> None:
        super().__init__(nodes, **options)
        self.slot = slot_of("", "sub")
        self.outcome: list[str] = []

    def moves(self, number: int) -> SlotMoves:
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

    def phase(self, number: int = 1) -> str:
        """The phase of the departure at a node; "" if nothing departs there."""
        departure = self.moves(number).departure
        return departure.phase if departure is not None else ""

    def copying(self, target: int = 2) -> None:
        """Begin to move the slot to a node whose process is paused: its rows wait for it."""
        self.begin(target)
        self[target].pause_process()
        self.until(lambda: self.phase() == COPYING)

    def cut_while_copying(self, target: int = 2) -> None:
        """Begin to move the slot, and cut the link to the target: the rows wait for `heal`."""
        self.begin(target)
        self.network.cut("n1", f"n{target}")
        self.until(lambda: self.phase() == COPYING)

    def ended(self) -> str:
        """Let time pass until the move has ended. Returns the reason why the slot stays, or ""."""
        self.until(lambda: bool(self.outcome))
        return self.outcome[0]

    def homes(self) -> set[str | None]:
        """The primaries of the slot in the tables of all running nodes."""
        return {node for node, _ in self.places("sub")}


def subscriber(cluster: MovingCluster, number: int = 1, qos: int = 1, text: str = "t", **fields: Any) -> PacketClient:
    """A client with a durable session and one subscription."""
    client = cluster[number].client("sub", clean=False, expiry_s=600, **fields)
    client.subscribe((text, qos))
    return client


def resumed(cluster: MovingCluster, number: int) -> list[bytes]:
    """Connect at a node: the payloads of everything that waits there, answered."""
    client, connack = cluster[number].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present
    return _drained(client)


def _drained(client: PacketClient) -> list[bytes]:
    return [each.payload for each in client.drain()]
