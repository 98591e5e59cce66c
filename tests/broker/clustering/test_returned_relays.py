"""A QoS 2 message of a shared subscription that a node relays, and that comes back to this node (H-09).

The message has left its origin, n3, for a member at n1 that is gone when it arrives. No publisher repeats it, so n1
relays it by itself to n2, whose member is moving to n1 at this moment.
"""

from __future__ import annotations

import pytest

from strogoff.mqtt import packets
from tests.broker.clustering.moving_cluster import MovingCluster
from tests.harness.broker import PacketClient, publish

GROUP = "$share/g/t"
NEAR_S, FAR_S = 0.1, 0.3


def _subscribed_there(cluster: MovingCluster, client_id: str) -> PacketClient:
    """Returns a client with a durable session at n2, which has just joined the group."""
    member = cluster[2].client(client_id, clean=False, expiry_s=600)
    member.send(packets.Subscribe(1, [packets.SubscribeOptions(GROUP, 2)], None))
    cluster.pass_s(0.02)
    assert [type(each) for each in member.take()] == [packets.Suback]
    return member


def _payloads(cluster: MovingCluster, client_id: str) -> list[bytes]:
    client, connack = cluster[1].connect(client_id, clean=False, expiry_s=600)
    assert connack.session_present
    return [each.payload for each in client.drain()]


def _relays(cluster: MovingCluster, number: int) -> int:
    clustering = cluster[number].host.clustering
    assert clustering is not None
    return clustering.relay_sender.copies


@pytest.mark.parametrize("qos", [1, 2])
def test_a_will_that_comes_back_reaches_the_member_that_has_moved_here(qos: int) -> None:
    cluster = MovingCluster()
    cluster.give("sub", cluster[2])
    one = cluster[1].client("one")
    one.subscribe((GROUP, 2))
    mortal = cluster[3].client("mortal", will=packets.Will("t", b"gone", qos))
    cluster.pass_s(1)
    cluster.network.delay("n3", "n1", FAR_S)
    mortal.vanish()
    cluster.pass_s(0.01)
    _subscribed_there(cluster, "sub")
    one.unsubscribe(GROUP)
    cluster.network.delay("n1", "n2", NEAR_S)
    cluster.begin(1, 2)
    cluster.until(lambda: _relays(cluster, 1))
    assert not cluster.ended()
    cluster.until(lambda: not (_relays(cluster, 1) or _relays(cluster, 2)))
    assert cluster.homes() == {"n1"}
    assert one.payloads() == [] and _payloads(cluster, "sub") == [b"gone"]


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_an_ended_member_left_comes_back_to_the_member_that_has_moved_here(replicas: int) -> None:
    """The publisher has its PUBREC. With two copies of each slot, too, a clean member leaves its messages so."""
    cluster = MovingCluster(queue_replicas=replicas)
    cluster.give("sub", cluster[2])
    ended = cluster[3].client("ended", receive_maximum=1)
    ended.subscribe((GROUP, 2))
    writer = cluster[3].client("writer")
    answers = writer.ask(publish("t", b"1", 2, 1), publish("t", b"2", 2, 2))
    one = cluster[1].client("one")
    one.subscribe((GROUP, 2))
    cluster.pass_s(3)
    assert [type(each) for each in [*answers, *writer.take()]] == [packets.Pubrec] * 2
    writer.ask(packets.Pubrel(1), packets.Pubrel(2))
    assert [each.payload for each in ended.messages()] == [b"1"]
    cluster.network.delay("n3", "n1", FAR_S)
    ended.vanish()
    cluster.pass_s(0.01)
    _subscribed_there(cluster, "sub")
    one.unsubscribe(GROUP)
    cluster.network.delay("n1", "n2", NEAR_S)
    cluster.begin(1, 2)
    assert cluster.ended() == ""
    cluster.until(lambda: not (_relays(cluster, 1) or _relays(cluster, 2)))
    cluster.pass_s(1)
    assert [each.payload for each in one.drain()] == [] and _payloads(cluster, "sub") == [b"2"]
