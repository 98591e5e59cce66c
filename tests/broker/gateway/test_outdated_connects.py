"""Gateway, primary and registrar refuse a CONNECT that began before the latest one of its client (H-37)."""

from __future__ import annotations

import pytest

from strogoff.broker.sessions.latest_connect import OUTDATED
from tests.harness.broker import PacketClient
from tests.harness.late_plugin import LateOnce
from tests.harness.transcript import PendingHooks

from .relay_harness import RelayHarness, props


def clean(cluster: RelayHarness, number: int) -> PacketClient:
    """Returns a connected client `x` without a session."""
    return cluster[number].client("x", clean=True, expiry_s=0)


def soon(cluster: RelayHarness, number: int, expiry_s: int = 0) -> PacketClient:
    return cluster[number].connect_soon("x", clean=True, expiry_s=expiry_s)


def is_refused(client: PacketClient) -> bool:
    (connack,) = client.take()
    return client.closed and (connack.reason, props(connack)["reason_string"]) == (0x88, OUTDATED)


@pytest.mark.parametrize("expiry_s", [0, 600])
def test_an_open_counts_the_time_that_it_has_waited_at_the_primary(expiry_s: int) -> None:
    cluster = RelayHarness(2)
    cluster.tables["n1"].apply("n2", 2)  # n2 has not applied that
    older = soon(cluster, 1, expiry_s)
    cluster.pass_s(2)
    newer = clean(cluster, 2)
    cluster.tables["n2"].apply("n2", 2)
    cluster.pass_s(1)
    assert is_refused(older) and not newer.closed and newer.take() == []


@pytest.mark.parametrize("expiry_s", [0, 600])
def test_a_registrar_does_not_evict_the_newer_connection_elsewhere(expiry_s: int) -> None:
    cluster = RelayHarness(3)
    cluster.tables["n1"].apply("n2", 2)
    older = soon(cluster, 1, expiry_s)
    cluster.pass_s(2)
    newer = clean(cluster, 3)
    cluster.apply("n2", 2)
    cluster.pass_s(1)
    assert is_refused(older) and not newer.closed and newer.take() == []
    again = clean(cluster, 1)
    assert newer.closed and not again.closed, "a newer one evicts it as before"


@pytest.mark.parametrize("expiry_s", [0, 600])
def test_a_new_registrar_does_not_serve_its_own_older_connect(expiry_s: int) -> None:
    cluster = RelayHarness(3)
    cluster.network.cut("n1", "n2")
    cluster.pass_s(0.1)
    older = soon(cluster, 1, expiry_s)
    cluster.pass_s(1)
    newer = clean(cluster, 3)
    assert older.take() == [] and not older.closed
    cluster.apply("n1", 2)
    cluster.network.heal()
    cluster.pass_s(5)
    assert is_refused(older) and not newer.closed and newer.take() == []


def late(cluster: RelayHarness) -> PendingHooks:
    """Let a plugin at n1 answer late about the next CONNECT."""
    env = cluster[1].node.env
    env.hooks.remove("plugin")
    env.hooks.add("late", LateOnce())
    return PendingHooks(cluster[1])  # type: ignore[arg-type]


@pytest.mark.parametrize("expiry_s", [0, 600])
def test_a_registrar_knows_when_the_connect_of_a_client_at_its_gateway_began(expiry_s: int) -> None:
    cluster = RelayHarness(3, allow_anonymous=False)
    hooks = late(cluster)
    older = soon(cluster, 1, expiry_s)
    cluster.pass_s(2)
    newer = clean(cluster, 3)
    hooks.answer()
    assert is_refused(older) and not newer.closed and newer.take() == []


def test_an_older_connect_does_not_end_a_newer_one_that_waits_at_the_gateway() -> None:
    cluster = RelayHarness(2, allow_anonymous=False)
    hooks = late(cluster)
    older = soon(cluster, 1)
    cluster.pass_s(2)
    cluster.apply(None, 2)
    newer = soon(cluster, 1)
    hooks.answer()
    assert is_refused(older) and not newer.closed and cluster.counts(1) == (0, 0, 1)
    cluster.apply("n2", 3)
    assert [each.reason for each in newer.take()] == [0]


def test_the_pause_of_a_gateway_counts() -> None:
    cluster = RelayHarness(3, allow_anonymous=False)
    hooks = late(cluster)
    older = soon(cluster, 1, 600)
    cluster[1].pause_process()
    cluster.pass_s(1)
    newer = cluster[3].client("x", clean=True, expiry_s=600)
    cluster[1].resume_process()
    hooks.answer()
    assert is_refused(older) and not newer.closed and newer.take() == []
