"""A QoS 2 message of a shared subscription whose member goes: one member gets it [MQTT5-4.8.2-5] (H-09)."""

from __future__ import annotations

import math

import pytest

from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import publish
from tests.harness.cluster import MAJORITY, ClusterHarness


def test_who_has_nobody_left_in_the_group_says_so_to_the_origin_and_dies() -> None:
    """H-09: had it relayed the message itself, nobody would know any more who has it."""
    cluster = ClusterHarness(3, **MAJORITY)
    first = cluster[2].client("first")
    first.subscribe(("$share/g/a", 2))
    cluster.network.delay("n1", "n2", 0.2)
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    writer.send(publish("a", b"m", 2, 7))
    cluster.settle()
    third = cluster[3].client("third", clean=False, expiry_s=600)
    third.subscribe(("$share/g/a", 2))
    first.unsubscribe("$share/g/a")
    cluster.network.delay("n3", "n2", 0.3)
    cluster.network.delay("n3", "n1", 0.3)
    cluster.until(lambda: [each.payload for each in third.drain()] == [b"m"])
    cluster[2].kill()
    second = cluster[1].client("second", clean=False, expiry_s=600)
    second.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/a", 2)], None))
    cluster.state_of(1, ViewState.MAJORITY)
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Pubrec]
    assert second.drain() == []


@pytest.mark.parametrize("arrives", [True, False])
def test_a_handshake_that_goes_on_asks_the_node_whose_member_has_unsubscribed(arrives: bool) -> None:
    """[MQTT5-4.8.2-5]: it may have the message; where it has not, another member gets it."""
    cluster = ClusterHarness(3, **MAJORITY)
    first = cluster[2].client("first", clean=False, expiry_s=600)
    first.subscribe(("$share/g/a", 2))
    cluster.network.delay(*(("n2", "n1") if arrives else ("n1", "n2")), 0.3)
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    writer.send(publish("a", b"m", 2, 7))
    cluster.settle()
    assert [each.payload for each in first.drain()] == ([b"m"] if arrives else [])
    second = cluster[3].client("second", clean=False, expiry_s=600)
    second.subscribe(("$share/g/a", 2))
    first.send(packets.Unsubscribe(2, ["$share/g/a"]))
    cluster.settle()
    cluster[1].kill()
    cluster.network.delay("n2", "n1", 0.0)
    cluster.network.delay("n1", "n2", 0.0)
    cluster[1].start()
    cluster.whole()
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    writer.send(publish("a", b"m", 2, 7, dup=True))
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Pubrec]
    assert [each.payload for each in second.drain()] == ([] if arrives else [b"m"])
    assert first.drain() == []


@pytest.mark.parametrize("arrives", [True, False])
def test_a_durable_member_of_an_absent_node_may_get_a_message_after_unsubscribing(arrives: bool) -> None:
    cluster = ClusterHarness(3, **MAJORITY)
    first = cluster[2].client("first", clean=False, expiry_s=600)
    first.subscribe(("$share/g/a", 2))
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    cluster.network.one_way(*(("n2", "n1") if arrives else ("n1", "n2")))
    writer.send(publish("a", b"m", 2, 7))
    cluster.settle()
    assert [each.payload for each in first.drain()] == ([b"m"] if arrives else [])
    second = cluster[3].client("second", clean=False, expiry_s=600)
    second.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/a", 2)], None))
    first.send(packets.Unsubscribe(2, ["$share/g/a"]))
    cluster.state_of(1, ViewState.MAJORITY)
    cluster.pass_s(1.0)
    assert writer.take() == []
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Pubrec]
    assert [each.payload for each in second.drain()] == ([] if arrives else [b"m"])


@pytest.mark.parametrize("interval_s", [1, 600])
def test_what_expired_while_it_waited_for_the_node_of_a_member_goes_to_nobody_else(interval_s: int) -> None:
    """MQTT5-3.3.2-5 (3 nodes, seed 45471)."""
    cluster = ClusterHarness(3, **MAJORITY)
    gone = cluster[2].client("gone")
    gone.subscribe(("$share/g/t", 1))
    writer = cluster[1].client("writer")
    cluster.network.one_way("n1", "n2")
    assert writer.publish("t", b"m", 1, message_expiry_interval=interval_s) == []
    cluster[2].kill()
    other = cluster[1].client("other")
    other.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/t", 1)], None))
    cluster.state_of(1, ViewState.MAJORITY)
    cluster.settle()
    assert [type(each) for each in writer.take()] == [packets.Puback]
    assert other.payloads() == ([b"m"] if interval_s > 1 else [])
    assert cluster[1].node.env.counters.queue_message_expired == (interval_s == 1)


@pytest.mark.parametrize("qos", [1, 2])
def test_what_expired_on_its_way_to_a_member_that_has_gone_is_said(qos: int) -> None:
    """P8: by a node that still has one."""
    cluster = ClusterHarness(3, **MAJORITY)
    chosen = cluster[2].client("chosen")
    chosen.subscribe(("$share/g/a", 2))
    writer = cluster[1].client("writer")
    cluster.network.delay("n1", "n2", 1.1)
    writer.send(publish("a", b"m", qos, 7, message_expiry_interval=1))
    cluster.settle()
    other = cluster[3].client("other", clean=False, expiry_s=600)
    other.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/a", 2)], None))
    chosen.unsubscribe("$share/g/a")
    cluster.pass_s(3.0)
    assert [type(each) for each in writer.take()] == [packets.Puback if qos == 1 else packets.Pubrec]
    assert other.drain() == []
    assert [harness.node.env.counters.queue_message_expired for harness in cluster.nodes] == [0, 0, 1]


