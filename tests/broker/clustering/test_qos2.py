"""QoS 2 between nodes: one node has the handshake, other nodes have copies, and faults interrupt it
everywhere (H-12).
"""

from __future__ import annotations

import math

import pytest

from strogoff.cluster.links.ports import Lane
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.broker.clustering.moving_cluster import MovingCluster
from tests.harness.broker import PacketClient, publish
from tests.harness.cluster import MAJORITY, ClusterHarness, NodeHarness


def _durable(harness: NodeHarness, name: str) -> PacketClient:
    return harness.client(name, clean=False, expiry_s=1000)


def _resume(harness: NodeHarness, name: str, topic: str, packet_id: int = 7) -> list[object]:
    """Reconnect and repeat the PUBLISH; returns the answers."""
    return _durable(harness, name).publish(topic, b"m", 2, packet_id, dup=True)


def _got(reader: PacketClient) -> list[bytes]:
    """Returns the payloads that an exactly-once receiver gets."""
    return [each.payload for each in reader.drain()]


def test_a_message_routed_by_outdated_routes_is_routed_again() -> None:
    """H-04 (c), H-12: a missing lease held the PUBREC back. The repeated PUBLISH gets it only if the clients that
    subscribed meanwhile have the message.
    """
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(reader=2)
    writer = _durable(cluster[1], "writer")
    writer.publish("u", b"", 0)
    cluster[1].disks[0].stall_until = cluster.loop.now_s + 0.01
    assert writer.publish("t", b"m", 2, 7) == []
    cluster[1].pause_process()
    cluster.state_of(2, ViewState.MAJORITY)
    reader = _durable(cluster[2], "reader")
    assert reader.subscribe(("t", 2))[0].reasons == [2]
    cluster[1].resume_process()
    cluster.settle()
    assert [type(each) for each in writer.take() if not isinstance(each, packets.Disconnect)] == []
    cluster.whole()
    assert [type(each) for each in _resume(cluster[1], "writer", "t")] == [packets.Pubrec]
    assert _got(reader) == [b"m"]


def test_a_handshake_without_a_lease_gets_no_pubrec() -> None:
    """H-06, H-12: the write of the PUBLISH hangs in the disk of the origin until the lease is over."""
    cluster = ClusterHarness(3, **MAJORITY)
    reader = _durable(cluster[2], "reader")
    reader.subscribe(("t", 2))
    writer = _durable(cluster[1], "writer")
    cluster[1].disks[0].stall_until = cluster.loop.now_s + 5.0
    assert writer.publish("t", b"m", 2, 7) == []
    cluster.pass_s(5.0)
    cluster.whole()
    cluster[2].disks[0].stall_until = cluster.loop.now_s + 0.5
    answers = writer.take()
    if writer.closed:
        answers = _resume(cluster[1], "writer", "t")
    assert answers == [] or not cluster[1].host.clustering.sender.copies  # type: ignore[union-attr]
    cluster.pass_s(1.0)
    assert _got(reader) == [b"m"]


def test_an_abandoned_handshake_without_a_lease_is_never_delivered() -> None:
    """H-14: the message is unacknowledged, its publisher is gone, and a newer message is acknowledged."""
    cluster = ClusterHarness(3, **MAJORITY)
    reader = _durable(cluster[2], "reader")
    reader.subscribe(("t", 2))
    writer = _durable(cluster[1], "writer")
    cluster[1].disks[0].stall_until = cluster.loop.now_s + 5.0
    assert writer.publish("t", b"old", 2, 7) == []
    cluster.state_of(2, ViewState.MAJORITY)
    writer.vanish()
    assert cluster[3].client("writer").publish("t", b"new", 1)[0].reason == 0
    cluster.pass_s(5.0)
    cluster.whole()
    cluster.pass_s(1.0)
    assert _got(reader) == [b"new"]


def test_handshakes_that_waited_for_a_lease_continue_in_order() -> None:
    """P2: some of them need another member, which must be on disk before the handshake continues."""
    cluster = ClusterHarness(3, **MAJORITY)
    before, after, reader = cluster[1].client("before"), _durable(cluster[2], "after"), _durable(cluster[3], "reader")
    reader.subscribe(("#", 2))
    before.subscribe(("$share/g/t", 2))
    writer = _durable(cluster[1], "writer")
    cluster[1].disks[0].stall_until = math.inf
    cluster[1].connect_soon("busy", clean=False, expiry_s=600)  # the record of this session is being written
    writer.send(*[publish(topic, b"%d" % number, 2, number) for number, topic in enumerate("ttut", 1)])
    after.subscribe(("$share/g/t", 2))
    before.send(packets.Unsubscribe(2, ["$share/g/t"]))
    cluster.isolate(1)
    cluster.state_of(1, ViewState.MINORITY)
    cluster[1].disks[0].stall_until = 0.0
    cluster.pass_s(0.1)
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert [each.packet_id for each in writer.take()] == [1, 2, 3, 4]
    assert _got(reader) == [b"1", b"2", b"3", b"4"]
    assert _got(after) == [b"1", b"2", b"4"]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("shared", ["", "$share/g/"])
