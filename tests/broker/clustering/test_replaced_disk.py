"""A member's disk is replaced before the view notices that it died: the node with the copy has its slots (P1)."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.slot_opening import SlotOpening
from strogoff.mqtt import packets
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.harness.cluster import MAJORITY


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("where", ["follower", "third"])
def test_a_disk_is_replaced_while_a_message_is_under_way(qos: int, where: str) -> None:
    cluster = CopiedCluster(**MAJORITY)
    subscriber(cluster, 1, qos)
    cluster.all_copied()
    primary, follower = cluster.copied()
    third = cluster.third()
    at, other = (follower, third) if where == "follower" else (third, follower)
    writer = cluster[at].client("w")
    cluster[primary].kill()
    assert writer.publish("t", b"1", qos, 7) == []
    cluster[primary].replace_disk()
    cluster[primary].host.start()
    assert cluster[primary].join(f"n{other}:1") == ""
    cluster.whole()
    cluster.pass_s(1)
    assert [type(each) for each in writer.take()] == [packets.Puback if qos == 1 else packets.Pubrec]
    assert resumed(cluster, at) == [b"1"]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_new_disk_sends_by_the_routes_that_its_predecessor_wrote(qos: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next primary of a slot with many subscriptions takes seconds to write their routes again (H-41)."""
    cluster = CopiedCluster(**MAJORITY)
    subscriber(cluster, 1, qos)
    cluster.all_copied()
    primary, follower = cluster.copied()
    monkeypatch.setattr(SlotOpening, "_announce", lambda opening: None)
    cluster[primary].replace_disk()
    assert cluster.taken_over(primary) == follower
    cluster[primary].host.start()
    assert cluster[primary].join(f"n{follower}:1") == ""
    cluster.whole()
    writer = cluster[primary].client("w")
    assert [type(each) for each in writer.publish("t", b"1", qos, 7)] == [
        packets.Puback if qos == 1 else packets.Pubrec
    ]
    assert resumed(cluster, follower) == [b"1"]
