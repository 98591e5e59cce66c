"""A QoS 2 message of a shared subscription that a node relays, and that comes back to this node or its origin (H-09).

The message has left its origin, n3, for a member at n1 that is gone when it arrives. No publisher repeats it, so n1
relays it by itself to n2, whose member goes to n1 or n3 at this moment.
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
    _joins(member)
    cluster.pass_s(0.02)
    assert [type(each) for each in member.take()] == [packets.Suback]
    return member


def _joins(member: PacketClient) -> None:
    member.send(packets.Subscribe(1, [packets.SubscribeOptions(GROUP, 2)], None))


def _payloads(cluster: MovingCluster, client_id: str) -> list[bytes]:
    client, connack = cluster[1].connect(client_id, clean=False, expiry_s=600)
    assert connack.session_present
    return [each.payload for each in client.drain()]


def _ends_while_the_member_moves(cluster: MovingCluster, sender: PacketClient, one: PacketClient) -> None:
    """Break the sender's connection at n3. When its message arrives at n1, `one` has left the group, and the only
    member is at n2, in a slot that is moving to n1."""
    cluster.network.delay("n3", "n1", FAR_S)
    sender.vanish()
    cluster.pass_s(0.01)
    _subscribed_there(cluster, "sub")
    one.unsubscribe(GROUP)
    cluster.network.delay("n1", "n2", NEAR_S)
    cluster.begin(1, 2)


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
    _ends_while_the_member_moves(cluster, mortal, one)
    cluster.until(lambda: _relays(cluster, 1))
    assert not cluster.ended()
    cluster.until(lambda: not (_relays(cluster, 1) or _relays(cluster, 2)))
    assert cluster.homes() == {"n1"}
    assert one.payloads() == [] and _payloads(cluster, "sub") == [b"gone"]


def _left_behind(cluster: MovingCluster, one: PacketClient) -> PacketClient:
    """Returns a clean member at n3 that has got b"1", and leaves b"2" to the group when it ends. Their publisher has
    PUBREC for both. `one` has joined since."""
    ended = cluster[3].client("ended", receive_maximum=1)
    ended.subscribe((GROUP, 2))
    writer = cluster[3].client("writer")
    answers = writer.ask(publish("t", b"1", 2, 1), publish("t", b"2", 2, 2))
    one.subscribe((GROUP, 2))
    cluster.pass_s(3)
    assert [type(each) for each in [*answers, *writer.take()]] == [packets.Pubrec] * 2
    writer.ask(packets.Pubrel(1), packets.Pubrel(2))
    assert [each.payload for each in ended.messages()] == [b"1"]
    return ended


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_an_ended_member_left_comes_back_to_the_member_that_has_moved_here(replicas: int) -> None:
    """The publisher has its PUBREC. A clean member leaves its messages to the group with one copy and with two."""
    cluster = MovingCluster(queue_replicas=replicas)
    cluster.give("sub", cluster[2])
    one = cluster[1].client("one")
    _ends_while_the_member_moves(cluster, _left_behind(cluster, one), one)
    assert cluster.ended() == ""
    cluster.until(lambda: not (_relays(cluster, 1) or _relays(cluster, 2)))
    cluster.pass_s(1)
    assert one.payloads() == [] and _payloads(cluster, "sub") == [b"2"]


def _chased(cluster: MovingCluster, sender: PacketClient, one: PacketClient) -> list[bytes]:
    """Break the sender's connection at n3. When its message arrives at n1, the only member is at n2, and when it
    arrives there, at n3. Returns what the members get."""
    two, three = (cluster[number].client(name) for number, name in ((2, "two"), (3, "three")))
    cluster.network.delay("n3", "n1", FAR_S)
    sender.vanish()
    cluster.pass_s(0.01)
    _joins(two)
    cluster.pass_s(0.05)
    assert [type(each) for each in two.take()] == [packets.Suback]
    one.unsubscribe(GROUP)
    cluster.network.delay("n1", "n2", NEAR_S)
    cluster.until(lambda: _relays(cluster, 1))
    _joins(three)
    cluster.pass_s(0.01)
    two.send(packets.Unsubscribe(2, [GROUP]))
    cluster.until(lambda: not any(_relays(cluster, number) for number in (1, 2)))
    cluster.pass_s(1)
    return [each.payload for client in (one, two, three) for each in client.drain()]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_will_that_comes_home_reaches_the_member_there(qos: int) -> None:
    cluster = MovingCluster()
    one = cluster[1].client("one")
    one.subscribe((GROUP, 2))
    mortal = cluster[3].client("mortal", will=packets.Will("t", b"gone", qos))
    cluster.pass_s(1)
    assert _chased(cluster, mortal, one) == [b"gone"]


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_an_ended_member_left_comes_home_to_the_member_there(replicas: int) -> None:
    cluster = MovingCluster(queue_replicas=replicas)
    one = cluster[1].client("one")
    assert _chased(cluster, _left_behind(cluster, one), one) == [b"2"]
