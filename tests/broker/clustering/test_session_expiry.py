"""Sessions on three nodes expire only when their clients could come back (H-43)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strogoff.broker.clustering.adapter import ClusterAdapter
from strogoff.broker.clustering.runtime import ClusterRuntime
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.harness.broker import publish
from tests.harness.cluster import MAJORITY, ClusterHarness, NodeHarness
from tests.harness.servers import ServersInMemory, run
from tests.harness.thinning import thinned

EXPIRY_S = 2


def _absent(idle_sessions: int = 10_000) -> ClusterHarness:
    """A cluster with the session of a client at node 1, which has disconnected."""
    cluster = ClusterHarness(3, **MAJORITY, idle_sessions=idle_sessions)
    cluster.put(sleeper=1)
    cluster[1].client("sleeper", clean=False, expiry_s=EXPIRY_S).leave()
    cluster.pass_s(0.2)
    assert _sessions(cluster) == 1
    return cluster


def _finds_its_session(cluster: ClusterHarness) -> bool:
    _, connack = cluster[1].connect("sleeper", clean=False, expiry_s=EXPIRY_S)
    return connack.session_present


def _sessions(cluster: ClusterHarness) -> int:
    return cluster[1].node.sessions.durable


@pytest.mark.parametrize("idle_sessions", [10_000, 0])
def test_no_session_ends_while_its_primary_has_no_lease(idle_sessions: int) -> None:
    cluster = _absent(idle_sessions)
    cluster.isolate(1)
    cluster.state_of(1, ViewState.MINORITY)
    cluster.pass_s(10 * EXPIRY_S)
    cluster.network.heal()
    cluster.whole()
    assert _finds_its_session(cluster)


@pytest.mark.parametrize("idle_sessions", [10_000, 0])
def test_a_session_that_is_due_ends_5_s_after_the_lease_is_back(idle_sessions: int) -> None:
    cluster = _absent(idle_sessions)
    cluster.isolate(1)
    cluster.state_of(1, ViewState.MINORITY)
    cluster.pass_s(10 * EXPIRY_S)
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(4)
    assert _sessions(cluster) == 1
    cluster.pass_s(2)
    assert _sessions(cluster) == 0


def test_sessions_that_may_not_end_yet_stay_on_disk() -> None:
    cluster = _absent(idle_sessions=0)
    cluster.isolate(1)
    cluster.state_of(1, ViewState.MINORITY)
    cluster.pass_s(10 * EXPIRY_S)
    assert not cluster[1].node.sessions.in_memory()
    assert _sessions(cluster) == 1


def test_a_connect_that_waits_for_its_primary_finds_a_session_that_is_due() -> None:
    cluster = _absent()
    cluster[1].kill()
    cluster.pass_s(10 * EXPIRY_S)
    cluster[1].start()
    waiting = cluster[2].connect_soon("sleeper", clean=False, expiry_s=EXPIRY_S)
    cluster.whole()
    found = [each for each in waiting.take() if isinstance(each, packets.Connack)]
    assert [each.session_present for each in found] == [True]


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_session_that_expires_while_its_primary_is_down_waits_for_its_client(comes_back: bool) -> None:
    cluster = _absent()
    cluster[1].kill()
    cluster.pass_s(10 * EXPIRY_S)
    cluster[1].start()
    cluster.whole()
    cluster.pass_s(4)
    if comes_back:
        assert _finds_its_session(cluster)
    else:
        cluster.pass_s(2)
        assert _sessions(cluster) == 0


def test_no_session_ends_before_its_member_has_read_the_log() -> None:
    """The member loads a session with an open QoS 2 handshake at once. It is due, but another node may have its slot
    now, and the member gets no lease here."""
    cluster = _absent()
    sleeper, _ = cluster[1].connect("sleeper", clean=False, expiry_s=EXPIRY_S)
    sleeper.ask(publish("t", b"x", 2, 1))  # no PUBREL
    sleeper.leave()
    cluster.pass_s(0.2)
    cluster[1].kill()
    cluster.pass_s(10 * EXPIRY_S)
    cluster.isolate(1)
    cluster[1].start()
    assert isinstance(cluster[1].node.env.cluster, ClusterAdapter)
    cluster.pass_s(1)
    assert _sessions(cluster) == 1


def test_no_session_of_a_member_ends_before_it_has_read_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[int] = []
    start = ClusterRuntime.start

    async def watched(shell: ClusterRuntime) -> None:
        pauses.append(shell._node.env.cluster.expiry_pause_ms())
        await start(shell)

    async def scenario(harness: ServersInMemory) -> None:
        await harness.start("n1")
        two = await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        await harness.stop("n2")
        await harness.start("n2")

    monkeypatch.setattr(ClusterRuntime, "start", watched)
    run(tmp_path, scenario)
    assert pauses == [0, 0, 5000]


def test_a_session_ends_in_time_while_its_primary_has_a_lease() -> None:
    cluster = _absent()
    cluster.pass_s(EXPIRY_S + 0.5)
    assert _sessions(cluster) == 0


FAULTS = pytest.mark.parametrize("fault", [NodeHarness.kill, NodeHarness.pause_process])


def _copied(idle_sessions: int, **fields: object) -> tuple[CopiedCluster, int]:
    """A cluster of three with two copies of each slot, and a session at n1 whose client vanished a moment ago. Returns
    the number of its follower too."""
    cluster = CopiedCluster(idle_sessions=idle_sessions)
    cluster[1].client("sub", clean=False, expiry_s=600).leave()
    cluster.move("sub", 1)
    cluster.all_copied()
    cluster.pass_s(6)  # every node has had its lease for that time
    follower = cluster.copied("sub")[1]
    client = cluster[1].client("sub", clean=False, **fields)  # type: ignore[arg-type]
    client.subscribe(("t", 1))
    client.vanish()
    cluster.pass_s(0.2)
    assert cluster[follower].client("pub").publish("t", b"acknowledged", 1)
    return cluster, follower


@FAULTS
@pytest.mark.parametrize("idle_sessions", [10_000, 0])
def test_a_session_that_is_due_during_a_failover_waits_for_its_client(
    fault: Callable[[NodeHarness], None], idle_sessions: int
) -> None:
    """H-43: the CONNECT comes in time, and waits for the next primary."""
    cluster, follower = _copied(idle_sessions, expiry_s=EXPIRY_S)
    fault(cluster[1])
    cluster.until(lambda: cluster[follower].member.view.incarnation("n1") is None)
    client, connack = cluster[follower].connect("sub", clean=False, expiry_s=EXPIRY_S)
    assert connack.session_present
    assert [each.payload for each in client.drain()] == [b"acknowledged"]


@FAULTS
def test_a_session_that_is_due_during_a_failover_ends_5_s_later(fault: Callable[[NodeHarness], None]) -> None:
    cluster, follower = _copied(0, expiry_s=EXPIRY_S)
    fault(cluster[1])
    cluster.taken_over(1)
    cluster.pass_s(4)
    assert [key[:1] for key in cluster.rows(follower) if key[:1] == b"s"] == [b"s"]
    assert cluster[follower].node.sessions.of_slot(cluster.slot) == [], "it stays on disk"
    cluster.pass_s(2)
    assert [key[:1] for key in cluster.rows(follower) if key[:1] == b"s"] == []


@FAULTS
@pytest.mark.parametrize("idle_sessions", thinned([10_000, 0], 2))
@pytest.mark.parametrize("back", [True, False])
def test_a_will_that_is_due_during_a_failover_waits_for_its_client(
    fault: Callable[[NodeHarness], None], idle_sessions: int, back: bool
) -> None:
    will = packets.Will("will", b"gone", 1, False, {"will_delay_interval": EXPIRY_S})
    cluster, follower = _copied(idle_sessions, expiry_s=600, will=will)
    watcher = cluster[follower].client("watcher")
    watcher.subscribe(("will", 1))
    fault(cluster[1])
    cluster.until(lambda: cluster[follower].member.view.incarnation("n1") is None)
    if back:
        assert cluster[follower].connect("sub", clean=False, expiry_s=600)[1].session_present
    cluster.pass_s(10)
    assert [each.payload for each in watcher.drain()] == ([] if back else [b"gone"])


def test_a_session_that_is_due_while_its_slot_is_closed_waits_for_its_client() -> None:
    """The slot is to move to n3, and is closed for what its clients have published."""
    cluster, follower = _copied(10_000, expiry_s=EXPIRY_S)
    clustering, outcome = cluster[1].host.clustering, list[str]()
    assert clustering is not None
    clustering.slots.moves._busy = lambda departure: "a test"  # type: ignore[method-assign]
    clustering.slots.moves.begin(slot_of("", "sub"), f"n{follower}", outcome.append)
    client = cluster[follower].connect_soon("sub", clean=False, expiry_s=EXPIRY_S)
    cluster.pass_s(3)
    assert client.take() == [] and outcome == []
    cluster.until(lambda: bool(outcome))
    cluster.settle()
    assert [each.session_present for each in client.take() if isinstance(each, packets.Connack)] == [True]
