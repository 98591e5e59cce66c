"""A message that a node relays to an absent member holds up nothing else between two healthy nodes."""

from __future__ import annotations

import pytest

from strogoff.mqtt import packets
from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.harness.broker import PacketClient, publish
from tests.harness.cluster import MAJORITY, ClusterHarness


class _Scene:
    """The absent member of a group lives at n3, a reader of `u` at n2, and the publishers are at n1. A clean member at
    n2 unsubscribes while a message for it is on its way: n2 relays it to n3."""

    def __init__(self, cluster: ClusterHarness) -> None:
        self.cluster = cluster
        absent = self.lasting("absent", 3)
        absent.subscribe(("$share/g/t", 1))
        absent.vanish()
        self.reader = self.lasting("reader", 2)
        self.reader.subscribe(("u", 1))
        self.member = cluster[2].client("member")
        self.member.subscribe(("$share/g/t", 1))
        self.writer, self.other = cluster[1].client("writer"), cluster[1].client("other")
        assert self.other.publish("u", b"0", 1)[0].reason == 0

    def lasting(self, client_id: str, number: int) -> PacketClient:
        return self.cluster[number].client(client_id, clean=False, expiry_s=6000)

    def relay(self) -> None:
        self.cluster.network.delay("n1", "n2", 0.05)
        self.writer.send(publish("t", b"relayed", 1, 2))
        self.member.send(packets.Unsubscribe(9, ["$share/g/t"]))
        self.cluster.pass_s(1.0)
        self.cluster.network.delay("n1", "n2", 0.0)
        assert self.writer.take() == []

    def publishes(self, *payloads: bytes) -> None:
        """All are acknowledged within three seconds."""
        for number, payload in enumerate(payloads, 10):
            self.other.send(publish("u", payload, 1, number))
        self.cluster.pass_s(3.0)
        assert [type(each) for each in self.other.take()] == [packets.Puback] * len(payloads)

    def ends(self) -> None:
        """The absent member's node is well again: its member gets the message, and the publisher its answer."""
        self.cluster.pass_s(15.0)
        assert [type(each) for each in self.writer.take()] == [packets.Puback]
        assert [each.payload for each in self.lasting("absent", 3).drain()] == [b"relayed"]


def _one_copy() -> ClusterHarness:
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(absent=3, reader=2)
    return cluster


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_relay_to_a_full_disk_holds_up_no_other_publisher(replicas: int) -> None:
    cluster = CopiedCluster(queue_replicas=replicas, **MAJORITY)
    if replicas == 2:
        cluster.all_copied()
    cluster.give("absent", cluster[3])
    cluster.give("reader", cluster[2])
    scene = _Scene(cluster)
    if replicas == 2:
        cluster.all_copied()
    cluster[3].disks[0].full = True
    cluster.pass_s(15.0)
    home = cluster.row("absent").primary
    assert home is not None and home.node == "n3"
    scene.relay()
    scene.publishes(b"1", b"2")
    assert [each.payload for each in scene.reader.drain()] == [b"0", b"1", b"2"]
    cluster[3].disks[0].full = False
    scene.ends()


@pytest.mark.parametrize("power", [False, True])
def test_what_was_acknowledged_behind_a_relay_is_there_once_after_a_restart(power: bool) -> None:
    """n2 restarts while its relay waits for n3. The link breaks, too."""
    cluster = _one_copy()
    scene = _Scene(cluster)
    scene.reader.drain()
    scene.reader.vanish()
    cluster[3].kill()
    cluster.pass_s(8.0)
    scene.relay()
    scene.publishes(b"1", b"2", b"3")
    cluster.network.drop("n1", "n2")
    scene.publishes(b"4")
    cluster[2].kill(power)
    scene.other.send(publish("u", b"5", 1, 20))
    cluster.pass_s(1.0)
    cluster[2].start()
    cluster.pass_s(20.0)
    assert [type(each) for each in scene.other.take()] == [packets.Puback]
    scene.publishes(b"6")
    cluster[3].start()
    cluster.whole()
    scene.ends()
    reader = scene.lasting("reader", 2)
    assert [each.payload for each in reader.drain()] == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_the_origin_restarts_while_a_relay_waits() -> None:
    """The new process of n1 has a new lane, which nothing holds up. Its clients repeat what had no answer."""
    cluster = _one_copy()
    scene = _Scene(cluster)
    cluster[3].kill()
    cluster.pass_s(8.0)
    scene.relay()
    scene.publishes(b"1")
    cluster[1].kill()
    cluster.pass_s(8.0)
    cluster[1].start()
    cluster.pass_s(20.0)
    scene.writer, scene.other = cluster[1].client("writer"), cluster[1].client("other")
    scene.publishes(b"2")
    assert [each.payload for each in scene.reader.drain()] == [b"0", b"1", b"2"]
    cluster[3].start()
    cluster.whole()
    cluster.pass_s(5.0)
    scene.publishes(b"3")
    assert [each.payload for each in scene.reader.drain()] == [b"3"]
    assert [each.payload for each in scene.lasting("absent", 3).drain()] == [b"relayed"]
