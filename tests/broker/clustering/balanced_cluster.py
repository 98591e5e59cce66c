"""A cluster with two copies of each slot that spreads its slots by itself, and clients with sessions in many slots."""

from __future__ import annotations

from strogoff.broker.clustering.slot_balance import SlotBalance
from strogoff.broker.clustering.slot_moves import SlotMoves
from strogoff.cluster.identity import slot_of
from strogoff.cluster.slots.handover import first_wanted
from strogoff.cluster.slots.table import SlotRow
from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.harness.broker import PacketClient

WAIT_S = 8
"""`queue_balance_wait`: longer than a node takes to return, in virtual time."""


class BalancedCluster(CopiedCluster):
    """All slots are where the placement wants them, with two copies. `names` has the ids of clients with sessions, each
    in a slot of its own: as many of each node."""

    def __init__(self, nodes: int = 3, of_each: int = 3, **options: object) -> None:
        super().__init__(nodes, **{"queue_balance_wait_s": WAIT_S, **options})
        self.clients: dict[str, PacketClient] = {}
        self.spread()
        self.all_placed()
        self.all_copied()
        self.names = self._some(of_each)
        for name in self.names:
            self.come(name)

    def _some(self, of_each: int) -> list[str]:
        found: dict[str, dict[int, str]] = {harness.host.name: {} for harness in self.nodes}
        for number in range(4_000):
            slot = slot_of("", name := f"c{number}")
            mine = found[self.place_of(slot)]
            if len(mine) < of_each:
                mine.setdefault(slot, name)
        return [name for mine in found.values() for name in mine.values()]

    def balance(self, number: int) -> SlotBalance:
        clustering = self[number].host.clustering
        assert clustering is not None
        return clustering.slots.balance

    def place_of(self, slot: int) -> str:
        """The node that should have a slot when all nodes serve."""
        return first_wanted(slot, {harness.host.name: harness.host.name for harness in self.nodes})

    def moves(self, number: int) -> SlotMoves:
        clustering = self[number].host.clustering
        assert clustering is not None
        return clustering.slots.moves

    def row_table(self) -> tuple[SlotRow, ...]:
        """The rows of the newest table of a running node."""
        members = [harness.member for harness in self.nodes if harness.host.up]
        return max(members, key=lambda member: member.slots.index).slots.rows

    def of(self, number: int) -> list[str]:
        """The clients whose slots should be at a node."""
        return [name for name in self.names if self.place_of(slot_of("", name)) == f"n{number}"]

    def come(self, name: str, number: int = 1) -> None:
        """A durable client connects at a node."""
        client, connack = self[number].connect(name, clean=False, expiry_s=600)
        assert connack.reason == 0
        self.clients[name] = client

    def closed_names(self) -> list[str]:
        """The clients whose connections were closed."""
        return [name for name, client in self.clients.items() if client.closed]

    def primaries(self) -> dict[str, str]:
        """Client -> the primary of its slot, "" if there is none."""
        rows = {name: self.row(name) for name in self.names}
        return {name: row.primary.node if row.primary is not None else "" for name, row in rows.items()}

    def placed(self) -> bool:
        """True if each slot is where the placement wants it, for any running node."""
        return all(
            row.primary is not None and row.primary.node == self.place_of(row.slot)
            for row in self._running().slots.rows
        )

    def all_placed(self, patience_s: float = 120) -> float:
        """Let time pass until each slot is in its place. Returns the seconds that it took."""
        return self.until(self.placed, patience_s)

    def back(self, number: int) -> None:
        """Kill a node, and start it when the others serve without it. Its clients come back to n1."""
        self[number].kill()
        self.until(lambda: f"n{number}" not in self.primaries().values() and "" not in self.primaries().values())
        self[number].start()
        self.whole()
        for name in self.closed_names():
            self.come(name)

    def rows_of(self, *types: str) -> list[dict[str, object]]:
        """The rows of these types in the event logs of all nodes."""
        return [row for harness in self.nodes for row in harness.host.events if row["type"] in types]

    def begun(self) -> list[int]:
        """The slots with sessions that have begun to move, by node and in order."""
        return [int(str(row["slot"])) for row in self.rows_of("slot.move")]

    def first_move(self) -> float:
        """Let time pass until a slot with sessions begins to move. Returns the seconds that it took."""
        before = len(self.begun())
        return self.until(lambda: len(self.begun()) > before, 60)

    def nothing_moves(self, seconds: float = 3 * WAIT_S) -> None:
        """Let time pass; no slot with sessions begins to move meanwhile."""
        before = self.begun()
        self.pass_s(seconds)
        assert self.begun() == before
