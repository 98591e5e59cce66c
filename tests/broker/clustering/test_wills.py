"""Wills on three nodes: each is accepted for routing once, whatever happens to the node of its
connection (P5; H-19).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from strogoff.broker.connection.connection import FAILOVER_GRACE_S
from strogoff.broker.sessions.session import Session
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import PacketClient, publish
from tests.harness.cluster import MAJORITY, ClusterHarness, NodeHarness
from tests.harness.thinning import thinned


def _mortal(harness: NodeHarness, qos: int = 1) -> PacketClient:
    return harness.client("mortal", will=packets.Will("will", b"gone", qos))


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_will_is_sent_once_after_its_node_was_killed(power: bool, qos: int) -> None:
    cluster = ClusterHarness(3, **MAJORITY)
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("will", 2))
    _mortal(cluster[1], qos)
    cluster[1].kill(power)
    cluster.pass_s(0.2)
    cluster[1].start()
    cluster.whole()
    cluster.pass_s(2.0)
    assert [each.payload for each in reader.drain()] == [b"gone"]


def test_a_will_without_a_lease_survives_a_kill_of_its_node() -> None:
    cluster = ClusterHarness(3, **MAJORITY)
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("will", 1))
    mortal = _mortal(cluster[1])
    cluster.isolate(1)
    cluster.state_of(1, ViewState.MINORITY)
    mortal.vanish()
    cluster.pass_s(1.0)
    cluster[1].kill()
    cluster[1].start()
    cluster.network.heal()
    cluster.pass_s(1.0)
    cluster.whole()
    cluster.pass_s(2.0)
    assert [each.payload for each in reader.drain()] == [b"gone"]


def test_a_will_of_a_connection_that_ends_during_a_pause_of_the_node_is_sent() -> None:
    """P4: the node learns of the end before it knows that its lease is over, and that other clients have subscribed
    since.
    """
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(reader=2)
    mortal = _mortal(cluster[1])
    cluster[1].pause_process()
    cluster.state_of(2, ViewState.MAJORITY)
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    assert reader.subscribe(("will", 1))[0].reasons == [1]
    mortal.vanish()
    cluster.pass_s(0.5)
    cluster[1].resume_process()
    cluster.whole()
    cluster.pass_s(2.0)
    assert [each.payload for each in reader.drain()] == [b"gone"]


def test_a_will_whose_copy_was_lost_with_its_node_is_sent_again() -> None:
    cluster = ClusterHarness(3, **MAJORITY)
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("will", 1))
    mortal = _mortal(cluster[1])
    cluster.network.one_way("n1", "n2")
    mortal.vanish()
    cluster.pass_s(0.5)
    cluster[1].kill()
    cluster[1].start()
    cluster.network.heal()
    cluster.pass_s(1.0)
    cluster.whole()
    cluster.pass_s(2.0)
    assert [each.payload for each in reader.drain() if not each.dup] == [b"gone"]


def test_wills_on_both_sides_of_a_cut_arrive_once() -> None:
    cluster = ClusterHarness(3, **MAJORITY)
    readers = [cluster[number].client(f"reader{number}", clean=False, expiry_s=600) for number in (1, 2)]
    for reader in readers:
        reader.subscribe(("will", 1))
    mortals = [
        cluster[number].client(f"mortal{number}", will=packets.Will("will", b"%d" % number, 1)) for number in (1, 2)
    ]
    cluster.isolate(1)
    for mortal in mortals:
        mortal.vanish()
    cluster.state_of(1, ViewState.MINORITY)
    cluster.state_of(2, ViewState.MAJORITY)
    cluster.pass_s(1.0)
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(2.0)
    assert [sorted(each.payload for each in reader.drain()) for reader in readers] == [[b"1", b"2"]] * 2


def test_a_client_that_comes_back_after_a_restart_of_its_primary_keeps_its_will() -> None:
    """H-39: the client at the other node was well all the time."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(mortal=2)
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("will", 1))
    cluster[1].client("mortal", clean=False, expiry_s=600, will=packets.Will("will", b"gone", 1, False))
    cluster[2].kill()
    cluster[2].start()
    cluster.whole()
    cluster.pass_s(1)
    assert watcher.take() == []
    again = cluster[1].client("mortal", clean=False, expiry_s=600, will=packets.Will("will", b"gone", 1, False))
    cluster.pass_s(20)
    assert watcher.take() == []
    again.vanish()
    assert [each.payload for each in watcher.drain()] == [b"gone"]


