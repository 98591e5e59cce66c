"""H-17: the clock of a node is set when it learns cluster time, while clients are connected to it."""

from __future__ import annotations

from strogoff.mqtt import packets
from tests.broker.clustering.test_leader_time import LEAPS, YEAR_MS, beside_a_newcomer
from tests.harness.broker import PacketClient
from tests.harness.cluster import ClusterHarness

WILL = packets.Will("will", b"gone", 1, False, None)


def watcher_of(cluster: ClusterHarness) -> PacketClient:
    """A client at n1 that gets the wills."""
    watcher = cluster[1].client("watcher")
    watcher.subscribe(("will", 1))
    return watcher


@LEAPS
def test_a_client_that_pings_stays_connected_when_the_clock_is_set(leap_ms: float) -> None:
    """A newcomer with a client joins, and learns cluster time."""
    cluster = beside_a_newcomer(leap_ms)
    watcher = watcher_of(cluster)
    client = cluster[3].client("client", keepalive_s=60, will=WILL)
    assert cluster[3].join() == ""
    cluster.whole()
    cluster.pass_s(30.0)
    assert isinstance(client.ask(packets.Pingreq())[0], packets.Pingresp)
    assert watcher.drain() == []


@LEAPS
def test_a_client_that_is_silent_is_noticed_when_the_clock_was_set(leap_ms: float) -> None:
    cluster = beside_a_newcomer(leap_ms)
    watcher = watcher_of(cluster)
    cluster[3].client("client", keepalive_s=60, will=WILL)
    assert cluster[3].join() == ""
    cluster.whole()
    cluster.pass_s(95.0)
    assert [each.payload for each in watcher.drain()] == [b"gone"]


def test_a_message_without_an_answer_is_repeated_when_the_clock_was_set_back() -> None:
    cluster = beside_a_newcomer(YEAR_MS, retry_interval_s=20)
    client = cluster[3].client("client", 3)
    client.subscribe(("t", 1))
    cluster[3].client("writer").publish("t", b"m", 1)
    (first,) = client.take()
    assert cluster[3].join() == ""
    cluster.whole()
    cluster.pass_s(35.0)
    (again,) = client.messages()
    assert (first.dup, again.dup) == (False, True)
