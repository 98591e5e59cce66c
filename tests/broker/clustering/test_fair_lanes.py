"""A link slower than its publishers: some clients flood it, others send single messages."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.cluster.links.ports import Lane
from strogoff.cluster.links.settings import LinkSettings
from strogoff.cluster.ports import Settings
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from strogoff.sim.engine import cluster_host
from tests.harness.broker import PacketClient, publish
from tests.harness.cluster import ClusterHarness, NodeHarness
from tests.harness.thinning import thinned

LASTS: dict[str, Any] = {"clean": False, "expiry_s": 10_000}
DELAY_S = 0.05
AHEAD, BEHIND, WINDOW = 2000, 20_000, 10_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ClusterHarness:
    """A link from n1 to n3 that passes a window of 10,000 bytes in a tenth of a second."""
    links = LinkSettings(publish_window_bytes=WINDOW, ahead_bytes=AHEAD, behind_bytes=BEHIND)
    monkeypatch.setattr(cluster_host, "Settings", lambda: Settings(links=links))
    cluster = ClusterHarness(3, max_online_messages=-1)
    cluster.network.delay("n1", "n3", DELAY_S)
    cluster.network.delay("n3", "n1", DELAY_S)
    cluster.pass_s(1.0)
    return cluster


def waiting(harness: NodeHarness) -> int:
    """Returns the number of copies that wait at a node for n3."""
    assert harness.host.clustering is not None
    queue = harness.host.clustering.sender._waiting.queues.get("n3")
    return 0 if queue is None else queue.items


def held(harness: NodeHarness) -> list[str]:
    return sorted(
        connection.client_id
        for connection in harness.node.connections.values()
        if "cluster" in connection.flow.paused_for
    )


def subscribed(cluster: ClusterHarness, qos: int, **fields: Any) -> PacketClient:
    """A client of n3 with a subscription to all topics that every node knows."""
    reader = cluster[3].client("reader", **fields)
    reader.subscribe(("#", qos))
    cluster.pass_s(0.5)
    return reader


def flooded(cluster: ClusterHarness, number: int, count: int, qos: int = 0) -> PacketClient:
    """A client of n1 that sends `count` messages at once, more than the link takes in a second."""
    client = cluster[1].client(f"flood{number}")
    client.send(*[publish(f"flood/{number}", b"%d" % each + bytes(100), qos, each + 1) for each in range(count)])
    cluster.settle()
    return client


def of(came: list[packets.Publish], topic: str) -> list[int]:
    return [int(each.payload.rstrip(b"\0")) for each in came if each.topic == topic]


def test_a_single_message_is_not_delayed_by_a_flood(cluster: ClusterHarness) -> None:
    """It arrives in a few round trips, while the flood takes seconds. The sockets of the flood are paused, so no
    message is dropped; other clients are read.
    """
    reader = subscribed(cluster, 0)
    for number in range(4):
        flooded(cluster, number, 1000)
    assert waiting(cluster[1]) > 50 and held(cluster[1]) == [f"flood{number}" for number in range(4)]
    came: list[packets.Publish] = []
    other = cluster[1].client("other")
    for number in range(10):
        begin = cluster.loop.now_s
        other.publish("other", b"%d" % number, 0)
        while not of(came, "other")[number:]:
            cluster.pass_s(0.01)
            came += reader.drain()
            assert cluster.loop.now_s - begin < 6 * DELAY_S, "the message waits behind the flood"
        assert waiting(cluster[1]) > 50
    assert "other" not in held(cluster[1]) and len(came) < 3000
    began = cluster.loop.now_s
    while len(came) < 4010:
        cluster.pass_s(0.1)
        came += reader.drain()
        assert cluster.loop.now_s - began < 120
    assert cluster.loop.now_s - began > 1
    for number in range(4):
        assert of(came, f"flood/{number}") == list(range(1000))
    cluster.pass_s(1.0)
    assert held(cluster[1]) == [] and waiting(cluster[1]) == 0


def test_floods_get_equal_shares(cluster: ClusterHarness) -> None:
    reader = subscribed(cluster, 0)
    for number in range(3):
        flooded(cluster, number, 1000)
    cluster.pass_s(1.0)
    reader.drain()
    cluster.pass_s(2.0)
    came = reader.drain()
    parts = [len(of(came, f"flood/{number}")) for number in range(3)]
    assert min(parts) > 30 and max(parts) - min(parts) < 30


def test_many_small_publishers_are_paused_by_their_total_memory(
    cluster: ClusterHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No client exceeds its share, but all together exceed the memory of a lane: the waiting copies count as well."""
    assert cluster[1].host.member is not None
    links = cluster[1].host.member.links
    monkeypatch.setitem(links._out["n3"]._limits, Lane.PUBLISH, 300_000)
    reader = subscribed(cluster, 1)
    clients = [cluster[1].client(f"many{number}") for number in range(60)]
    for each in range(10):
        for number, client in enumerate(clients):
            client.send(publish(f"flood/{number}", b"%d" % each + bytes(100), 1, each + 1))
        cluster.settle()
    assert links.slow[Lane.PUBLISH] == {"n3": None} and 300_000 < links.memory_bytes("n3") < 380_000
    assert len(held(cluster[1])) == 60
    came: list[packets.Publish] = []

    def all_came() -> bool:
        came.extend(reader.drain())
        return len(came) == 600

    cluster.until(all_came, 60.0)
    cluster.pass_s(1.0)
    assert held(cluster[1]) == [] and links.slow[Lane.PUBLISH] == {}
    for number, client in enumerate(clients):
        assert of(came, f"flood/{number}") == list(range(10)) and len(client.take()) == 10


