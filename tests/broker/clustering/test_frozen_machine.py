"""H-17: a machine stood still for a while, and its monotonic clock with it: cluster time went on without it."""

from __future__ import annotations

import pytest

from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from tests.broker.clustering.test_leader_time import ahead_ms
from tests.harness.cluster import ClusterHarness

LONG_S = 90.0


@pytest.mark.parametrize("who", [1, 2])
def test_a_message_from_a_machine_that_stood_still_has_not_expired(who: int) -> None:
    """n1 leads until it is frozen, n2 does not."""
    cluster = ClusterHarness(3)
    reader = cluster[3].client("reader", clean=False, expiry_s=60)
    reader.subscribe(("t", 1))
    cluster[who].freeze(LONG_S)
    cluster.whole()
    writer = cluster[who].client("writer")
    assert writer.publish("t", b"m", 1, message_expiry_interval=30)[0].reason == 0
    (came,) = reader.drain()
    assert isinstance(came, packets.Publish)
    assert all(abs(ahead_ms(node)) < 1000 for node in cluster.nodes)


def test_a_leader_that_stood_still_takes_the_time_of_the_other_node() -> None:
    """Only n1 votes, so it leads on."""
    cluster = ClusterHarness(2)
    assert cluster[1].leads and cluster[1].member.consensus is not None
    reader = cluster[2].client("reader", clean=False, expiry_s=60)
    reader.subscribe(("t", 1))
    cluster[1].freeze(LONG_S)
    cluster.whole()
    cluster.until(lambda: cluster[1].leads and cluster[2].member.leased())
    assert cluster[1].client("writer").publish("t", b"m", 1, message_expiry_interval=30)[0].reason == 0
    assert [each.payload for each in reader.drain()] == [b"m"]
    assert all(abs(ahead_ms(node)) < 1000 for node in cluster.nodes)


@pytest.mark.parametrize("frozen_s", [5.0, 100.0])
def test_a_session_at_a_machine_that_stood_still_waits_for_its_client(frozen_s: float) -> None:
    """The session expired meanwhile, but its client could not come back before."""
    cluster = ClusterHarness(3)
    cluster.put(away=2)
    away = cluster[2].client("away", clean=False, expiry_s=60)
    away.subscribe(("t", 1))
    away.vanish()
    cluster.pass_s(57.0)
    cluster[2].freeze(frozen_s)
    cluster.whole()
    cluster.pass_s(2.0)
    _, connack = cluster[1].connect("away", clean=False, expiry_s=60)
    assert connack.session_present


def test_a_will_at_a_machine_that_stood_still_is_not_published_if_its_client_comes_back() -> None:
    cluster = ClusterHarness(3)
    watcher = cluster[1].client("watcher")
    watcher.subscribe(("will", 1))
    cluster.put(mortal=2)
    will = packets.Will("will", b"gone", 1, False, {"will_delay_interval": 80})
    cluster[2].client("mortal", clean=False, expiry_s=6 * 3600, will=will).vanish()
    cluster.pass_s(57.0)
    cluster[2].freeze(LONG_S)
    cluster.whole()
    cluster.pass_s(2.0)
    cluster[1].client("mortal", clean=False, expiry_s=6 * 3600)
    cluster.pass_s(60.0)
    assert watcher.drain() == []


def test_a_client_of_a_machine_that_stood_still_stays_connected() -> None:
    """Its slot has no other primary, and its socket outlived the time."""
    cluster = ClusterHarness(3)
    client = cluster[2].client("client", clean=False, expiry_s=600, keepalive_s=30)
    cluster[2].freeze(LONG_S)
    cluster.whole()
    cluster.pass_s(30.0)
    assert isinstance(client.ask(packets.Pingreq())[-1], packets.Pingresp)


def test_a_publish_that_waited_for_the_lease_has_not_expired() -> None:
    cluster = ClusterHarness(3)
    reader = cluster[3].client("reader", clean=False, expiry_s=60)
    reader.subscribe(("t", 1))
    cluster.put(writer=2)
    writer = cluster[2].client("writer", clean=False, expiry_s=60)
    cluster.isolate(2)
    cluster[2].freeze(LONG_S)
    cluster.state_of(2, ViewState.MINORITY)
    writer.send(packets.Publish("t", b"m", 1, packet_id=1, dup=True, properties={"message_expiry_interval": 30}))
    cluster.pass_s(1.0)
    assert writer.take() == []
    cluster.network.heal()
    cluster.whole()
    cluster.until(lambda: bool(writer.received))
    (answer,) = writer.take()
    assert isinstance(answer, packets.Puback) and answer.reason == 0
    assert [each.payload for each in reader.drain()] == [b"m"]
