"""Nodes that are killed, cut off or replaced while messages are on their way, and then return."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.routes import prefix_to_slot, writer_of
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.harness.broker import PacketClient
from tests.harness.cluster import MAJORITY, ON, ClusterHarness, NodeHarness, snapshots_only

LASTING = {"clean": False, "expiry_s": 10_000}


@pytest.fixture
def cluster() -> ClusterHarness:
    return ClusterHarness(3, **MAJORITY)


def cut_off(cluster: ClusterHarness, number: int) -> None:
    """Cut one node off until it has no lease and the others have a view without it."""
    others = [each for each in (1, 2, 3) if each != number]
    for other in others:
        cluster.network.cut(f"n{other}", f"n{number}")
    cluster.until(lambda: cluster[number].node.policy.view_state is ViewState.MINORITY)
    cluster.until(lambda: all(cluster[other].node.policy.view_state is ViewState.MAJORITY for other in others))


def reader_at(harness: NodeHarness, qos: int = 2, name: str = "reader") -> PacketClient:
    reader = harness.client(name, **LASTING)  # type: ignore[arg-type]
    reader.subscribe(("t", qos))
    return reader


def got(reader: PacketClient) -> list[bytes]:
    return [each.payload for each in reader.drain()]


def back(harness: NodeHarness, name: str) -> PacketClient:
    return harness.client(name, **LASTING)  # type: ignore[arg-type]


def test_a_qos_2_handshake_interrupted_by_a_cut_delivers_once(
    cluster: ClusterHarness,
) -> None:
    reader = reader_at(cluster[1])
    writer = cluster[3].client("writer", **LASTING)  # type: ignore[arg-type]
    for other in ("n1", "n2"):
        cluster.network.cut(other, "n3")
    assert writer.publish("t", b"1", 2, 7) == []
    cut_off(cluster, 3)
    cluster.network.heal()
    cluster.whole()
    assert [type(each) for each in writer.take()] == [packets.Disconnect]
    writer = back(cluster[3], "writer")
    assert [type(each) for each in writer.publish("t", b"1", 2, 7, dup=True)] == [packets.Pubrec]
    assert [type(each) for each in writer.ask(packets.Pubrel(7))] == [packets.Pubcomp]
    assert got(reader) == [b"1"]


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_target_that_dies_before_it_acknowledges_takes_nothing_twice(
    cluster: ClusterHarness, qos: int, power: bool
) -> None:
    """H-07: the watermark covers the messages that the target had on disk."""
    reader_at(cluster[2]).leave()
    writer = cluster[1].client("writer")
    cluster.network.one_way("n2", "n1")
    assert writer.publish("t", b"1", qos, 1) == []
    cluster.pass_s(0.2)
    cluster[2].kill(power)
    cluster.network.heal()
    cluster[2].start()
    cluster.whole()
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Puback if qos == 1 else packets.Pubrec]
    assert got(back(cluster[2], "reader")) == [b"1"]


def test_an_origin_restarted_during_a_qos_2_handshake_delivers_once(cluster: ClusterHarness) -> None:
    """H-12 (a): the same mid on another lane."""
    reader = reader_at(cluster[2])
    writer = cluster[1].client("writer", **LASTING)  # type: ignore[arg-type]
    cluster.network.one_way("n2", "n1")
    assert writer.publish("t", b"1", 2, 7) == []
    cluster.pass_s(0.1)
    cluster[1].kill(power=True)
    cluster.network.heal()
    cluster[1].start()
    cluster.whole()
    writer = back(cluster[1], "writer")
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.WHOLE)
    answers = writer.publish("t", b"1", 2, 7, dup=True)
    assert [type(each) for each in answers] == [packets.Pubrec]
    writer.ask(packets.Pubrel(7))
    writer.publish("t", b"2", 2, 8)
    assert got(reader) == [b"1", b"2"]


def test_a_will_just_before_its_node_is_cut_off_arrives_once(cluster: ClusterHarness) -> None:
    """No client sends a will again, so a cut does not void it (P5)."""
    reader = reader_at(cluster[1], qos=1)
    mortal = cluster[3].client("mortal", will=packets.Will("t", b"gone", 1, False, None))
    for other in ("n1", "n2"):
        cluster.network.cut(other, "n3")
    cluster.pass_s(0.2)
    mortal.vanish()
    cut_off(cluster, 3)
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert got(reader) == [b"gone"]


def test_an_abandoned_message_is_not_delivered_after_a_newer_one(cluster: ClusterHarness) -> None:
    """H-14: the message is void when its node is back."""
    reader = reader_at(cluster[1], qos=1)
    writer = cluster[3].client("writer")
    for other in ("n1", "n2"):
        cluster.network.cut(other, "n3")
    writer.publish("t", b"old", 1)
    cut_off(cluster, 3)
    assert [type(each) for each in cluster[2].client("elsewhere").publish("t", b"new", 1)] == [packets.Puback]
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert got(reader) == [b"new"]


def replace(cluster: ClusterHarness, number: int) -> None:
    """Replace the machine by a new one of the same name."""
    cluster[number].replace_disk()
    cluster[number].host.start()
    assert cluster[number].join() == ""
    cluster.whole()


def test_an_unlogged_boot_number_is_not_reused() -> None:
    """H-01: the other nodes would mix up the map entries of that boot with entries of the new disk."""
    cluster = ClusterHarness(5, **ON)
    for number in (1, 2, 3, 5):
        cluster[number].kill()
    cluster[5].start()  # no node can log this boot
    cluster.pass_s(11.0)
    writer = cluster[5].client("writer")
    assert [type(each) for each in writer.publish("t", b"lost", 1)] == [packets.Puback]
    cluster.pass_s(1.0)
    cluster[5].replace_disk()
    for number in (1, 2, 3):
        cluster[number].start()
    cluster.state_of(1, ViewState.MAJORITY)
    host = cluster[5].host
    host.boot = 0
    host.start()
    assert cluster[5].join() != ""
    cluster[5].kill()
    host.boot = host.boot_above
    cluster[5].start()
    assert cluster[5].join() == ""
    cluster.whole()


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("away", [False, True])
def test_a_cut_off_node_learns_the_routes_of_a_replaced_node(
    away: bool, snapshot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1, P4: one snapshot has both the replacement and the view in which the new node has entered."""
    if snapshot:
        snapshots_only(monkeypatch)
    cluster = ClusterHarness(5, **MAJORITY)
    cluster.put(reader=2)
    cluster.isolate(1)
    cluster.state_of(2, ViewState.MAJORITY)
    cluster[5].replace_disk()
    cluster[5].host.start()
    assert cluster[5].join("n2:1") == ""
    cluster.state_of(5, ViewState.MAJORITY)
    cluster.give("reader", cluster[5])
    reader_at(cluster[5]).leave()
    if away:
        cluster[5].kill()
        member = cluster[2].host.member
        assert member is not None
        cluster.until(lambda: member.view.row("n5") is None)
    cluster.network.heal()
    cluster.until(lambda: cluster[1].node.policy.view_state is (ViewState.MAJORITY if away else ViewState.WHOLE))
    writer = cluster[1].client("writer")
    came = writer.publish("t", b"m", 1)
    if away:
        assert came == [], "the acknowledgement waits until n5 is back"
        cluster[5].start()
        cluster.whole()
        cluster.pass_s(1.0)
        came = writer.take()
    assert [(type(each), each.reason) for each in came] == [(packets.Puback, 0)]
    assert got(back(cluster[5], "reader")) == [b"m"]