@pytest.mark.parametrize("qos", thinned([1, 2], 2))
@pytest.mark.parametrize("fault", ["break", "kill", "power", "cut"])
def test_waiting_messages_survive_a_broken_link_and_an_absent_node(
    cluster: ClusterHarness, fault: str, qos: int
) -> None:
    """For a durable session: each message arrives once, in the order of its publisher, and is acknowledged."""
    reader = subscribed(cluster, qos, **LASTS)
    each_sends = 100 if qos == 1 else 40  # in one turn: later messages may be refused, as the cluster is not whole
    floods = [flooded(cluster, number, each_sends, qos) for number in range(6 if qos == 1 else 30)]
    cluster.pass_s(0.12)
    assert waiting(cluster[1]) > 10
    came = reader.drain()
    if fault == "break":
        cluster.network.drop("n1", "n3")
    elif fault == "cut":
        cluster.network.cut("n1", "n3")
    else:
        cluster[3].kill(fault == "power")
    cluster.pass_s(3.0)
    if fault == "cut":
        cluster.network.heal()
    elif fault != "break":
        cluster[3].start()
    answered: list[list[int]] = [[] for _ in floods]
    again: PacketClient | None = None

    def on() -> bool:
        nonlocal again
        for client, ids in zip(floods, answered, strict=True):
            for packet in client.take():
                if isinstance(packet, packets.Puback | packets.Pubcomp):
                    assert packet.reason == 0
                    ids.append(packet.packet_id)
                elif isinstance(packet, packets.Pubrec):
                    client.send(packets.Pubrel(packet.packet_id))
        if again is None and cluster[3].host.up and cluster[3].node.policy.view_state is ViewState.WHOLE:
            again, _ = cluster[3].connect("reader", **LASTS)
        if again is not None:
            came.extend(again.drain())
        return all(len(ids) == each_sends for ids in answered)

    cluster.until(on, 60.0)
    cluster.pass_s(1.0)
    on()
    for number, ids in enumerate(answered):
        assert ids == list(range(1, each_sends + 1))
        got = of(came, f"flood/{number}")
        assert list(dict.fromkeys(got)) == list(range(each_sends))
        assert len(got) <= each_sends + 65  # messages that the session had not acknowledged arrive again
    assert waiting(cluster[1]) == 0 and held(cluster[1]) == []