def _cut_off(cluster: ClusterHarness) -> Callable[[], None]:
    cluster.isolate(2)
    return cluster.network.heal


def _hung(cluster: ClusterHarness) -> Callable[[], None]:
    disk = cluster[2].disks[0]
    disk.stall_until = inf

    def goes_on() -> None:
        disk.stall_until = 0

    return goes_on


@pytest.mark.parametrize("fault", thinned([_cut_off, _hung], 2))
@pytest.mark.parametrize("back", ["continues", "starts clean", "no"])
@pytest.mark.parametrize("idle_sessions", thinned([10_000, 0], 2))
@pytest.mark.parametrize("delay_s", [0, 10])
def test_a_client_that_cannot_come_back_while_its_primary_has_no_lease_keeps_its_will(
    fault: Callable[[ClusterHarness], Callable[[], None]], back: str, idle_sessions: int, delay_s: int
) -> None:
    """H-43: the will is due meanwhile. It waits for 5 s after the lease is back."""
    cluster = ClusterHarness(3, **MAJORITY, idle_sessions=idle_sessions)
    cluster.put(mortal=2)
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("will", 1))
    properties = {"will_delay_interval": delay_s} if delay_s else None
    will = packets.Will("will", b"gone", 1, False, properties)
    client = cluster[1].client("mortal", clean=False, expiry_s=600, will=will)
    heals = fault(cluster)
    cluster.until(lambda: client.closed)
    cluster.pass_s(4 * FAILOVER_GRACE_S)
    heals()
    cluster.whole()
    assert watcher.drain() == []
    if back != "no":
        cluster[1].client("mortal", clean=back == "starts clean", expiry_s=600)
    cluster.pass_s(2 * FAILOVER_GRACE_S)
    # a Clean Start ends the session, and its will has a delay of its own
    well = back == "continues" or (back == "starts clean" and not delay_s)
    assert [each.payload for each in watcher.drain()] == ([] if well else [b"gone"])


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("fault", ["booted", "killed", "cut off"])
def test_a_client_that_waits_until_its_primary_has_a_lease_keeps_its_will(fault: str, clean: bool) -> None:
    """H-43: its CONNECT waits at another node while the primary has no lease, for longer than wills are deferred. A
    machine that was booted learns then that so much time has passed."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(mortal=2)
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("will", 1))
    will = packets.Will("will", b"gone", 1, False)
    cluster[1].client("mortal", clean=False, expiry_s=600, will=will)
    if fault == "cut off":
        cluster.isolate(2)
    else:
        cluster[2].kill(power=fault == "booted")
    cluster.pass_s(8)
    if fault != "cut off":
        cluster[2].start()
    if fault == "killed":
        cluster[2].disks[0].stall_until = cluster.loop.now_s + 8
    again = cluster[1].connect_soon("mortal", clean=clean, expiry_s=600, will=will)
    if fault == "cut off":
        cluster.network.heal()
    cluster.pass_s(20)
    (connack,) = again.take()
    assert (connack.reason, connack.session_present) == (0, not clean)
    assert watcher.take() == []
    again.vanish()
    assert [each.payload for each in watcher.drain()] == [b"gone"]


@pytest.mark.parametrize("power", [False, True])
def test_a_will_that_is_due_while_its_primary_has_no_lease_is_published_5_s_after_that(power: bool) -> None:
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(mortal=2)
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("will", 1))
    cluster[1].client("mortal", clean=False, expiry_s=600, will=packets.Will("will", b"gone", 1, False))
    cluster[2].kill(power)
    cluster.pass_s(8)
    cluster[2].start()
    cluster[2].disks[0].stall_until = cluster.loop.now_s + 8
    cluster.pass_s(9)
    cluster.whole()
    cluster.pass_s(3)
    assert watcher.take() == []
    cluster.pass_s(3)
    assert [each.payload for each in watcher.drain()] == [b"gone"]


@pytest.mark.parametrize("cut_s", [2, 6])
def test_a_client_that_waits_for_its_answer_when_its_node_is_cut_off_keeps_its_will(cut_s: int) -> None:
    """At the heal the node closes the connection, because nobody has the message. The client is back at once (H-39)."""
    cluster = ClusterHarness(3, queue_replicas=1, **MAJORITY)
    cluster.put(mortal=3, reader=1, watcher=2)
    will = packets.Will("will", b"gone", 1)
    cluster[1].client("reader", clean=False, expiry_s=600).subscribe(("t", 1))
    watcher = cluster[2].client("watcher")
    watcher.subscribe(("will", 1))
    mortal = cluster[3].client("mortal", clean=False, expiry_s=600, will=will)
    cluster.pass_s(8)
    cluster.isolate(3)
    mortal.send(publish("t", b"1", 1, 1))
    cluster.pass_s(cut_s)
    cluster.network.heal()
    cluster.until(lambda: mortal.closed)
    again = cluster[1].connect_soon("mortal", clean=False, expiry_s=600, will=will)
    cluster.pass_s(15)
    assert again.take()[0].session_present and not again.closed
    assert watcher.payloads() == []


def _waiting(copies: int) -> tuple[ClusterHarness, PacketClient]:
    """A client whose slot has its primary at n3 has vanished, and its will waits. The second one subscribes to it."""
    cluster = ClusterHarness(3, queue_replicas=copies, **MAJORITY)
    cluster.put(mortal=3, watcher=2)
    cluster.pass_s(8)
    watcher = cluster[2].client("watcher", clean=False, expiry_s=600)
    watcher.subscribe(("will", 1))
    last = packets.Will("will", b"former", 1, False, {"will_delay_interval": 20})
    first = cluster[1].client("mortal", clean=False, expiry_s=600, will=last)
    cluster.pass_s(8)
    first.vanish()
    cluster.pass_s(1)
    return cluster, watcher


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("later", thinned([True, False], 2))
@pytest.mark.parametrize("relayed", [False, True])
@pytest.mark.parametrize("paused_s", thinned([1.95, 1.75], 2))
def test_a_connect_that_is_refused_after_a_pause_cancels_no_will(
    copies: int, later: bool, relayed: bool, paused_s: float
) -> None:
    """The node stands still, and registers the client before it knows that it has no lease. The client does not come
    back."""
    cluster, watcher = _waiting(copies)
    cluster[3].pause_process()
    last = packets.Will("will", b"later", 1) if later else None
    again = cluster[1 if relayed else 3].connect_soon("mortal", clean=False, expiry_s=600, will=last)
    cluster.pass_s(paused_s)
    cluster[3].resume_process()
    cluster.pass_s(12)
    answers = again.take()
    assert not any(isinstance(each, packets.Connack) and each.reason == 0 for each in answers)
    if not again.closed:
        again.vanish()
    cluster.pass_s(40)
    (will,) = watcher.drain()
    assert will.payload == (b"later" if later and relayed else b"former")


@pytest.mark.parametrize("later", [True, False])
def test_the_next_primary_has_a_will_that_connack_was_to_cancel(later: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The primary dies when its copy has the session with its new connection, and CONNACK has not left."""
    cluster, watcher = _waiting(2)
    with monkeypatch.context() as unwelcomed:
        unwelcomed.setattr(Session, "welcomed", lambda session: None)
        last = packets.Will("will", b"later", 1) if later else None
        cluster[3].connect_soon("mortal", clean=False, expiry_s=600, will=last)
        cluster.pass_s(0.5)
        cluster[3].kill()
    cluster.pass_s(60)
    assert [each.payload for each in watcher.drain()] == [b"later" if later else b"former"]
