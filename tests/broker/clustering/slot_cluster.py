"""A simulated cluster whose nodes relay durable clients by the slot table."""

from __future__ import annotations

from strogoff.broker.clustering.table_locator import TableLocator
from strogoff.cluster.identity import slot_of
from strogoff.cluster.membership.commands import SetSlots
from strogoff.cluster.node import ClusterNode
from strogoff.cluster.slots.table import Holder, SlotRow
from tests.harness.cluster import MAJORITY, ClusterHarness, NodeHarness


def member_of(harness: NodeHarness) -> ClusterNode:
    member = harness.host.member
    assert member is not None
    return member


def locator_of(harness: NodeHarness) -> TableLocator:
    locator = harness.node.gateways.locator
    assert isinstance(locator, TableLocator)
    return locator


class SlotCluster(ClusterHarness):
    """A cluster whose nodes relay by the slot table. All slots belong to n1, the eldest, until `give` or `spread`."""

    def __init__(self, nodes: int = 3, **options: object) -> None:
        self.spreads = False
        super().__init__(nodes, **{**MAJORITY, **options})
        for harness in self.nodes:
            self.relay(harness)
        self.settle()

    def spread(self) -> None:
        """From now on the nodes give away empty slots."""
        self.spreads = True

    def closed(self, number: int) -> list[int]:
        """Returns the slots that a node is handing over."""
        clustering = self[number].host.clustering
        assert clustering is not None
        return list(clustering.handover.closed)

    def locator(self, number: int) -> TableLocator:
        return locator_of(self[number])

    def relay(self, harness: NodeHarness) -> None:
        clustering = harness.host.clustering
        assert clustering is not None
        harness.node.relay_by(locator_of(harness))
        tick = clustering.handover.tick
        clustering.handover.tick = lambda now_ms: tick(now_ms) if self.spreads else None  # type: ignore[method-assign]

    def restart(self, number: int) -> None:
        self[number].kill()
        self[number].start()
        self.relay(self[number])

    def places(self, client_id: str) -> list[tuple[str | None, int]]:
        """Returns primary and epoch of the client id's slot, in the table of each running node."""
        slot = slot_of("", client_id)
        locators = [self.locator(number) for number, harness in enumerate(self.nodes, 1) if harness.host.up]
        return [(each.primary_of(slot), each.epoch_of(slot)) for each in locators]

    def give(self, client_id: str, number: int) -> None:
        """Give the slot of the client id, which has no session, to a node."""
        slot = slot_of("", client_id)
        member = member_of(self[number])
        row = member.view.row(f"n{number}")
        assert row is not None
        target = Holder(row.node, member.me.disk, row.entered_in_view)
        for step in ("in sync", "primary"):
            present = member.slots.row(slot)
            assert present.primary is not None
            if step == "in sync":
                wanted = SlotRow(slot, present.epoch, present.version, present.primary, (*present.in_sync, target))
            else:
                wanted = SlotRow(slot, present.epoch, present.version, target, (target,))
            leader = next(each for each in self.nodes if each.leads)
            service = member_of(leader).lease_service
            assert service is not None
            service.request_slots(SetSlots((wanted,)))
            self.until(lambda version=present.version: member.slots.row(slot).version != version)
        self.until(lambda: len(set(self.places(client_id))) == 1)
