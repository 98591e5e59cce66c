"""A simulated cluster whose slots belong to the nodes that the test names, or spread by themselves."""

from __future__ import annotations

from strogoff.broker.clustering.table_locator import TableLocator
from strogoff.cluster.identity import slot_of
from tests.harness.cluster import MAJORITY, ClusterHarness, NodeHarness


def locator_of(harness: NodeHarness) -> TableLocator:
    locator = harness.node.gateways.locator
    assert isinstance(locator, TableLocator)
    return locator


class SlotCluster(ClusterHarness):
    """All slots belong to n1, the eldest node, until `give` or `spread`."""

    def __init__(self, nodes: int = 3, **options: object) -> None:
        super().__init__(nodes, **{**MAJORITY, **options})

    def place(self, client_id: str, node: NodeHarness) -> None:
        """Leave the slot where it is."""

    def spread(self) -> None:
        """From now on the nodes give away empty slots."""
        for harness in self.nodes:
            harness.host.spreads = True

    def closed(self, number: int) -> list[int]:
        """Returns the slots that a node is handing over."""
        clustering = self[number].host.clustering
        assert clustering is not None
        return list(clustering.slots.handover.closed)

    def locator(self, number: int) -> TableLocator:
        return locator_of(self[number])

    def restart(self, number: int) -> None:
        self[number].kill()
        self[number].start()

    def places(self, client_id: str) -> list[tuple[str | None, int]]:
        """Returns primary and epoch of the client id's slot, in the table of each running node."""
        slot = slot_of("", client_id)
        locators = [self.locator(number) for number, harness in enumerate(self.nodes, 1) if harness.host.up]
        return [(each.primary_of(slot), each.epoch_of(slot)) for each in locators]
