"""Durable sessions of an absent node get their messages, also if other nodes restart meanwhile (P1)."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.routes import LASTING, LIVE, parse_route_key
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import PacketClient
from tests.harness.cluster import MAJORITY, ClusterHarness, snapshots_only

LASTS = {"clean": False, "expiry_s": 10_000}


@pytest.fixture
def cluster() -> ClusterHarness:
    return ClusterHarness(3, **MAJORITY)


def known(cluster: ClusterHarness, number: int) -> list[tuple[str | int, str]]:
    """Returns the routes to slots that a node has: slot and filter."""
    keys = [parse_route_key(key) for key, _ in cluster[number].member.metadata.scan(LASTING)]
    return sorted([(key.place, key.filter) for key in keys], key=str)


def subscriber(cluster: ClusterHarness, number: int, text: str, name: str = "reader") -> PacketClient:
    reader = cluster[number].client(name, **LASTS)  # type: ignore[arg-type]
    reader.subscribe((text, 1))
    return reader


def restart_both(cluster: ClusterHarness, power: bool) -> None:
    """Restart n1 and n2 at the same time while n3 is away, until they serve."""
    for number in (1, 2):
        cluster[number].kill(power)
    for number in (1, 2):
        cluster[number].start()
    for number in (1, 2):
        cluster.state_of(number, ViewState.MAJORITY)


def acks(client: PacketClient) -> list[type]:
    return [type(each) for each in client.take() if isinstance(each, packets.Puback | packets.Disconnect)]


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("text", ["t", "$share/g/t"])
def test_nodes_that_restart_while_another_is_away_know_its_sessions(
    cluster: ClusterHarness, text: str, power: bool
) -> None:
    """No node has the routes of n3 in memory. Before, a publish was acknowledged and did not reach the session."""
    subscriber(cluster, 3, text)
    cluster.isolate(3)
    cluster.state_of(1, ViewState.MAJORITY)
    restart_both(cluster, power)
    writer = cluster[1].client("writer")
    writer.publish("t", b"m", 1)
    cluster.pass_s(5.0)
    assert acks(writer) == [], "the acknowledgement waits until n3 is back"
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert acks(writer) == [packets.Puback]
    reader = cluster[3].client("reader", **LASTS)  # type: ignore[arg-type]
    assert [each.payload for each in reader.drain()] == [b"m"]


def test_a_publish_waits_for_the_last_node_after_a_power_loss_of_all(cluster: ClusterHarness) -> None:
    subscriber(cluster, 3, "t").leave()
    for harness in cluster.nodes:
        harness.kill(power=True)
    for number in (1, 2):
        cluster[number].start()
    cluster.state_of(1, ViewState.MAJORITY)
    writer = cluster[1].client("writer")
    writer.publish("t", b"m", 1)
    cluster.pass_s(2.0)
    assert acks(writer) == []
    cluster[3].start()
    cluster.whole()
    cluster.pass_s(1.0)
    assert acks(writer) == [packets.Puback]
    reader = cluster[3].client("reader", **LASTS)  # type: ignore[arg-type]
    assert [each.payload for each in reader.drain()] == [b"m"]


def test_routes_to_clean_sessions_are_not_on_disk(cluster: ClusterHarness) -> None:
    subscriber(cluster, 3, "t")
    cluster[3].client("clean").subscribe(("t", 1))
    cluster[3].client("clean").subscribe(("u", 1))
    cluster.pass_s(1.0)
    for number in (1, 2, 3):
        keys = [key[1:] for key in cluster[number].disks[0].content() if key[:2] in (b"d" + LIVE, b"d" + LASTING)]
        assert [parse_route_key(key)[1:] for key in keys] == [(slot_of("", "reader"), None, "t")]


@pytest.mark.parametrize("away", [1, None])
def test_routes_that_a_restarted_node_does_not_repeat_are_deleted_everywhere(
    cluster: ClusterHarness, away: int | None
) -> None:
    """A session ended while its node was out of the view, and the node restarted: no node deletes the route."""
    reader = subscriber(cluster, 3, "gone")
    subscriber(cluster, 3, "kept", "other")
    cluster.isolate(3)
    cluster.state_of(1, ViewState.MAJORITY)
    cluster[3].node.end_sessions("test")
    cluster.pass_s(1.0)
    assert reader.closed
    cluster[3].kill()
    if away is not None:
        cluster.network.heal()
        cluster.isolate(away)
        cluster.until(lambda: cluster[2].node.policy.view_state is ViewState.MINORITY)
    else:
        cluster.network.heal()
    cluster[3].start()
    cluster.until(lambda: cluster[3].node.policy.view_state is not ViewState.MINORITY)
    if away is not None:
        cluster.network.heal()
    cluster.whole()
    subscriber(cluster, 3, "new")
    cluster.pass_s(1.0)
    for number in (1, 2, 3):
        assert known(cluster, number) == [(slot_of("", "reader"), "new")]
        assert len(cluster[number].host.clustering.routes) == (number != 3)  # type: ignore[union-attr]


def test_no_publish_waits_for_a_removed_node_after_a_restart(cluster: ClusterHarness) -> None:
    subscriber(cluster, 3, "t")
    cluster[3].kill()
    cluster.state_of(1, ViewState.MAJORITY)
    problems: list[str] = []
    cluster[1].host.leave("n3", problems.append)
    cluster.until(lambda: bool(problems))
    assert problems == [""]
    cluster.pass_s(1.0)
    assert known(cluster, 1) == known(cluster, 2) == []
    for number in (1, 2):
        cluster[number].kill()
        cluster[number].start()
    cluster.until(lambda: all(cluster[number].node.policy.view_state is ViewState.WHOLE for number in (1, 2)))
    assert [type(each) for each in cluster[1].client("writer").publish("t", b"m", 1)] == [packets.Puback]


@pytest.mark.parametrize("early", [True, False])
def test_a_clean_session_misses_a_publish_acknowledged_after_its_node_returned(early: bool) -> None:
    """H-18: n2 has not acknowledged when n3 is back, and by then the view is complete."""
    cluster = ClusterHarness(5, **MAJORITY)
    member = cluster[1].host.member
    assert member is not None and member.consensus is not None
    raft = member.consensus.raft
    cluster.until(lambda: len(raft.configuration.voters) == 5)
    subscriber(cluster, 2, "t")
    reader = cluster[3].client("clean")
    reader.subscribe(("t", 1))
    writer = cluster[1].client("writer")
    for number in (2, 3):
        cluster.isolate(number)
        if early and number == 3:
            writer.publish("t", b"m", 1)
        cluster.until(lambda gone=f"n{number}": gone not in member.view.nodes)
    if not early:
        writer.publish("t", b"m", 1)
    cluster.network.heal("n3")
    cluster.until(lambda: "n3" in member.view.serving)
    cluster.pass_s(0.5)
    assert acks(writer) == []
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert acks(writer) == [packets.Puback]
    assert packets.Disconnect in [type(each) for each in reader.take()]


@pytest.mark.parametrize("snapshot", [False, True])
def test_no_publish_waits_for_a_session_that_expired_during_the_cut(
    snapshot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session's node restarted meanwhile and serves again. With snapshots, this node skips the views in between."""
    if snapshot:
        snapshots_only(monkeypatch)
    cluster = ClusterHarness(3, **MAJORITY)
    reader = cluster[2].client("reader", clean=False, expiry_s=10)
    reader.subscribe(("t", 1))
    member = cluster[1].host.member
    assert member is not None
    member.metadata.sync_interval_ms = 1 << 40  # it learns the route only when it enters
    cluster.pass_s(6.0)
    cluster.isolate(1)
    reader.vanish()
    cluster.state_of(2, ViewState.MAJORITY)
    cluster[2].kill()
    cluster.pass_s(20.0)
    cluster[2].start()
    cluster.state_of(2, ViewState.MAJORITY)
    cluster.pass_s(6.0)  # the session waits for its client (H-43)
    cluster.network.heal()
    cluster.whole()
    cluster[2].kill()
    cluster.state_of(1, ViewState.MAJORITY)
    writer = cluster[1].client("writer")
    assert [type(each) for each in writer.publish("t", b"m", 1)] == [packets.Puback]