def replaced_and_never_serves(cluster: ClusterHarness) -> None:
    """Join n3, which had a reader, with a new disk, and kill it before it serves."""
    reader_at(cluster[3]).leave()
    cluster[3].replace_disk()
    cluster.state_of(1, ViewState.MAJORITY)
    cluster[3].host.start()
    assert cluster[3].join("n2:1") == ""
    cluster[3].kill()
    cluster.pass_s(1.0)


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_restarted_node_does_not_wait_for_a_lost_disk(snapshot: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: only the snapshot of the restarted node tells it of the replacement."""
    if snapshot:
        snapshots_only(monkeypatch)
    cluster = ClusterHarness(3, **MAJORITY)
    replaced_and_never_serves(cluster)
    cluster[1].kill()
    cluster[1].start()
    cluster.state_of(1, ViewState.MAJORITY)
    came = cluster[1].client("writer").publish("t", b"m", 1)
    assert [type(each) for each in came] == [packets.Puback]


def test_a_joining_node_does_not_wait_for_a_lost_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P1: the map that the new node fetches still has the routes of the lost disk."""
    snapshots_only(monkeypatch)
    cluster = ClusterHarness(4, joined=False, **MAJORITY)
    assert [cluster[number].join() for number in (2, 3)] == ["", ""]
    cluster.until(lambda: all(cluster[number].node.policy.view_state is ViewState.WHOLE for number in (1, 2, 3)))
    replaced_and_never_serves(cluster)
    assert cluster[4].join() == ""
    cluster.state_of(4, ViewState.MAJORITY)
    came = cluster[4].client("writer").publish("t", b"m", 1)
    assert [type(each) for each in came] == [packets.Puback]


def test_nodes_restarted_after_a_replacement_take_each_message_once(cluster: ClusterHarness) -> None:
    """The replayed log says that the node was replaced: this does not concern its present incarnation."""
    reader_at(cluster[2], qos=1).leave()
    replace(cluster, 3)
    writer = cluster[3].client("writer")
    for number in (1, 2, 3):
        assert [type(each) for each in writer.publish("t", b"%d" % number, 1, number)] == [packets.Puback]
    cluster.network.one_way("n2", "n3")
    assert writer.publish("t", b"4", 1, 4) == []
    cluster.pass_s(0.1)
    cluster[2].kill()
    cluster.network.heal()
    cluster[2].start()
    cluster.whole()
    cluster.pass_s(1.0)
    assert [type(each) for each in writer.take()] == [packets.Puback]
    assert [type(each) for each in writer.publish("t", b"5", 1, 5)] == [packets.Puback]
    assert got(back(cluster[2], "reader")) == [b"1", b"2", b"3", b"4", b"5"]


def test_no_publish_waits_for_a_lost_disk_after_the_replacement(cluster: ClusterHarness) -> None:
    reader_at(cluster[3], qos=1)
    writer = cluster[1].client("writer")
    cluster[3].kill()
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    assert writer.publish("t", b"1", 1) == []
    replace(cluster, 3)
    cluster.pass_s(0.5)
    assert [type(each) for each in writer.take()] == [packets.Puback]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_group_message_moves_to_a_node_that_has_it_for_another_session(cluster: ClusterHarness, qos: int) -> None:
    plain = reader_at(cluster[2], qos=2)
    member = cluster[3].client("member")
    member.subscribe(("$share/g/t", 2))
    heir = cluster[2].client("heir")
    writer = cluster[1].client("writer")
    for other in ("n1", "n2"):
        cluster.network.cut(other, "n3")
    assert writer.publish("t", b"1", qos) == []
    heir.subscribe(("$share/g/t", 2))
    cluster.until(lambda: cluster[1].node.policy.view_state is ViewState.MAJORITY)
    cluster.pass_s(0.5)
    assert [type(each) for each in writer.take()] == [packets.Puback if qos == 1 else packets.Pubrec]
    assert got(plain) == [b"1"]
    assert [each.payload for each in heir.drain()] == [b"1"]


@pytest.mark.parametrize("back_first", [1, 2])
def test_the_first_publish_at_a_returning_node_sees_all_subscriptions(cluster: ClusterHarness, back_first: int) -> None:
    """H-04 (a, b): one link is back before the other, and a publisher tries all the time."""
    writer = cluster[3].client("writer")
    cut_off(cluster, 3)
    assert [type(each) for each in cluster[1].client("r1").subscribe(("t", 1))] == [packets.Suback]
    cluster.network.heal()
    cluster.network.cut(f"n{3 - back_first}", "n3")
    cluster.pass_s(0.7)
    late = cluster[2].client("r2")
    assert [type(each) for each in late.subscribe(("t", 1))] == [packets.Suback]
    cluster.network.heal()
    number, accepted = 0, b""
    while not accepted:
        number += 1
        assert number < 10_000
        sent = b"%d" % number
        if any(isinstance(each, packets.Puback) and each.reason == 0 for each in writer.publish("t", sent, 1, number)):
            accepted = sent
        elif writer.closed:
            writer, connack = cluster[3].connect("writer")
            if connack.reason:
                cluster.pass_s(0.001)
                if not writer.closed:
                    writer.vanish()
        cluster.pass_s(0.001)
    cluster.settle()
    assert accepted in [each.payload for each in late.drain()]


def test_a_concurrent_subscriber_gets_the_last_retained_message(cluster: ClusterHarness) -> None:
    """H-04 (d): whichever is first, the subscriber has the last value in the end."""
    for number in range(20):
        reader, writer = cluster[3].client(f"r{number}"), cluster[1].client(f"w{number}")
        topic = f"kept/{number}"
        writer.publish(topic, b"old", 1, 1, retain=True)
        delay = [0.0, 0.0001, 0.001, 0.01][number % 4]
        cluster.network.delay("n1", "n3", delay)
        reader.send(packets.Subscribe(1, [packets.SubscribeOptions(topic, 1)], None))
        cluster.pass_s(number * 0.0002)
        writer.send(packets.Publish(topic, b"new", 1, True, False, 2, None))
        cluster.pass_s(0.2)
        assert [each.payload for each in reader.drain()][-1] == b"new", number


@pytest.mark.parametrize("primary", [1, 2, 3])
def test_a_route_that_a_former_primary_writes_last_is_replaced(primary: int) -> None:
    """3 nodes, copies, seed 2300009: else the former primary keeps its rows for ever, and takes no copy (H-41)."""
    cluster = CopiedCluster()
    subscriber(cluster, 1, text="$share/g/t")
    cluster.move("sub", primary)
    cluster.all_copied()
    client, _ = cluster[primary].connect("sub", clean=False, expiry_s=600)
    cluster.pass_s(1)
    cluster.isolate(primary)
    client.leave()
    other = cluster.taken_over(primary)
    resumed(cluster, other)
    cluster.network.heal()
    cluster.whole()
    cluster.all_copied()
    for number in (1, 2, 3):
        value = cluster[number].member.metadata.get(prefix_to_slot("", cluster.slot) + b"$share/g/t")
        assert value is not None and writer_of(value) == f"n{other}"
