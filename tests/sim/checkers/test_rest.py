"""After the healing no operation waits, and no entry on disk lacks an owner."""

from __future__ import annotations

from random import Random

from strogoff.mqtt import packets
from strogoff.sim.checkers.rest import check, leftovers, pending
from strogoff.sim.engine.peer import Peer, connect_packet
from strogoff.sim.history import History
from strogoff.sim.workload.client import ModelClient
from strogoff.sim.workload.swarm import draw

from ..histories import HistoryBuilder, make_host


def test_pending_waits_are_violations() -> None:
    case = HistoryBuilder().case()
    case.pending = ["the store"]
    assert list(check(case)) == ["not at rest: the store"]


def test_a_node_at_rest_and_one_that_waits() -> None:
    loop, host, disks = make_host()
    node = host.start()
    subscriber, publisher = Peer(host), Peer(host)
    subscriber.send(connect_packet("s", clean=False), packets.Subscribe(1, [packets.SubscribeOptions("t", 2)]))
    publisher.send(connect_packet("p", clean=False))
    loop.run_for(1)
    assert pending(node, [], True) == []
    publisher.send(packets.Publish("t", b"x", 2, packet_id=1))
    loop.run_for(1)
    assert pending(node, [], True) == [
        "connection of p: 1 unacknowledged",
        "queue of s: 0 waiting, 1 in flight",
    ]
    disks[0].stall_until = loop.now_s + 10
    publisher.send(packets.Publish("t", b"x", 1, packet_id=2))
    loop.run_for(1)
    assert any("1 answers wait" in text for text in pending(node, [], True))
    assert any(text.startswith("the store, serving") for text in pending(node, [], True))


def test_a_client_that_waits() -> None:
    loop, host, _ = make_host()
    history = History(lambda: loop.now_s)
    client = ModelClient(draw(0).clients[0], host, history, Random(0), (0.0, 0.0), None)
    node = host.start()
    loop.run_for(1)
    assert pending(node, [client], True) == ["watch is not connected"]
    client.connect(False)
    loop.run_for(1)
    client.receiver.held[7] = "w-1"
    assert pending(node, [client], True) == ["watch waits for PUBREL of [7]"]
    assert pending(node, [client], False) == []


def test_a_disk_with_and_without_owners() -> None:
    """Two queues share a payload; without their sessions the entries have no owner."""
    loop, host, disks = make_host()
    host.start()
    for name in ("s", "s226"):  # in one slot
        peer = Peer(host)
        peer.send(connect_packet(name, clean=False), packets.Subscribe(1, [packets.SubscribeOptions("t", 1)]))
        loop.run_for(1)
        peer.close()
    publisher = Peer(host)
    publisher.send(connect_packet("p"), packets.Publish("t", b"x" * 300, 1, packet_id=1))
    loop.run_for(1)
    content = disks[0].content()
    assert {key[:1] for key in content} >= {b"s", b"b", b"q", b"p", b"u"} and list(leftovers(content)) == []
    orphans = {key: value for key, value in content.items() if key[:1] != b"s"}
    assert len(list(leftovers(orphans))) == 4
    without_body = {key: value for key, value in content.items() if key[:1] != b"p"}
    assert [text.split(" b'")[0] for text in leftovers(without_body)] == ["on disk: the body"]
    one_entry = dict(content)
    del one_entry[next(key for key in one_entry if key[:1] == b"q")]
    assert "counts 2, 1 entries have it" in next(leftovers(one_entry))
    assert "garbage" in next(leftovers({b"jq": b""}))
    assert "without a count" in next(leftovers({b"px": b""}))
