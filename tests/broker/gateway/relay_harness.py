"""A cluster of brokers whose clients are relayed: the test decides which node is the primary of each slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strogoff.broker.gateway.credit import BUDGET_BYTES
from strogoff.broker.gateway.gateways import Gateways
from strogoff.cluster.identity import SLOTS, slot_of
from strogoff.cluster.slots.table import SlotHome
from strogoff.mqtt import packets
from tests.harness.cluster import ClusterHarness, NodeHarness


def props(connack: packets.Connack) -> dict[str, Any]:
    """Returns the properties of a CONNACK that has some."""
    assert connack.properties is not None
    return connack.properties


class Table:
    """The table of slots as one node has applied it. A `SlotLocator`."""

    def __init__(self, primary: str | None) -> None:
        self.rows: dict[int, tuple[str | None, int]] = dict.fromkeys(range(SLOTS), (primary, 1))
        self.deputies: dict[int, str] = {}
        self._changed: list[Callable[[], None]] = []

    def primary_of(self, slot: int) -> str | None:
        return self.rows[slot][0]

    def home_of(self, slot: int) -> SlotHome:
        primary, _ = self.rows[slot]
        return SlotHome(primary or "", primary is not None, 0)

    def homes(self) -> list[SlotHome]:
        return [self.home_of(slot) for slot in range(SLOTS)]

    def holders_of(self, slot: int) -> tuple[str, ...]:
        return ()

    def registrar_of(self, slot: int) -> str | None:
        return self.rows[slot][0] or self.deputies.get(slot)

    def registered_by(self, node: str) -> dict[int, int]:
        return {slot: self.epoch_of(slot) for slot in range(SLOTS) if self.registrar_of(slot) == node}

    def holds(self, slot: int) -> bool:
        return True

    def epoch_of(self, slot: int) -> int:
        return self.rows[slot][1]

    def when_changed(self, changed: Callable[[], None]) -> None:
        self._changed.append(changed)

    def apply(self, primary: str | None, epoch: int, slots: list[int] | None = None) -> None:
        """Give slots (all by default) this primary and epoch, and report the change."""
        for slot in range(SLOTS) if slots is None else slots:
            self.rows[slot] = (primary, epoch)
        for changed in self._changed:
            changed()


class RelayHarness(ClusterHarness):
    """All slots have the primary n2 at first; clients at other nodes are relayed. Sessions are durable by default."""

    def __init__(self, nodes: int = 2, primary: str | None = "n2", **options: Any) -> None:
        super().__init__(nodes, **options)
        self.tables: dict[str, Table] = {}
        for harness in self.nodes:
            harness.durable = True
            self.relay(harness, primary)
        self.settle()

    def place(self, client_id: str, node: NodeHarness) -> None:
        """Do nothing: the tables of this harness decide."""

    def relay(self, harness: NodeHarness, primary: str | None) -> None:
        """Switch the relay of a node on."""
        table = self.tables[harness.host.name] = Table(primary)
        harness.node.relay_by(table)
        assert harness.host.clustering is not None
        table.when_changed(harness.host.clustering.slots.follower.follow)
        harness.host.clustering.slots.follower.follow()

    def apply(self, primary: str | None, epoch: int, client_id: str | None = None) -> None:
        """All running nodes apply this primary, for all slots or for that of one client id."""
        for harness in self.nodes:
            if harness.host.up:
                slots = None if client_id is None else [slot_of("", client_id)]
                self.tables[harness.host.name].apply(primary, epoch, slots)
        self.settle()

    def give_deputy(self, deputy: str, epoch: int) -> None:
        """All running nodes apply a table without primaries, in which this node is the deputy of all slots."""
        for harness in self.nodes:
            if harness.host.up:
                self.tables[harness.host.name].deputies = dict.fromkeys(range(SLOTS), deputy)
        self.apply(None, epoch)

    def registered(self, number: int) -> int:
        """Returns how many clients at gateways a node knows as registrar."""
        return self.gateways(number).counts["registered_clients"]

    def local(self, number: int) -> int:
        """Returns how many clients a node serves as their gateway."""
        return self.gateways(number).counts["local_clients"]

    def gateways(self, number: int) -> Gateways:
        return self[number].node.gateways

    def counts(self, number: int) -> tuple[int, int, int]:
        """Returns the connections relayed by a node, those that it serves for others, and those that wait."""
        counts = self.gateways(number).counts
        return counts["relayed_connections"], counts["relayed_sessions"], counts["relay_waiting_connects"]

    def nothing_left(self) -> bool:
        """Whether no relayed connection is left, and all growth of windows is given back."""
        for harness in self.nodes:
            if not harness.host.up:
                continue
            for peer in harness.node.gateways._peers.values():
                if peer.asked or peer.served or peer.early or peer.grown or peer.node.blocked:
                    return False
                if (peer.node.room_up.free, peer.node.room_down.free) != (BUDGET_BYTES, BUDGET_BYTES):
                    return False
        return True