def test_a_handshake_across_a_cut_or_a_restart_delivers_once(restart: bool, shared: str) -> None:
    """H-12: the copy for the other node was never sent, or is void."""
    cluster = ClusterHarness(3, **MAJORITY)
    reader = _durable(cluster[2], "reader")
    reader.subscribe((f"{shared}t", 2))
    writer = _durable(cluster[1], "writer")
    cluster.isolate(1)
    assert writer.publish("t", b"m", 2, 7) == []
    if restart:
        cluster.pass_s(0.5)
        cluster[1].kill(power=True)
        cluster[1].start()
    cluster.pass_s(5.0)
    cluster.network.heal()
    cluster.whole()
    assert [type(each) for each in _resume(cluster[1], "writer", "t")] == [packets.Pubrec]
    assert _got(reader) == [b"m"]


@pytest.mark.parametrize("shared", ["", "$share/g/"])
@pytest.mark.parametrize("who", [1, 2])
def test_a_lost_acknowledgement_between_nodes_causes_no_duplicate(who: int, shared: str) -> None:
    """H-07, H-12: the target has the message, and the origin or the target dies before the origin knows that."""
    cluster = ClusterHarness(3, **MAJORITY)
    reader = _durable(cluster[2], "reader")
    reader.subscribe((f"{shared}t", 2))
    writer = _durable(cluster[1], "writer")
    cluster.network.one_way("n2", "n1")
    assert writer.publish("t", b"m", 2, 7) == []
    assert [each.payload for each in reader.messages()] == [b"m"]
    cluster[who].kill()
    cluster[who].start()
    cluster.network.heal()
    cluster.pass_s(1.0)
    cluster.whole()
    if who == 1:
        assert [type(each) for each in _resume(cluster[1], "writer", "t")] == [packets.Pubrec]
    else:
        cluster.pass_s(1.0)
        assert [type(each) for each in writer.take()] == [packets.Pubrec]
        reader = _durable(cluster[2], "reader")
    cluster.pass_s(1.0)
    came = [each for each in reader.drain() if not each.dup]
    assert [each.payload for each in came] == []


def test_a_repeated_publish_is_not_acknowledged_before_the_first_is_safe() -> None:
    """H-07, H-12: the publisher takes over its own client id while copies are on their way."""
    cluster = ClusterHarness(3, **MAJORITY)
    reader = _durable(cluster[2], "reader")
    reader.subscribe(("t", 2))
    writer = _durable(cluster[1], "writer")
    cluster[2].disks[0].stall_until = cluster.loop.now_s + 0.5
    assert writer.publish("t", b"m", 2, 7) == []
    writer = _durable(cluster[1], "writer")
    assert writer.publish("t", b"m", 2, 7, dup=True) == []
    cluster.pass_s(0.6)
    assert [type(each) for each in writer.take()] == [packets.Pubrec]
    assert _got(reader) == [b"m"]
    writer.send(publish("t", b"m", 2, 7, dup=True))
    assert [type(each) for each in writer.ask(packets.Pubrel(7))] == [packets.Pubrec, packets.Pubcomp]
    assert _got(reader) == []


def test_the_chosen_member_is_on_disk_before_the_message_is_sent() -> None:
    """H-12: the origin dies after a member on another node has the message, and chooses again (3 nodes, seed 200)."""
    cluster = ClusterHarness(3, **MAJORITY)
    readers = [_durable(cluster[number], f"reader{number}") for number in (2, 3)]
    for reader in readers:
        reader.subscribe(("$share/g/t", 2))
    for _ in range(6):
        writer = _durable(cluster[1], "writer")
        cluster[1].disks[0].latency_s = (0.1, 0.1)
        writer.send(publish("t", b"m", 2, 7))
        cluster.until(lambda: any(reader.received for reader in readers))
        cluster[1].kill()
        cluster[1].start()
        cluster[1].disks[0].latency_s = (0.0, 0.0)
        cluster.pass_s(1.0)
        cluster.whole()
        writer = _durable(cluster[1], "writer")
        assert [type(each) for each in writer.publish("t", b"m", 2, 7, dup=True)] == [packets.Pubrec]
        assert [type(each) for each in writer.ask(packets.Pubrel(7))] == [packets.Pubcomp]
        assert [each for reader in readers for each in _got(reader)] == [b"m"]