def test_what_a_member_left_behind_goes_to_another_node_when_it_is_forgotten_here() -> None:
    """Had it left before, a restart would bring the session back, and its message would go to a member once more."""
    cluster = ClusterHarness(3, **MAJORITY)
    first = cluster[2].client("first", clean=False, expiry_s=2)
    first.subscribe(("$share/g/a", 2))
    first.leave()
    assert [type(each) for each in cluster[1].client("writer").publish("a", b"m", 2)] == [packets.Pubrec]
    second = cluster[3].client("second", clean=False, expiry_s=600)
    second.subscribe(("$share/g/a", 2))
    cluster.pass_s(1.9)
    cluster[2].disks[0].stall_until = math.inf
    cluster[2].connect_soon("busy", clean=False, expiry_s=600)  # its record is being written
    cluster.until(lambda: cluster[2].node.sessions.get("", "first") is None)
    cluster.settle()
    got = second.drain()
    cluster[2].kill()
    cluster[2].disks[0].stall_until = 0.0
    cluster[2].start()
    cluster.whole()
    cluster.pass_s(3.0)
    assert [each.payload for each in got + second.drain()] == [b"m"]


@pytest.mark.parametrize("stays", [True, False])
def test_what_is_forgotten_goes_to_who_is_there_then(stays: bool) -> None:
    cluster = ClusterHarness(3, **MAJORITY)
    first = cluster[2].client("first", clean=False, expiry_s=2)
    first.subscribe(("$share/g/a", 2))
    first.leave()
    cluster[1].client("writer").publish("a", b"m", 2)
    second = cluster[3].client("second", clean=False, expiry_s=600)
    second.subscribe(("$share/g/a", 2))
    cluster.pass_s(1.9)
    cluster[2].disks[0].stall_until = math.inf
    cluster.until(lambda: cluster[2].node.sessions.get("", "first") is None)
    third = cluster[1].client("third", clean=False, expiry_s=600)
    third.subscribe(("$share/g/a", 2))
    if not stays:
        second.unsubscribe("$share/g/a")
    cluster[2].disks[0].stall_until = 0.0
    cluster.pass_s(1.0)
    assert [[each.payload for each in member.drain()] for member in (second, third)] == (
        [[b"m"], []] if stays else [[], [b"m"]]
    )


@pytest.mark.parametrize("qos", [1, 2])
def test_a_member_that_cannot_hold_the_message_is_nobody(qos: int) -> None:
    """P1: it is away and has subscribed with QoS 0; the one that was chosen has gone; another node has one more."""
    cluster = ClusterHarness(3, **MAJORITY)
    chosen, away = cluster[2].client("chosen"), cluster[2].client("away", clean=False, expiry_s=600)
    chosen.subscribe(("$share/g/a", 2))
    away.subscribe(("$share/g/a", 0))
    away.leave()
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    cluster.network.delay("n1", "n2", 0.2)
    writer.send(publish("a", b"m", qos, 7))
    cluster.settle()
    other = cluster[3].client("other", clean=False, expiry_s=600)
    other.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/a", 2)], None))
    chosen.unsubscribe("$share/g/a")
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Puback if qos == 1 else packets.Pubrec]
    assert [each.payload for each in other.drain()] == [b"m"]


def test_a_handshake_goes_to_another_node_if_the_member_here_cannot_hold_its_message() -> None:
    """P1: online when it was drawn, away when the packet id is safe."""
    cluster = ClusterHarness(3, **MAJORITY)
    away = cluster[1].client("away", clean=False, expiry_s=600)
    away.subscribe(("$share/g/a", 0))
    other = cluster[3].client("other", clean=False, expiry_s=600)
    other.subscribe(("$share/g/a", 2))
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    cluster[1].disks[0].stall_until = cluster.loop.now_s + 0.5
    writer.send(publish("a", b"m", 2, 7))
    cluster.settle()
    away.vanish()
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Pubrec]
    assert [each.payload for each in other.drain()] == [b"m"]


@pytest.mark.parametrize("here", [True, False])
def test_what_a_clean_session_left_behind_is_taken_once(here: bool) -> None:
    """H-12: a session that lasts has it, and the nodes are restarted before the publisher has its answer
    (3 nodes, --workload groups, all,rare, seed 3054)."""
    cluster = ClusterHarness(3, **MAJORITY)
    second = cluster[2 if here else 3].client("second", clean=False, expiry_s=600)
    second.subscribe(("$share/g/a", 2))
    second.leave()
    first = cluster[2].client("first", receive_maximum=1)
    first.subscribe(("$share/g/a", 2), ("b", 2))
    cluster[2].client("other").publish("b", b"", 2)
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    cluster.network.one_way("n2", "n1")
    writer.send(publish("a", b"m", 2, 7))
    cluster.settle()
    assert [each.payload for each in first.messages()] == [b""]
    first.vanish()
    cluster.pass_s(0.1)
    for number in (1, 2):
        cluster[number].kill()
    cluster.network.heal()
    for number in (1, 2):
        cluster[number].start()
    cluster.whole()
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    writer.send(publish("a", b"m", 2, 7, dup=True))
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Pubrec]
    second = cluster[2 if here else 3].client("second", clean=False, expiry_s=600)
    assert [each.payload for each in second.drain()] == [b"m"]
