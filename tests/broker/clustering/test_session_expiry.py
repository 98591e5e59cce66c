"""Sessions on three nodes expire only when their clients could come back (H-43)."""

from __future__ import annotations

import pytest

from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.harness.cluster import MAJORITY, ClusterHarness

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


def test_a_session_ends_in_time_while_its_primary_has_a_lease() -> None:
    cluster = _absent()
    cluster.pass_s(EXPIRY_S + 0.5)
    assert _sessions(cluster) == 0
