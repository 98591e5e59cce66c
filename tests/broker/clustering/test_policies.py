"""Operations that the split policies refuse, and operations that they never refuse, on three nodes (H-04, H-13, H-14,
H-18).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import option, publish
from tests.harness.cluster import MAJORITY, ON, ClusterHarness


def test_parked_publishes_are_accepted_before_newer_ones() -> None:
    """H-13 (a): default `off`, MQTT 3.1.1, no reconnect."""
    cluster = ClusterHarness(3)
    reader = cluster[2].client("reader", 4)
    reader.subscribe(("t", 1))
    writer = cluster[1].client("writer", 4)
    cluster[3].kill()
    cluster.state_of(1, ViewState.MAJORITY)
    writer.send(*[publish("t", b"%d" % number, 1, number) for number in (1, 2, 3)])
    writer.send(publish("t", b"4", 2, 4))
    cluster.settle()
    assert writer.take() == []
    cluster[3].start()
    cluster.whole()
    writer.send(publish("t", b"5", 1, 5))
    cluster.pass_s(0.5)
    assert [each.payload for each in reader.drain()] == [b"1", b"2", b"3", b"4", b"5"]
    assert [each.packet_id for each in writer.take()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("qos", [1, 2])
def test_policy_off_accepts_the_repetition_of_an_accepted_publish(qos: int) -> None:
    """H-13 (b): a publish is accepted, a node dies, and the client repeats the publish under policy off."""
    cluster = ClusterHarness(3, allow_register_during_netsplit="majority")
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("t", 2))
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    cluster.network.one_way("n2", "n1")
    assert writer.publish("t", b"m", qos, 1) == []
    cluster[3].kill()
    cluster.pass_s(0.3)
    cluster.network.heal("n2", "n1")
    cluster.state_of(1, ViewState.MAJORITY)
    writer.vanish()
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    kind = packets.Puback if qos == 1 else packets.Pubrec
    answers = writer.publish("t", b"m", qos, 1, dup=True)
    assert [(type(each), each.reason) for each in answers] == [(kind, 0)]
    got = [each.payload for each in reader.drain()]
    assert got == [b"m"] if qos == 2 else set(got) == {b"m"}


def test_clean_start_during_a_delivery_ends_the_wait_of_the_publisher() -> None:
    """P1 covers sessions that have not ended; the publisher does not wait for an ended session."""
    cluster = ClusterHarness(3)
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("t", 1))
    writer = cluster[1].client("writer")
    cluster[2].disks[0].stall_until = cluster.loop.now_s + 0.5
    assert writer.publish("t", b"m", 1) == []
    fresh = cluster[2].connect_soon("reader", clean=True)
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Puback]
    assert [type(each) for each in fresh.take()] == [packets.Connack]
    fresh.subscribe(("t", 1))
    assert writer.publish("t", b"n", 1, 2)[0].reason == 0
    assert fresh.payloads() == [b"n"]


def test_a_lease_that_ends_after_routing_stops_the_acknowledgement() -> None:
    """H-04 (c): the process stops after routing, before it has sent the acknowledgement."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(reader=2)
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    own = cluster[1].client("own", clean=False, expiry_s=600)
    own.subscribe(("t", 1))
    writer.publish("u", b"", 0)
    cluster[1].disks[0].stall_until = cluster.loop.now_s + 0.01
    assert writer.publish("t", b"m", 1) == []
    cluster[1].pause_process()
    cluster.state_of(2, ViewState.MAJORITY)
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    assert reader.subscribe(("t", 1))[0].reasons == [1]
    cluster[1].resume_process()
    cluster.settle()
    assert not [each for each in writer.take() if isinstance(each, packets.Puback)]
    cluster.whole()
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    assert writer.publish("t", b"m", 1, dup=True)[0].reason == 0
    assert reader.payloads() == [b"m"]


