"""Hazards of cluster protocols on three real nodes: views, leases and metadata (docs/hazards.md)."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.adapter import SETTLE_MS
from strogoff.cluster.links.ports import Lane
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.cluster import MAJORITY, ClusterHarness, snapshots_only
from tests.harness.thinning import thinned


def test_a_founder_that_restarts_alone_is_not_standalone() -> None:
    """H-01: the log names the other nodes, whether its entries are applied or not."""
    cluster = ClusterHarness(3, allow_publish_during_netsplit="majority", allow_register_during_netsplit="on")
    cluster.isolate(1)
    cluster[1].kill(power=True)
    cluster[1].start()
    for _ in range((SETTLE_MS + 1000) // 50):  # before that time, `on` accepts no client
        cluster.pass_s(0.05)
        assert cluster[1].node.policy.view_state is ViewState.MINORITY
    writer = cluster[1].client("writer")
    assert writer.publish("t", b"x", 1)[0].reason == 0x83
    cluster.network.heal()
    cluster.whole()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_is_retained_before_it_is_delivered(qos: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """H-04 (d): a client that subscribes in between waits for no barrier if its node already has a subscriber."""
    cluster = ClusterHarness(2)
    cluster[2].client("first").subscribe(("t", 1))
    member = cluster[2].host.member
    assert member is not None
    deliver, came = member.deliver, []

    def noted(node: str, lane: int, seq: int, payload: bytes) -> None:
        came.append(lane)
        deliver(node, lane, seq, payload)

    monkeypatch.setattr(member, "deliver", noted)
    cluster[1].client("writer").publish("t", b"x", qos, retain=True)
    assert came[:2] == [Lane.METADATA, Lane.PUBLISH]


def test_a_copy_does_not_overtake_its_retained_message_in_a_long_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One frame takes only a part of each lane."""
    cluster = ClusterHarness(3)
    cluster[2].client("first").subscribe(("t", 1))
    cluster[3].client("other").subscribe(("u/#", 1))
    member = cluster[2].host.member
    assert member is not None
    deliver, found = member.deliver, []

    def noted(node: str, lane: int, seq: int, payload: bytes) -> None:
        deliver(node, lane, seq, payload)
        if lane == Lane.PUBLISH:
            found.append(
                [each.topic for each in cluster[2].node.retained.table("").match("t", cluster[2].node.env.now)]
            )

    monkeypatch.setattr(member, "deliver", noted)
    before = [packets.Publish(f"u/{number}", bytes(20_000), retain=True) for number in range(40)]
    cluster[1].client("writer").ask(*before, packets.Publish("t", b"x", retain=True))
    assert found == [["t"]]


