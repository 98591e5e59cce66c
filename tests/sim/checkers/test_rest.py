"""After the healing no operation waits, and no entry on disk lacks an owner."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from strogoff.sim.checkers.rest import check, left_behind, leftovers, pending
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.host import Host
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


class Apart:
    """Two nodes that do not reach each other, and a client that n1 serves, then n2; then it leaves n2 for good.

    `without` are the nodes without a lease when the client goes on to n2. A client that `closes` ends its connection
    with n1, and n1 does not notice that.
    """

    def __init__(self, *without: str, closes: bool = False, expiry_s: int | None = 0, goes: bool = True) -> None:
        self.loop, first, _ = make_host()
        disk = SimDisk(Random(2), self.loop.call_later, lambda: self.loop.now_s, "sync", (0.001, 0.001))
        self.hosts = [first, Host(self.loop, lambda _: disk, name="n2")]
        self.history = History(lambda: self.loop.now_s)
        for host in self.hosts:
            host.start()
        self.client = self.add("c", expiry_s)
        self.client.connect(expiry_s == 0)
        self.loop.run_for(1)
        self.enter(without, ViewState.MINORITY)
        if closes:
            pipe = self.client.lists[0].pipe
            assert pipe is not None
            pipe.pause_reading()  # so the node does not notice the end
            self.client.lose()
            self.client.host = self.hosts[1]
            self.client.connect(True)
        else:
            self.go_on()
        self.loop.run_for(1)
        self.enter(without, ViewState.WHOLE)
        if goes:
            self.client.abandon()
            self.loop.run_for(1)

    def add(self, name: str, expiry_s: int | None = 0) -> ModelClient:
        spec = replace(draw(0).clients[0], name=name, version=5, expiry_s=expiry_s, filters=(), will=None)
        return ModelClient(spec, self.hosts[0], self.history, Random(0), (0.0, 0.0), None)

    def enter(self, nodes: tuple[str, ...], state: ViewState) -> None:
        for name in nodes:
            self.history.views.note(name, self.loop.now_s, state)

    def go_on(self) -> None:
        """The client connects to n2, and its former connection stays open."""
        self.client.host = self.hosts[1]
        self.client.take_over()
        self.loop.run_for(1)

    def left(self, node: str = "n1") -> set[str]:
        return left_behind([self.client], node, self.history.views)


@pytest.mark.parametrize("without", [("n1",), ("n2",), ("n1", "n2")])
def test_a_client_that_left_another_node_while_the_nodes_were_apart(without: tuple[str, ...]) -> None:
    """3 nodes, copies, seed 1300706: n1 waits for its packets, and cannot know that it is gone."""
    assert Apart(*without).left() == {"c"}


def test_a_client_that_went_on_while_both_nodes_had_leases() -> None:
    """Then n1 was told to end the connection: it is a defect that the connection is there."""
    assert Apart().left() == set()


def test_a_client_that_has_closed_its_connection() -> None:
    assert Apart("n1", closes=True).left() == set()


def test_a_client_with_a_durable_session() -> None:
    """Its session is at the primary, and nowhere else."""
    assert Apart("n1", expiry_s=None).left() == set()


def test_a_client_that_is_still_there() -> None:
    """It is connected to the other node: this one is told when the nodes reach each other."""
    assert Apart("n1", goes=False).left() == set()


def test_a_client_that_went_on_once_more_while_both_nodes_had_leases() -> None:
    apart = Apart("n1", goes=False)
    apart.go_on()
    apart.client.abandon()
    assert apart.left() == set()


def test_a_client_whose_connection_the_node_has_ended() -> None:
    """Then it is a defect that its session is online."""
    apart = Apart("n1")
    pipe = apart.client.lists[0].pipe
    assert pipe is not None and apart.left() == {"c"}
    pipe.close()
    assert apart.left() == set()


def test_a_client_at_its_last_node_and_at_a_node_where_it_was_not() -> None:
    apart = Apart("n1", "n2")
    assert apart.left("n2") == apart.left("n3") == set()
    apart.client = apart.add("new")
    apart.client.abandon()
    assert apart.left() == set()


def test_a_node_may_wait_for_a_client_that_was_left_behind() -> None:
    loop, host, _ = make_host()
    node = host.start()
    client = Peer(host)
    client.send(connect_packet("c"), packets.Subscribe(1, [packets.SubscribeOptions("t", 2)]))
    client.send(packets.Publish("t", b"x", 2, packet_id=1))
    loop.run_for(1)
    assert pending(node, [], True) == ["connection of c: 1 unacknowledged", "queue of c: 0 waiting, 1 in flight"]
    assert pending(node, [], True, left={"c"}) == []
    assert len(pending(node, [], True, left={"d"})) == 2


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
    slot = next(key[1] for key in content if key[:1] == b"q")
    kept = {**without_body, b"h%c" % slot: b"kept"}
    assert list(leftovers(kept, {slot})) == []
    for judged, elsewhere in ((kept, {slot + 1}), (without_body, {slot}), ({**kept, b"jq": b""}, {slot})):
        assert len(list(leftovers(judged, elsewhere))) == 1