@pytest.mark.parametrize("flag", ["off", "majority"])
def test_a_paused_node_notices_its_expired_lease_before_it_acknowledges(flag: str) -> None:
    """H-04 (c): the node still has the state WHOLE, in which no policy refuses an operation (5 nodes, seed 108204).

    The machine was frozen: its wall clock is ahead, and no timer is due.
    """
    cluster = ClusterHarness(3, allow_publish_during_netsplit=flag)
    cluster[1].client("own", clean=False, expiry_s=600).subscribe(("t", 1))
    writer = cluster[1].client("writer")
    assert [type(each) for each in writer.publish("t", b"1", 1)] == [packets.Puback]
    node = cluster[1].node
    known: list[ViewState] = []
    accepts = node.policy.accepts_without_lease

    def asked(operations: Iterable[str], modifiers: dict[str, Any]) -> bool:
        known.append(node.policy.view_state)
        return accepts(operations, modifiers)

    node.policy.accepts_without_lease = asked  # type: ignore[method-assign]
    cluster[1].host.wall_ahead_ms = 5000.0
    assert [type(each) for each in writer.publish("t", b"2", 1, 2)] == [packets.Disconnect]
    assert known == [ViewState.WHOLE], "the policy was asked before the node knew of its expired lease"


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publish_that_waits_for_the_disk_across_an_entrance_is_refused(qos: int) -> None:
    """H-04, H-14: the node read the publish before it knew of its pause, and a full disk does not end the lease."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster[3].client("keeper", clean=False, expiry_s=600).subscribe(("t", qos))
    writer = cluster[3].client("writer")
    reader = cluster[1].client("reader")
    cluster[3].pause_process()
    writer.send(publish("t", b"x", qos, 7))
    cluster.settle()
    cluster.state_of(1, ViewState.MAJORITY)
    assert reader.subscribe(("t", qos))[0].reasons == [qos]
    cluster[3].disks[0].full = True
    cluster[3].resume_process()
    cluster.whole()
    cluster[3].disks[0].full = False
    cluster.pass_s(3.0)
    assert [type(each) for each in writer.take()] == [packets.Disconnect]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_retained_message_read_after_a_pause_replaces_no_newer_one(qos: int) -> None:
    """H-14: the node reads the old message before it knows that its lease is over; its writer has sent a newer one."""
    cluster = ClusterHarness(3, **MAJORITY)
    writer = cluster[1].client("writer")
    cluster[1].pause_process()
    writer.send(publish("t", b"old", qos, retain=True))
    cluster.state_of(2, ViewState.MAJORITY)
    assert cluster[2].client("again").publish("t", b"new", 1, retain=True)[0].reason in (0, 0x10)
    cluster.pass_s(0.5)
    cluster[1].resume_process()
    cluster.whole()
    cluster.pass_s(2.0)
    for harness in cluster.nodes:
        reader = harness.client("reader")
        reader.send(packets.Subscribe(1, [option("t", 1)], None))
        assert reader.payloads() == [b"new"]


def test_register_on_and_publish_majority_in_a_minority() -> None:
    """Sessions begin, publishes are parked, and no promise is made twice."""
    cluster = ClusterHarness(3, **{**MAJORITY, "allow_register_during_netsplit": "on"})
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("t", 1))
    cluster.isolate(1)
    cluster.state_of(1, ViewState.MINORITY)
    writer = cluster[1].client("writer", 4, clean=False)
    writer.send(publish("t", b"1", 1, 1), publish("t", b"2", 2, 2), publish("t", b"3", 1, 3, dup=True))
    cluster.pass_s(1.0)
    assert writer.take() == []
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert sorted(each.packet_id for each in writer.take()) == [1, 2, 3]  # in order for each QoS
    got = [each.payload for each in reader.drain()]
    assert sorted(got) == [b"1", b"2", b"3"]
    assert got.index(b"1") < got.index(b"3")


@pytest.mark.parametrize("qos", [1, 2])
def test_each_node_reports_expired_messages_of_its_sessions(qos: int) -> None:
    """[MQTT5-3.3.2-5], P8: each drop has its event, on every node with a session (3 nodes, seed 111)."""
    cluster = ClusterHarness(3, **MAJORITY)
    readers = [
        harness.client(f"reader{number}", clean=False, expiry_s=600) for number, harness in enumerate(cluster.nodes)
    ]
    for reader, topic_filter in zip(readers, ("t", "t", "$share/g/t"), strict=True):
        reader.subscribe((topic_filter, 2))
    writer = cluster[1].client("writer", clean=False, expiry_s=600)
    cluster.isolate(1)
    cluster.state_of(1, ViewState.MINORITY)
    writer.send(publish("t", b"m", qos, 7, dup=True, message_expiry_interval=1))
    cluster.pass_s(2.0)
    assert writer.take() == []
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Puback if qos == 1 else packets.Pubrec]
    assert [reader.drain() for reader in readers] == [[], [], []]
    assert [harness.node.env.counters.queue_message_expired for harness in cluster.nodes] == [1, 1, 1]


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_concurrent_retained_writes_converge_on_all_nodes(order: tuple[int, int]) -> None:
    """P4: a client that subscribes anywhere after both acknowledgements gets the same message."""
    cluster = ClusterHarness(3)
    cluster.network.delay("n1", "n2", 0.1)
    cluster.network.delay("n2", "n1", 0.15)
    cluster.network.delay("n1", "n3", 0.02)
    cluster.network.delay("n2", "n3", 0.2)
    writers = {n: cluster[n].client(f"writer{n}") for n in (1, 2)}
    cluster.pass_s(1.0)
    for n in order:
        writers[n].send(publish("r", b"%d" % n, 1, 1, retain=True))
        cluster.pass_s(0.01)
    for n in order:
        cluster.until(lambda n=n: bool(writers[n].received))
    seen = []
    for n in (1, 2, 3):
        reader = cluster[n].client(f"reader{n}")
        reader.send(packets.Subscribe(1, [packets.SubscribeOptions("r", 1)], None))
        cluster.pass_s(1.0)
        seen.append([each.payload for each in reader.messages()])
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0]) == 1


def test_policy_on_accepts_nothing_before_a_restarted_node_knows_the_routes() -> None:
    """Before, a restarted node acknowledged messages and delivered them to no client: 147 of 812."""
    cluster = ClusterHarness(3, **ON)
    reader = cluster[2].client("reader")
    reader.subscribe(("t", 1))
    cluster[1].kill()
    cluster.pass_s(3.0)
    cluster[1].start()
    accepted = 0
    for number in range(400):
        cluster.pass_s(0.01)
        writer, connack = cluster[1].connect(f"writer-{number}")
        if connack.reason == 0 and writer.publish("t", b"%d" % number, 1):
            accepted += 1
        writer.vanish()
    cluster.whole()
    cluster.pass_s(1.0)
    got = {each.payload for each in reader.drain()}
    assert accepted > 50 and len(got) == accepted


def test_policy_on_accepts_without_a_lease_after_a_bounded_wait() -> None:
    cluster = ClusterHarness(3, **ON)
    for number in (1, 2, 3):
        cluster[number].kill()
    cluster[1].start()
    cluster.pass_s(9.0)
    assert cluster[1].connect("early")[1].reason == 0x88
    cluster.pass_s(1.5)
    writer = cluster[1].client("writer")
    assert [type(each) for each in writer.publish("t", b"m", 1)] == [packets.Puback]