def test_routes_of_an_incarnation_not_yet_in_the_log_are_kept() -> None:
    """H-04: metadata and the log use different paths, so metadata may arrive early."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.isolate(1)
    cluster.state_of(2, ViewState.MAJORITY)
    cluster[3].kill()
    cluster[3].start()
    cluster.state_of(3, ViewState.MAJORITY)
    reader = cluster[3].client("reader")
    assert reader.subscribe(("t", 1))[0].reasons == [1]
    cluster[1].disks[1].stall_until = cluster.loop.now_s + 10.0
    cluster.network.heal()
    cluster.pass_s(9.5)
    cluster.whole()
    writer = cluster[1].client("writer")
    assert writer.publish("t", b"x", 1)[0].reason == 0
    assert reader.payloads() == [b"x"]


def test_a_restarted_node_voids_a_publish_of_an_earlier_incarnation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """H-14: the view decides which messages are stale, not the memory of a process."""
    snapshots_only(monkeypatch)
    cluster = ClusterHarness(3, **MAJORITY)
    reader = cluster[2].client("reader", clean=False, expiry_s=1000)
    reader.subscribe(("t", 1))
    writer = cluster[1].client("writer")
    cluster.isolate(1)
    assert writer.publish("t", b"stale", 1) == []
    cluster.state_of(2, ViewState.MAJORITY)
    assert cluster[3].client("other").publish("t", b"newer", 1)[0].reason == 0
    cluster[2].kill()
    cluster[2].start()
    cluster.state_of(2, ViewState.MAJORITY)
    cluster.network.heal()
    origin, target = cluster[1].host.member, cluster[2].host.member
    assert origin is not None and target is not None
    cluster.until(lambda: origin.view.row("n1") is None)
    cluster[1].disks[1].stall_until = cluster.loop.now_s + 2.0  # it learns late that it has entered again
    cluster.until(lambda: target.view.row("n1") is not None)
    cluster.pass_s(1.0)
    assert origin.view.row("n1") is None
    cluster.whole()
    reader = cluster[2].client("reader", clean=False, expiry_s=1000)
    assert [each.payload for each in reader.drain()] == [b"newer"]


def test_a_subscribe_whose_barrier_times_out_closes_the_connection() -> None:
    """P4: the wait for the barrier is bounded."""
    cluster = ClusterHarness(3)
    reader = cluster[1].client("reader")
    member = cluster[3].host.member
    assert member is not None
    member.metadata.flush = lambda: None  # type: ignore[method-assign]
    assert reader.subscribe(("t", 1)) == []
    cluster.pass_s(10.0)
    assert [(type(each), each.reason) for each in reader.take()] == [(packets.Disconnect, 0x83)]


def test_the_leader_leaves() -> None:
    cluster = ClusterHarness(3)
    leader = next(n for n in (1, 2, 3) if cluster[n].leads)
    other = leader % 3 + 1
    problems: list[str] = []
    cluster[other].host.leave(f"n{leader}", problems.append)
    cluster.until(lambda: bool(problems))
    assert problems == [""]
    cluster.pass_s(5)
    rest = [n for n in (1, 2, 3) if n != leader]
    assert [cluster[n].node.policy.view_state for n in rest] == [ViewState.WHOLE] * 2
    reader = cluster[rest[0]].client("r")
    reader.subscribe(("t", 1))
    assert cluster[rest[1]].client("w").publish("t", b"x", 1)[0].reason == 0


def test_acknowledged_data_survives_a_power_loss_of_all_nodes() -> None:
    """P1, P4, P7: with synchronous durability."""
    cluster = ClusterHarness(3)
    reader = cluster[2].client("reader", clean=False, expiry_s=1000)
    reader.subscribe(("t", 1))
    reader.vanish()
    writer = cluster[1].client("writer")
    assert writer.publish("t", b"1", 1)[0].reason == 0
    assert writer.publish("r", b"kept", 1, retain=True)
    for harness in cluster.nodes:
        harness.kill(power=True)
    cluster.pass_s(1)
    for harness in cluster.nodes:
        harness.start()
    cluster.whole()
    assert cluster[1].client("writer").publish("t", b"2", 1)[0].reason == 0
    reader = cluster[2].client("reader", clean=False, expiry_s=1000)
    assert [each.payload for each in reader.drain()] == [b"1", b"2"]
    _, kept = cluster[3].client("k").subscribe(("r", 1))
    assert kept.payload == b"kept"


@pytest.mark.parametrize("leap_s", [365 * 86400.0, -365 * 86400.0])
@pytest.mark.parametrize("who", thinned([1, 2], 2))
def test_a_clock_that_jumps_ends_no_session_and_no_message(leap_s: float, who: int) -> None:
    """H-17: on the leader, whose time all nodes follow, and on another node."""
    cluster = ClusterHarness(3)
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("t", 1))
    reader.vanish()
    writer = cluster[1].client("writer")
    assert writer.publish("t", b"m", 1, message_expiry_interval=300)[0].reason == 0
    cluster[who].host.wall_off_ms += leap_s * 1000
    cluster.pass_s(60.0)
    cluster.whole()
    assert cluster[3].client("other").publish("t", b"n", 1, message_expiry_interval=300)[0].reason == 0
    cluster.pass_s(100.0)
    reader = cluster[2].client("reader", clean=False, expiry_s=600)
    came = reader.drain()
    assert [each.payload for each in came] == [b"m", b"n"]
    for each, left in zip(came, (140, 200), strict=True):
        assert each.properties is not None and abs(each.properties["message_expiry_interval"] - left) < 5


def test_a_publish_waits_for_the_full_disk_of_one_of_two_targets() -> None:
    """H-20: the disk of the second subscriber's node is full."""
    cluster = ClusterHarness(3)
    readers = [cluster[number].client(f"reader{number}", clean=False, expiry_s=600) for number in (2, 3)]
    for reader in readers:
        reader.subscribe(("t", 2))
    cluster[3].disks[0].full = True
    writer = cluster[1].client("writer")
    assert writer.publish("t", b"m", 2, 1) == []
    cluster.pass_s(8.0)
    assert cluster.states() == [ViewState.WHOLE] * 3
    assert writer.take() == []
    cluster[3].disks[0].full = False
    cluster.pass_s(5.0)
    assert [type(each) for each in writer.take()] == [packets.Pubrec]
    assert [[each.payload for each in reader.drain()] for reader in readers] == [[b"m"], [b"m"]]
