"""The tunnel: order, rank, bounds, and what both ends learn when a stream breaks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strogoff.cluster.links.links import Lane, LinkSettings
from strogoff.cluster.links.tunnel import MAX_ITEM, Tunnel, Unused

from .link_harness import LinkHarness, Node, join


class Owner(Unused):
    """Records the events of the tunnels of one process."""

    def __init__(self, node: Node) -> None:
        self.said: list[tuple[str, ...]] = []
        self.taken: list[bytes] = []
        self.on_room: Callable[[str], None] | None = None
        node.links.tunnel_events = self

    def tunnel_opened(self, node: str) -> None:
        self.said.append(("opened", node))

    def tunnel_broken(self, node: str, reason: str) -> None:
        self.said.append(("broken", node))

    def tunnelled(self, node: str, payload: bytes) -> None:
        self.taken.append(payload)

    def tunnel_room(self, node: str) -> None:
        self.said.append(("room", node))
        if self.on_room is not None:
            self.on_room(node)


def pair(settings: LinkSettings | None = None) -> tuple[LinkHarness, Node, Node, Owner, Owner]:
    world = LinkHarness(settings=settings)
    a, b = world.node("a"), world.node("b")
    mine, other = Owner(a), Owner(b)
    join(a, b)
    world.loop.run_for(0.1)
    return world, a, b, mine, other


def test_items_arrive_in_order_without_acknowledgements() -> None:
    world, a, b, mine, other = pair()
    assert mine.said == [("opened", "b")] and other.said == [("opened", "a")]
    assert a.links.tunnel_open("b") and not a.links.tunnel_open("c")
    items = [b"%d" % number for number in range(100)]
    assert all(a.links.tunnel("b", item) for item in items)
    world.loop.run_for(0.1)
    assert other.taken == items and mine.taken == [] and a.all("acked") == []
    assert b.links.tunnel("a", b"back")
    world.loop.run_for(0.1)
    assert mine.taken == [b"back"]


def test_the_tunnel_needs_the_streams_of_both_ends() -> None:
    """The own stream alone carries items, but the peer could not answer."""
    world = LinkHarness()
    a, b = world.node("a"), world.node("b")
    mine, other = Owner(a), Owner(b)
    a.links.set_peers({"b": "b:1883"})
    world.loop.run_for(0.1)
    assert a.links.up("b") and not a.links.tunnel_open("b") and not a.links.tunnel("b", b"x")
    b.links.set_peers({"a": "a:1883"})
    world.loop.run_for(0.1)
    assert a.links.tunnel("b", b"y")
    world.loop.run_for(0.1)
    assert other.taken == [b"y"] and mine.said == [("opened", "b")]


@pytest.mark.parametrize("cut", [["a", "b"], ["b", "a"]])
def test_when_either_stream_breaks_both_ends_are_told(cut: list[str]) -> None:
    world, a, b, mine, other = pair()
    nodes = {"a": a, "b": b}
    a.links.tunnel("b", b"kept")
    world.loop.settle()
    world.network.cut("a", "b")
    a.links.tunnel("b", b"lost")
    nodes[cut[0]].links._out[cut[1]].stop("a test")
    world.loop.run_for(10)
    assert mine.said[-1] == ("broken", "b") and other.said[-1] == ("broken", "a")
    assert not a.links.tunnel("b", b"dropped")
    world.network.heal("a", "b")
    a.links._out["b"]._dial()
    b.links._out["a"]._dial()
    world.loop.run_for(5)
    a.links.tunnel("b", b"later")
    world.loop.run_for(0.1)
    assert other.taken == [b"kept", b"later"]
    assert mine.said == [("opened", "b"), ("broken", "b"), ("opened", "b")]


def test_a_restarted_peer_breaks_the_tunnel() -> None:
    world, a, b, mine, _ = pair()
    a.links.tunnel("b", b"for the former process")
    b.crash()
    again = world.node("b", 2, b.disk)
    fresh = Owner(again)
    join(again, a)
    world.loop.run_for(5)
    assert mine.said == [("opened", "b"), ("broken", "b"), ("opened", "b")]
    assert fresh.taken == [] and fresh.said == [("opened", "a")]


def test_items_of_all_lanes_go_first() -> None:
    """A full tunnel holds up nothing: each frame has the items of the lanes, then a part of the tunnel."""
    world, a, b, _, other = pair(LinkSettings(gather_bytes=4000, flight_units=64))
    world.network.delay("a", "b", 0.01)
    for _ in range(100):
        a.links.tunnel("b", bytes(2000))
    order: list[int] = []
    b.on_deliver = lambda node, lane, seq, payload: order.append(len(other.taken))
    world.loop.run_for(0.005)
    a.links.send("b", Lane.PUBLISH, b"urgent")
    world.loop.run_for(5)
    assert len(other.taken) == 100 and order[0] < 10


def test_a_full_tunnel_tells_its_owner_when_it_has_room() -> None:
    world, a, _, mine, other = pair(LinkSettings(tunnel_bytes=10_000, gather_bytes=4000, flight_units=64))
    sent = 0
    while not a.links.tunnel_full("b"):
        a.links.tunnel("b", bytes(1000))
        sent += 1
    assert sent == 10 and ("room", "b") not in mine.said
    world.loop.run_for(1)
    assert mine.said.count(("room", "b")) == 1 and len(other.taken) == 10 and not a.links.tunnel_full("b")


def test_a_tunnel_above_the_limit_breaks_and_begins_again() -> None:
    """The streams stay: only the users of the tunnel lose what was in it, and both ends are told."""
    settings = LinkSettings(buffer_bytes=20_000, tunnel_bytes=2000, gather_bytes=4000, flight_units=64)
    world, a, b, mine, other = pair(settings)
    world.network.delay("a", "b", 0.01)
    sent = 0
    while a.links.tunnel("b", bytes(1000)):
        sent += 1
    assert sent == 19 and not a.links.tunnel("b", b"x")
    world.loop.run_for(1)
    assert len(other.taken) < 10 and a.all("down") == [] and b.all("down") == []
    assert mine.said == [("opened", "b"), ("broken", "b"), ("opened", "b")]
    assert other.said == [("opened", "a"), ("broken", "a"), ("opened", "a")]
    assert a.links.tunnel("b", b"again")
    world.loop.run_for(1)
    assert other.taken[-1] == b"again"


def test_a_small_buffer_for_publishes_does_not_break_the_tunnel() -> None:
    """`outgoing_clustering_buffer_size` may be smaller than what one client has to get."""
    world, a, _, mine, other = pair(LinkSettings(buffer_bytes=4096))
    assert [a.links.tunnel("b", bytes(16_000)) for _ in range(20)] == [True] * 20
    assert a.links.tunnel_full("b")
    world.loop.run_for(1)
    assert mine.said == [("opened", "b"), ("room", "b")] and len(other.taken) == 20


def test_sizes_of_items() -> None:
    _, a, _, _, _ = pair()
    assert a.links.tunnel("b", bytes(MAX_ITEM))
    for wrong in (b"", bytes(MAX_ITEM + 1)):
        with pytest.raises(ValueError, match="allowed"):
            a.links.tunnel("b", wrong)


def test_an_item_that_arrives_before_the_tunnel_is_open_is_dropped() -> None:
    owner = Owner(LinkHarness().node("a"))
    tunnel = Tunnel("b", lambda: owner, LinkSettings(), lambda function: None)
    tunnel.received(b"")
    tunnel.received(b"early")
    assert owner.taken == [] and owner.said == []
    tunnel.begin()
    tunnel.received(b"in time")
    assert owner.taken == [b"in time"] and owner.said == [("opened", "b")]
    tunnel.end("a test")
    tunnel.received(b"late")
    assert owner.taken == [b"in time"]
