"""The table of a node that relays nothing."""

from __future__ import annotations

from strogoff.broker.gateway.locator import EverySlotHere, SlotLocator
from strogoff.cluster.identity import SLOTS


def test_every_slot_is_here() -> None:
    locator: SlotLocator = EverySlotHere("n1")
    locator.when_changed(lambda: None)
    assert {locator.primary_of(slot) for slot in range(SLOTS)} == {"n1"} and locator.epoch_of(7) == 0
