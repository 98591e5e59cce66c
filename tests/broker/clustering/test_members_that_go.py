"""A QoS 2 message of a shared subscription whose member leaves: one member gets it [MQTT5-4.8.2-5] (H-09)."""

from __future__ import annotations

import math

import pytest

from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import publish
from tests.harness.cluster import MAJORITY, ClusterHarness


def test_a_node_without_members_returns_a_message_to_the_origin_before_it_dies() -> None:
    """H-09: after a relay by the dying node itself no node would know which member has the message."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(third=3, second=1)
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
def test_a_resumed_handshake_asks_the_node_of_an_unsubscribed_member(arrives: bool) -> None:
    """[MQTT5-4.8.2-5]: the old member may have the message; if not, another member gets it."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(second=3)
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
def test_an_unsubscribed_durable_member_may_still_get_its_message(arrives: bool) -> None:
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(second=3)
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
def test_a_message_that_expires_while_it_waits_for_a_node_is_not_reassigned(interval_s: int) -> None:
    """MQTT5-3.3.2-5 (3 nodes, seed 45471)."""
    cluster = ClusterHarness(3, **MAJORITY)
    gone, other = cluster[2].client("gone"), cluster[1].client("other")
    gone.subscribe(("$share/g/t", 1))
    writer = cluster[1].client("writer")
    cluster.network.one_way("n1", "n2")
    assert writer.publish("t", b"m", 1, message_expiry_interval=interval_s) == []
    cluster[2].kill()
    other.send(packets.Subscribe(1, [packets.SubscribeOptions("$share/g/t", 1)], None))
    cluster.state_of(1, ViewState.MAJORITY)
    cluster.settle()
    assert [type(each) for each in writer.take()] == [packets.Puback]
    assert other.payloads() == ([b"m"] if interval_s > 1 else [])
    assert cluster[1].node.env.counters.queue_message_expired == (interval_s == 1)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_that_expires_on_its_way_to_a_gone_member_is_reported(qos: int) -> None:
    """P8: a node that still has a member records the expiry."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(other=3)
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


def test_messages_of_an_ended_member_move_after_the_session_is_off_the_disk() -> None:
    """If the message moved earlier, a restart would bring the session back and a member would get the message twice."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.pass_s(6)  # from now on sessions expire (H-43)
    first = cluster[2].client("first", clean=False, expiry_s=2)
    first.subscribe(("$share/g/a", 2))
    first.leave()
    assert [type(each) for each in cluster[1].client("writer").publish("a", b"m", 2)] == [packets.Pubrec]
    second = cluster[3].client("second", clean=False, expiry_s=600)
    second.subscribe(("$share/g/a", 2))
    cluster.pass_s(1.9)
    cluster[2].disks[0].stall_until = math.inf
    cluster[2].connect_soon("busy", clean=False, expiry_s=600)  # the record of this session is being written
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
def test_a_moved_message_goes_to_a_member_present_at_that_time(stays: bool) -> None:
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(second=3)
    cluster.pass_s(6)  # from now on sessions expire (H-43)
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
def test_a_member_that_cannot_hold_the_message_is_not_chosen(qos: int) -> None:
    """P1: this member is offline with QoS 0, the chosen member has left, and another node has a member."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(other=3)
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


def test_a_handshake_moves_if_its_local_member_cannot_hold_the_message() -> None:
    """P1: the member is online when it is chosen, and offline when the packet id is safe."""
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
def test_a_message_of_an_ended_clean_session_is_taken_once(here: bool) -> None:
    """H-12: a durable session has the message, and the nodes restart before the publisher has its answer (3 nodes,
    --workload groups, all,rare, seed 3054).
    """
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


def test_a_message_that_is_given_back_after_another_choice_reaches_nobody_else() -> None:
    """The origin chooses n2 first. n2 leaves the view, and the origin chooses n3. When n2 is back, it gives the message
    back, although the publisher has its answer."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(writer=1, one=2, third=3, home=1)
    one, third, home = (cluster[number].client(name) for name, number in (("one", 2), ("third", 3), ("home", 1)))
    one.subscribe(("$share/g/a", 2))
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    cluster.network.delay("n1", "n2", 0.2)
    writer.send(publish("a", b"m", 2, 7))
    cluster.settle()
    third.subscribe(("$share/g/a", 2))
    one.unsubscribe("$share/g/a")
    cluster.network.one_way("n2", "n1")
    clustering = cluster[2].host.clustering
    assert clustering is not None
    cluster.until(lambda: clustering.relay_sender.copies)
    cluster.until(lambda: [each.payload for each in third.drain()] == [b"m"])
    home.subscribe(("$share/g/a", 2))
    assert clustering.relay_sender.copies
    cluster.network.heal()
    cluster.whole()
    cluster.until(lambda: not clustering.relay_sender.copies)
    cluster.pass_s(1)
    assert home.payloads() == [] and third.payloads() == []
    assert [type(each) for each in writer.take()] == [packets.Pubrec]
