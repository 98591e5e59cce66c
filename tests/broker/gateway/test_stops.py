"""Relayed clients while a node stops in order, must serve no client, or leaves the view because its disk hangs."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from strogoff.broker.connection.connection import FAILOVER_GRACE_S
from strogoff.mqtt import packets as p
from tests.harness.cluster import MAJORITY

from .relay_harness import RelayHarness


def end_gateway(cluster: RelayHarness, how: str) -> None:
    """End all clients of n1."""
    if how == "stops":
        cluster[1].host.stop(lambda: None)
    else:
        cluster[1].host.clustering.bar("a test")  # type: ignore[union-attr]


ENDS = pytest.mark.parametrize("how", ["stops", "must serve nobody"])


def test_a_stopping_node_closes_what_it_relays() -> None:
    cluster = RelayHarness(3)
    client, served = cluster[1].client("c"), cluster[3].client("d")
    stopped: list[bool] = []
    cluster[1].host.stop(lambda: stopped.append(True))
    cluster.pass_s(1)
    assert client.closed and client.take() == [] and stopped and not served.closed
    reasons = [event["reason"] for event in cluster[2].host.events if event["type"] == "conn.close"]
    assert reasons == ["gateway_stopped"]
    cluster.until(lambda: cluster.counts(2) == (0, 1, 0))
    cluster[2].host.stop(lambda: stopped.append(True))
    cluster.pass_s(1)
    assert [each.reason for each in served.take()] == [0x8B] and served.closed


def test_a_node_that_must_serve_nobody_closes_what_it_relays() -> None:
    cluster = RelayHarness(3)
    client = cluster[1].client("c")
    cluster[1].host.clustering.bar("a test")  # type: ignore[union-attr]
    cluster.settle()
    assert client.closed and client.take() == [] and cluster.nothing_left()


@ENDS
@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize("delay_s", [0, 2])
def test_a_client_that_comes_back_from_a_gateway_that_stops_keeps_its_will(how: str, delay_s: int, back: bool) -> None:
    """H-39: the primary goes on with the session, though no other node has a copy of it."""
    cluster = RelayHarness(3, **MAJORITY)
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("will", 0))
    properties: dict[str, Any] | None = {"will_delay_interval": delay_s} if delay_s else None
    will = p.Will("will", b"gone", 0, False, properties)
    client = cluster[1].client("c", clean=False, expiry_s=600, will=will)
    end_gateway(cluster, how)
    cluster.pass_s(FAILOVER_GRACE_S - 1)
    assert client.closed and watcher.messages() == []
    if back:
        assert cluster[3].connect("c", clean=False, expiry_s=600)[1].session_present
    cluster.pass_s(2)
    assert [each.payload for each in watcher.messages()] == ([] if back else [b"gone"])


@ENDS
def test_a_session_that_expires_soon_outlives_its_gateway(how: str) -> None:
    cluster = RelayHarness(3, **MAJORITY)
    cluster.pass_s(2 * FAILOVER_GRACE_S)  # no session expires soon after its node has got a lease
    cluster[1].client("c", clean=False, expiry_s=1)
    end_gateway(cluster, how)
    cluster.pass_s(FAILOVER_GRACE_S - 1)
    assert cluster[3].connect("c", clean=False, expiry_s=1)[1].session_present


def test_a_longer_will_delay_counts_from_the_stop_of_the_gateway() -> None:
    cluster = RelayHarness(3, **MAJORITY)
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("will", 0))
    will = p.Will("will", b"gone", 0, False, {"will_delay_interval": 9})
    cluster[1].client("c", clean=False, expiry_s=600, will=will)
    cluster[1].host.stop(lambda: None)
    cluster.pass_s(8)
    assert watcher.messages() == []
    cluster.pass_s(2)
    assert [each.payload for each in watcher.messages()] == [b"gone"]


@pytest.mark.parametrize("back", [True, False])
def test_a_client_that_comes_back_to_a_primary_whose_disk_hung_keeps_its_will(back: bool) -> None:
    """H-39: its gateway has disconnected it, because the primary had left the view."""
    cluster = RelayHarness(3, **MAJORITY)
    watcher = cluster[3].client("watcher", expiry_s=0)
    watcher.subscribe(("will", 0))
    client = cluster[1].client("c", clean=False, expiry_s=600, will=p.Will("will", b"gone"))
    cluster[2].disks[0].stall_until = inf
    cluster.until(lambda: client.closed)
    cluster[2].disks[0].stall_until = 0
    if back:
        again = cluster[3].connect_soon("c", clean=False, expiry_s=600)
        cluster.pass_s(FAILOVER_GRACE_S)
        assert [each.session_present for each in again.take()] == [True]
    cluster.pass_s(2 * FAILOVER_GRACE_S)
    assert [each.payload for each in watcher.messages()] == ([] if back else [b"gone"])
