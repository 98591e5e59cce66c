"""Retained messages and routes in the replicated map that cannot be read."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.retained import RETAINED
from strogoff.broker.clustering.routes import LASTING, LIVE, route_prefix
from strogoff.cluster.links.settings import LinkSettings
from strogoff.cluster.ports import Settings
from strogoff.mqtt import packets
from strogoff.sim.engine import cluster_host
from tests.harness.broker import publish
from tests.harness.cluster import ClusterHarness

NO_RECORD = b"\xc1"
MESSAGE = RETAINED + b"\0\0"
BROKEN = [
    (MESSAGE + b"t", NO_RECORD, "retained message of the cluster is left out, key b't\\x00\\x00t'"),
    (MESSAGE + b"\xff", NO_RECORD, "invalid start byte"),
    (RETAINED + b"\0\1\xff", NO_RECORD, "invalid start byte"),
    (route_prefix("", "n1", LIVE) + b"x", NO_RECORD, "of route"),
    (route_prefix("", "n1", LASTING), NO_RECORD, "route key"),
]
SMALL_FRAMES = Settings(links=LinkSettings(max_frame_bytes=2 << 20))


@pytest.mark.parametrize(("key", "value", "said"), BROKEN)
def test_what_cannot_be_read_stops_nobody(key: bytes, value: bytes, said: str) -> None:
    """It comes to every node, and again to each that starts."""
    theatre = ClusterHarness(3)
    theatre[1].client("before").publish("kept", b"1", 1, retain=True)
    member = theatre[1].host.member
    assert member is not None
    member.metadata.put(key, value)
    theatre.pass_s(1.0)
    assert [sum(said in line for _, line in spot.host.lines) for spot in theatre.spots] == [0, 1, 1]
    theatre[3].kill()
    theatre[3].start()
    theatre.whole()
    theatre[1].client("writer").publish("u", b"2", 1, retain=True)
    reader = theatre[3].client("reader")
    reader.send(packets.Subscribe(1, [packets.SubscribeOptions("#", 1)], None))
    assert sorted(reader.payloads()) == [b"1", b"2"]


def test_a_large_retained_message_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fits into no frame comes to every node, also to one with a new disk; acknowledgements go on."""
    monkeypatch.setattr(cluster_host, "Settings", lambda: SMALL_FRAMES)
    theatre = ClusterHarness(3)
    large = bytes(3 << 20)
    writer = theatre[1].client("writer")
    writer.send(publish("large", large, 1, 1, True), publish("small", b"1", 1, 2, True))
    theatre.pass_s(2.0)
    assert [packet.packet_id for packet in writer.take()] == [1, 2]
    reader = theatre[3].client("reader")
    reader.subscribe(("#", 0))
    theatre.pass_s(1.0)
    assert [len(spot.node.retained.table("")) for spot in theatre.spots] == [2, 2, 2]
    theatre[2].replace_disk()
    theatre[2].host.start()
    assert theatre[2].join() == ""
    theatre.whole()
    assert len(theatre[2].node.retained.table("")) == 2


def test_hundreds_of_retained_messages_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are more than a frame takes; each is acknowledged, and each is at every node."""
    monkeypatch.setattr(cluster_host, "Settings", lambda: SMALL_FRAMES)
    theatre = ClusterHarness(3)
    writer = theatre[1].client("writer", receive_maximum=200)
    writer.send(*[publish(f"kept/{number}", bytes(30_000), 1, number, True) for number in range(1, 141)])
    theatre.pass_s(2.0)
    assert len(writer.take()) == 140
    for spot in theatre.spots:
        assert len(spot.node.retained.table("")) == 140
