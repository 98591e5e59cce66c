"""What sessions that last are owed while their node is away, whoever restarts meanwhile (P1)."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.routes import LASTING, LIVE, parse_route_key
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import PacketClient
from tests.harness.cluster import MAJORITY, ClusterHarness, snapshots_only

LASTS = {"clean": False, "expiry_s": 10_000}


@pytest.fixture
def theatre() -> ClusterHarness:
    return ClusterHarness(3, **MAJORITY)


def stored(theatre: ClusterHarness, number: int) -> list[tuple[str, str, str]]:
    """The routes on the disk of a node: space, writer, filter."""
    keys = [key[1:] for key in theatre[number].disks[0].content() if key[:2] in (b"d" + LIVE, b"d" + LASTING)]
    return sorted([(key[:1].decode(), *parse_route_key(key)[1:]) for key in keys])


def subscriber(theatre: ClusterHarness, number: int, text: str, name: str = "reader") -> PacketClient:
    reader = theatre[number].client(name, **LASTS)  # type: ignore[arg-type]
    reader.subscribe((text, 1))
    return reader


def restart_both(theatre: ClusterHarness, power: bool) -> None:
    """n1 and n2 start again at the same time, while n3 is not there, and serve."""
    for number in (1, 2):
        theatre[number].kill(power)
    for number in (1, 2):
        theatre[number].start()
    for number in (1, 2):
        theatre.state_of(number, ViewState.MAJORITY)


def acks(client: PacketClient) -> list[type]:
    return [type(each) for each in client.take() if isinstance(each, packets.Puback | packets.Disconnect)]


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("text", ["t", "$share/g/t"])
def test_nodes_that_restart_while_another_is_away_know_its_sessions(
    theatre: ClusterHarness, text: str, power: bool
) -> None:
    """Nobody has in memory what it had said: a publish was acknowledged and did not reach the session."""
    subscriber(theatre, 3, text)
    theatre.isolate(3)
    theatre.state_of(1, ViewState.MAJORITY)
    restart_both(theatre, power)
    writer = theatre[1].client("writer")
    writer.publish("t", b"m", 1)
    theatre.pass_s(5.0)
    assert acks(writer) == [], "it is owed, until n3 is back"
    theatre.network.heal()
    theatre.whole()
    theatre.pass_s(1.0)
    assert acks(writer) == [packets.Puback]
    reader = theatre[3].client("reader", **LASTS)  # type: ignore[arg-type]
    assert [each.payload for each in reader.drain()] == [b"m"]


def test_all_lose_power_and_one_comes_late(theatre: ClusterHarness) -> None:
    subscriber(theatre, 3, "t").leave()
    for spot in theatre.spots:
        spot.kill(power=True)
    for number in (1, 2):
        theatre[number].start()
    theatre.state_of(1, ViewState.MAJORITY)
    writer = theatre[1].client("writer")
    writer.publish("t", b"m", 1)
    theatre.pass_s(2.0)
    assert acks(writer) == []
    theatre[3].start()
    theatre.whole()
    theatre.pass_s(1.0)
    assert acks(writer) == [packets.Puback]
    reader = theatre[3].client("reader", **LASTS)  # type: ignore[arg-type]
    assert [each.payload for each in reader.drain()] == [b"m"]


def test_routes_to_clean_sessions_cost_no_disk(theatre: ClusterHarness) -> None:
    subscriber(theatre, 3, "t")
    theatre[3].client("clean").subscribe(("t", 1))
    theatre[3].client("clean").subscribe(("u", 1))
    theatre.pass_s(1.0)
    for number in (1, 2, 3):
        assert stored(theatre, number) == [("l", "n3", "t")]


@pytest.mark.parametrize("away", [1, None])
def test_what_a_restarted_node_does_not_say_again_is_forgotten_everywhere(
    theatre: ClusterHarness, away: int | None
) -> None:
    """A session ended while its node was out of the view, and the node restarted: nobody deletes the route."""
    reader = subscriber(theatre, 3, "gone")
    subscriber(theatre, 3, "kept", "other")
    theatre.isolate(3)
    theatre.state_of(1, ViewState.MAJORITY)
    theatre[3].node.end_sessions("test")
    theatre.pass_s(1.0)
    assert reader.closed
    theatre[3].kill()
    if away is not None:
        theatre.network.heal()
        theatre.isolate(away)
        theatre.until(lambda: theatre[2].node.policy.view_state is ViewState.MINORITY)
    else:
        theatre.network.heal()
    theatre[3].start()
    theatre.until(lambda: theatre[3].node.policy.view_state is not ViewState.MINORITY)
    if away is not None:
        theatre.network.heal()
    theatre.whole()
    subscriber(theatre, 3, "new")
    theatre.pass_s(1.0)
    for number in (1, 2, 3):
        assert stored(theatre, number) == [("l", "n3", "new")]
        assert len(theatre[number].host.clustering.routes) == (number != 3)  # type: ignore[union-attr]


def test_a_node_that_has_left_for_good_is_owed_nothing_after_a_restart(theatre: ClusterHarness) -> None:
    subscriber(theatre, 3, "t")
    theatre[3].kill()
    theatre.state_of(1, ViewState.MAJORITY)
    problems: list[str] = []
    theatre[1].host.leave("n3", problems.append)
    theatre.until(lambda: bool(problems))
    assert problems == [""]
    theatre.pass_s(1.0)
    assert stored(theatre, 1) == stored(theatre, 2) == []
    for number in (1, 2):
        theatre[number].kill()
        theatre[number].start()
    theatre.until(lambda: all(theatre[number].node.policy.view_state is ViewState.WHOLE for number in (1, 2)))
    assert [type(each) for each in theatre[1].client("writer").publish("t", b"m", 1)] == [packets.Puback]


@pytest.mark.parametrize("early", [True, False])
def test_a_clean_session_misses_a_publish_that_is_acknowledged_only_when_its_node_is_back(early: bool) -> None:
    """H-18: n2 owes its acknowledgement for longer than n3 was away, and by then nobody is missing."""
    theatre = ClusterHarness(5, **MAJORITY)
    member = theatre[1].host.member
    assert member is not None and member.consensus is not None
    raft = member.consensus.raft
    theatre.until(lambda: len(raft.configuration.voters) == 5)
    subscriber(theatre, 2, "t")
    reader = theatre[3].client("clean")
    reader.subscribe(("t", 1))
    writer = theatre[1].client("writer")
    for number in (2, 3):
        theatre.isolate(number)
        if early and number == 3:
            writer.publish("t", b"m", 1)
        theatre.until(lambda gone=f"n{number}": gone not in member.view.nodes)
    if not early:
        writer.publish("t", b"m", 1)
    theatre.network.heal("n3")
    theatre.until(lambda: "n3" in member.view.serving)
    theatre.pass_s(0.5)
    assert acks(writer) == []
    theatre.network.heal()
    theatre.whole()
    theatre.pass_s(1.0)
    assert acks(writer) == [packets.Puback]
    assert packets.Disconnect in [type(each) for each in reader.take()]


@pytest.mark.parametrize("snapshot", [False, True])
def test_what_a_session_was_owed_that_expired_while_this_node_was_cut_off(
    snapshot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node restarted meanwhile and serves again; a snapshot skips the views in which it came."""
    if snapshot:
        snapshots_only(monkeypatch)
    theatre = ClusterHarness(3, **MAJORITY)
    reader = theatre[2].client("reader", clean=False, expiry_s=10)
    reader.subscribe(("t", 1))
    member = theatre[1].host.member
    assert member is not None
    member.metadata.sync_interval_ms = 1 << 40  # it hears of the route when it enters, and not before
    theatre.pass_s(6.0)
    theatre.isolate(1)
    reader.vanish()
    theatre.state_of(2, ViewState.MAJORITY)
    theatre[2].kill()
    theatre.pass_s(20.0)
    theatre[2].start()
    theatre.state_of(2, ViewState.MAJORITY)
    theatre.network.heal()
    theatre.whole()
    theatre[2].kill()
    theatre.state_of(1, ViewState.MAJORITY)
    writer = theatre[1].client("writer")
    assert [type(each) for each in writer.publish("t", b"m", 1)] == [packets.Puback]
