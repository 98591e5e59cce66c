"""Nodes that are slow, absent or full: only their publishers wait, and the waiting messages are bounded."""

from __future__ import annotations

import pytest

from strogoff.cluster.links.ports import Lane
from strogoff.cluster.links.settings import LinkSettings
from strogoff.cluster.ports import Settings
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from strogoff.sim.engine import cluster_host
from tests.harness.broker import PacketClient, publish
from tests.harness.cluster import MAJORITY, ClusterHarness, NodeHarness

LASTS = {"clean": False, "expiry_s": 10_000}
BUFFER = 300_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ClusterHarness:
    settings = Settings(links=LinkSettings(buffer_bytes=BUFFER, publish_window_bytes=100_000))
    monkeypatch.setattr(cluster_host, "Settings", lambda: settings)
    return ClusterHarness(3, **MAJORITY)


def memory(harness: NodeHarness, node: str, lane: Lane) -> int:
    """Returns the memory in bytes of the items that wait at a node for another node."""
    assert harness.host.member is not None
    return harness.host.member.links._out[node].lanes[lane].memory_bytes


def acks(client: PacketClient) -> list[int]:
    client.broker.settle()
    return [packet.packet_id for packet in client.take() if isinstance(packet, packets.Puback)]


def test_messages_waiting_for_an_absent_node_are_bounded(cluster: ClusterHarness) -> None:
    """An MQTT 3 client publishes without waiting for answers: it is not read any more. Others are read, and no message
    is lost.
    """
    reader = cluster[3].client("reader", **LASTS)  # type: ignore[arg-type]
    reader.subscribe(("away/#", 1))
    here = cluster[2].client("here")
    here.subscribe(("here", 1))
    cluster[3].kill()
    cluster.state_of(1, ViewState.MAJORITY)
    floods = [cluster[1].client(f"flood{number}", version=4) for number in range(3)]
    other = cluster[1].client("other", version=4)
    most = 0
    for turn in range(30):
        for number, flood in enumerate(floods):
            flood.send(*[publish(f"away/{number}", b"%d" % n, 1, n) for n in range(turn * 10 + 1, turn * 10 + 11)])
        cluster.settle()
        most = max(most, memory(cluster[1], "n3", Lane.PUBLISH))
        assert acks_of(other.publish("here", b"1", 1, turn + 1)) == [turn + 1]
    assert BUFFER < most < BUFFER * 1.2
    assert len(here.payloads()) == 30
    said = [text for _, text in cluster[1].host.lines if "wait on lane PUBLISH for n3" in text]
    assert len(said) == 1
    cluster[3].start()
    cluster.whole()
    cluster.pass_s(3.0)
    assert [sorted(acks(flood)) for flood in floods] == [list(range(1, 301))] * 3
    again, _ = cluster[3].connect("reader", **LASTS)  # type: ignore[arg-type]
    came = again.drain()
    for number in range(3):
        mine = [int(each.payload) for each in came if each.topic == f"away/{number}"]
        assert mine == list(range(1, 301))


def acks_of(answers: list[object]) -> list[int]:
    return [packet.packet_id for packet in answers if isinstance(packet, packets.Puback)]


def test_map_updates_waiting_for_a_slow_node_are_bounded(cluster: ClusterHarness) -> None:
    """A client that writes retained messages faster than a node takes them is not read; other clients are read."""
    cluster.network.delay("n1", "n3", 0.2)
    cluster.network.delay("n3", "n1", 0.2)
    cluster.pass_s(1.0)
    flood, other = cluster[1].client("flood"), cluster[1].client("other")
    most = 0
    for turn in range(100):
        flood.send(publish(f"kept/{turn}", bytes(10_000), 0, 0, True))
        cluster.pass_s(0.001)
        most = max(most, memory(cluster[1], "n3", Lane.METADATA))
        assert acks_of(other.publish("nobody", b"1", 1, turn + 1)) == [turn + 1]
    assert BUFFER < most < BUFFER * 1.2
    cluster.pass_s(10.0)
    assert [len(harness.node.retained.table("")) for harness in cluster.nodes] == [100, 100, 100]


def test_a_full_disk_delays_only_publishers_that_need_it(cluster: ClusterHarness) -> None:
    """Publishers for clean sessions at the full node get their acknowledgements; no durable message is lost."""
    lasting = cluster[3].client("lasting", **LASTS)  # type: ignore[arg-type]
    lasting.subscribe(("kept", 1))
    clean = cluster[3].client("clean")
    clean.subscribe(("clean", 1))
    cluster[3].disks[0].full = True
    flood = cluster[1].client("flood", version=4)
    live = cluster[1].client("live")
    answered = []
    for number in range(1, 101):
        flood.send(publish("kept", bytes(2000), 1, number))
        answered += acks_of(live.publish("clean", b"%d" % number, 1, number))
        if number == 1:
            cluster.pass_s(0.6)
            answered += acks(live)
    assert answered == list(range(1, 101)) and len(clean.payloads()) == 100
    assert acks(flood) == [] and memory(cluster[1], "n3", Lane.PUBLISH) < 150_000
    cluster.network.drop("n1", "n3")
    cluster.pass_s(1.0)
    assert acks_of(live.publish("clean", b"again", 1, 101)) == [101]
    cluster[3].disks[0].full = False
    cluster.pass_s(10.0)
    assert acks(flood) == list(range(1, 101))
    assert len(lasting.drain()) == 100
