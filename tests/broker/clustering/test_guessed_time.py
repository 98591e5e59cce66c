"""H-17: without a lease the policy `on` lets a booted machine serve by its wall clock, until a leader is heard."""

from __future__ import annotations

from tests.broker.clustering.test_leader_time import LEAPS, ahead_ms, boot
from tests.harness.cluster import ON, ClusterHarness


def served_without_a_lease(leap_ms: float) -> ClusterHarness:
    """n3 keeps a message for a session, was booted with a wrong clock while it was cut off, and has served a client."""
    cluster = ClusterHarness(3, **ON)
    reader = cluster[3].client("reader", clean=False, expiry_s=3600)
    reader.subscribe(("t", 1))
    reader.vanish()
    assert cluster[1].client("writer").publish("t", b"m", 1, message_expiry_interval=600)[0].reason == 0
    cluster.pass_s(2.0)
    cluster.isolate(3)
    boot(cluster[3], leap_ms)
    cluster.pass_s(15.0)
    assert cluster[3].client("other").ask() == []
    return cluster


@LEAPS
def test_no_session_ends_by_a_guessed_time(leap_ms: float) -> None:
    cluster = served_without_a_lease(leap_ms)
    cluster.network.heal()
    cluster.whole()
    assert all(abs(ahead_ms(node)) < 50 for node in cluster.nodes)
    cluster.pass_s(20.0)
    reader = cluster[3].client("reader", clean=False, expiry_s=3600)
    assert [each.payload for each in reader.drain()] == [b"m"]


@LEAPS
def test_a_guessed_time_is_not_saved(leap_ms: float) -> None:
    cluster = served_without_a_lease(leap_ms)
    cluster.pass_s(15.0)
    cluster[3].kill()
    cluster[3].start()
    assert not cluster[3].node.env.clock.known
    cluster.network.heal()
    cluster.whole()
    assert all(abs(ahead_ms(node)) < 50 for node in cluster.nodes)