def test_a_repeated_publish_waits_again_for_a_slow_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: a node with a lease does not confirm that it has the retained message."""
    cluster = ClusterHarness(3)
    member = cluster[3].host.member
    assert member is not None
    speak = member.links.send
    unsaid: list[tuple[str, Lane, bytes]] = []

    def say(node: str, lane: Lane, data: bytes) -> int:
        if lane is not Lane.METADATA:
            return speak(node, lane, data)
        unsaid.append((node, lane, data))
        return 0

    monkeypatch.setattr(member.links, "send", say)
    for _ in range(2):
        writer = _durable(cluster[1], "writer")
        assert writer.publish("t", b"m", 2, 7, retain=True, dup=True) == []
        cluster.pass_s(9.6)
        assert [type(each) for each in writer.take()] == [packets.Disconnect]
    writer = _durable(cluster[1], "writer")
    assert writer.publish("t", b"m", 2, 7, retain=True, dup=True) == []
    monkeypatch.undo()
    for each in unsaid:
        speak(*each)
    cluster.settle()
    assert [type(each) for each in writer.take()] == [packets.Pubrec]


def test_an_open_handshake_does_not_keep_later_mids_in_memory() -> None:
    """The open handshake is also taken only once when it continues after a restart of both nodes."""
    cluster = ClusterHarness(2)
    reader = _durable(cluster[2], "reader")
    reader.subscribe(("#", 2))
    slow = _durable(cluster[1], "slow")
    slow.publish("slow", b"m", 2, 7)
    cluster.pass_s(0.1)
    writer = cluster[1].client("writer")
    for _ in range(700):
        writer.publish("t", b"x", 2, 1)
        writer.ask(packets.Pubrel(1))
    cluster.settle()
    assert len(_seen(cluster[2])) < 300
    assert len(_got(reader)) == 701
    for harness in (cluster[2], cluster[1]):
        harness.kill(power=True)
        harness.start()
    cluster.whole()
    reader = _durable(cluster[2], "reader")
    assert [type(each) for each in _resume(cluster[1], "slow", "slow")] == [packets.Pubrec]
    cluster.pass_s(0.5)
    assert _got(reader) == []
    cluster[1].client("writer").publish("t", b"y", 2, 1)
    cluster.settle()
    assert len(_seen(cluster[2])) == 2


def _seen(harness: NodeHarness) -> list[bytes]:
    """Returns the keys of the QoS 2 messages that a node remembers, as other nodes may send them again."""
    return harness.node.env.store.keys(b"a", b"b")


def _moved_handshake(cluster: MovingCluster) -> PacketClient:
    """The slot of a publisher moves to n2 behind PUBREC of the packet id 7. Returns the publisher, back at n2."""
    cluster[1].client("other", clean=False, expiry_s=600).subscribe(("t", 2))
    writer = cluster[1].client("sub", clean=False, expiry_s=600)
    assert [type(each) for each in writer.ask(publish("t", b"1", 2, 7))] == [packets.Pubrec]
    assert cluster.move(2) == ""
    again, connack = cluster[2].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present
    return again


def test_the_rows_of_a_handshake_keep_the_id_of_its_message_when_the_slot_moves() -> None:
    """Without a copy the id of the message has the name of the node that accepted it."""
    cluster = MovingCluster(level=2)
    writer = _moved_handshake(cluster)
    assert [type(each) for each in writer.ask(publish("t", b"1", 2, 7, dup=True))] == [packets.Pubrec]
    assert [type(each) for each in writer.ask(packets.Pubrel(7))] == [packets.Pubcomp]
    (accepted,) = [row["mid"] for row in cluster[1].host.events if row["type"] == "pub.recv"]
    told = [(row["type"], row["mid"]) for row in cluster[2].host.events if row["type"][:4] == "pub."]
    assert told == [(kind, accepted) for kind in ("pub.ack", "pub.rel", "pub.comp")]


def test_a_packet_id_that_came_with_its_slot_and_back_after_a_loss_of_power_stands_for_a_new_message() -> None:
    """The former primary has the same boot number as the node that finds the id on its disk."""
    cluster = MovingCluster()
    cluster.restart(1)
    cluster.whole()
    cluster.until(lambda: cluster.homes() == {"n1"})
    writer = _moved_handshake(cluster)
    disk = cluster[2].disks[0]
    cluster.pass_s(1)
    before = {key: value for key, value in disk.content().items() if key[:1] == b"i"}
    assert [type(each) for each in writer.ask(packets.Pubrel(7))] == [packets.Pubcomp]
    cluster.pass_s(1)
    assert len(before) == 1 and not before.keys() & disk.content().keys()
    cluster[2].kill()
    for key, value in before.items():
        disk.rot(key, value)
    cluster[2].start()
    cluster.whole()
    numbers = [cluster[number].node.env.numbers.boot for number in (1, 2)]
    assert numbers == [2, 2]
    again, connack = cluster[2].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present
    assert [type(each) for each in again.ask(publish("t", b"2", 2, 7))] == [packets.Pubrec]
    client, _ = cluster[1].connect("other", clean=False, expiry_s=600)
    assert [each.payload for each in client.drain()] == [b"1", b"2"]
