"""The slots in which no session may begin at their primary."""

from __future__ import annotations

from strogoff.cluster.slots.table import Holder
from tests.broker.clustering.moving_cluster import MovingCluster, subscriber


def test_a_slot_is_closed_while_it_is_handed_over_or_moves() -> None:
    cluster = MovingCluster(2)
    clustering = cluster[1].host.clustering
    assert clustering is not None
    slots = clustering.slots
    subscriber(cluster).leave()
    assert cluster.slot not in slots and slots.is_primary(cluster.slot) and slots.locator.holds(cluster.slot)
    cluster.cut_while_copying()
    assert cluster.slot in slots and not slots.is_primary(cluster.slot) and not slots.locator.holds(cluster.slot)
    slots.handover._handover.close(cluster[1].member.slots.row(5), Holder("n2", "disk", 1))
    assert 5 in slots and 6 not in slots


def test_an_empty_slot_that_moves_is_not_handed_over_as_well() -> None:
    cluster = MovingCluster()
    slots = cluster[1].host.clustering.slots  # type: ignore[union-attr]
    assert slots._empty([cluster.slot, 7]) == [cluster.slot, 7]
    cluster.begin(2)
    assert slots._empty([cluster.slot, 7]) == [7]
    assert cluster.ended() == "" and cluster.homes() == {"n2"}


def test_a_node_is_at_rest_when_it_hands_over_no_slots_and_opens_none() -> None:
    cluster = MovingCluster(2)
    slots = cluster[1].host.clustering.slots  # type: ignore[union-attr]
    assert slots.at_rest
    slots.opening.unopened[5] = "waits"
    assert not slots.at_rest
    slots.opening.unopened.clear()
    slots.handover.place = lambda slot, zones: "n2"
    assert not slots.at_rest
    slots.handover.place = lambda slot, zones: "n1"
    slots.handover._handover.close(cluster[1].member.slots.row(5), Holder("n2", "disk", 1))
    assert not slots.at_rest
