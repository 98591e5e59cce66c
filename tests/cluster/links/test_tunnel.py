"""The tunnel: order, rank, bounds, and what both ends learn when a stream breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from strogoff.cluster.links.links import Lane, LinkSettings
from strogoff.cluster.links.tunnel import MAX_ITEM, NUMBERS, Tunnel, Unused
from tests.harness.thinning import thinned

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


class Alone:
    """One end of a tunnel without streams. `said` returns the numbers that it has to say."""

    def __init__(self) -> None:
        self.owner = Owner(LinkHarness().node("a"))
        self.tunnel = Tunnel("b", lambda: self.owner, LinkSettings(), lambda function: function())

    def said(self) -> list[tuple[int, ...]]:
        return [NUMBERS.unpack(item) for item in self.tunnel.take(1 << 20) if len(item) == NUMBERS.size]

    def hear(self, theirs: int, echo: int) -> None:
        self.tunnel.received(b"")
        self.tunnel.received(NUMBERS.pack(theirs, echo))


def test_an_item_that_arrives_before_the_tunnel_is_open_is_dropped() -> None:
    end = Alone()
    end.hear(1, 0)
    end.tunnel.received(b"early")
    assert end.owner.taken == [] and end.owner.said == [] and end.said() == []
    end.tunnel.begin()
    assert end.said() == [(1, 1)]
    end.tunnel.received(b"for an earlier process of this node")
    end.hear(1, 1)
    end.tunnel.received(b"in time")
    assert end.owner.taken == [b"in time"] and end.owner.said == [("opened", "b")] and end.said() == []
    end.tunnel.end("a test")
    end.tunnel.received(b"late")
    assert end.owner.taken == [b"in time"]


def test_what_the_peer_sent_before_it_knew_of_the_break_is_dropped() -> None:
    """Only the stream to the peer has broken; the stream from the peer survives, with items on their way."""
    end = Alone()
    end.tunnel.begin()
    end.hear(7, 1)
    assert end.said() == [(1, 0), (1, 7)] and end.tunnel.open
    end.tunnel.end("a test")
    end.tunnel.begin()
    assert end.said() == [(2, 7)] and not end.tunnel.open
    end.tunnel.received(b"of the former tunnel")
    end.hear(8, 1)  # the peer has noticed the end of that stream, but not heard of the new one
    end.tunnel.received(b"also")
    assert end.said() == [(2, 8)] and not end.tunnel.open and end.owner.taken == []
    end.hear(8, 2)
    end.tunnel.received(b"of this one")
    assert end.owner.taken == [b"of this one"] and end.said() == []
    assert end.owner.said == [("opened", "b"), ("broken", "b"), ("opened", "b")]


@pytest.mark.parametrize("numbers", [(8, 1), (7, 2), (8, 2)])
def test_other_numbers_of_the_peer_break_an_open_tunnel(numbers: tuple[int, int]) -> None:
    end = Alone()
    end.tunnel.begin()
    end.hear(7, 1)
    end.hear(7, 1)
    assert end.owner.said == [("opened", "b")]
    end.tunnel.send(b"waits")
    end.hear(*numbers)
    assert end.owner.said[1] == ("broken", "b") and end.tunnel.open is (numbers[1] == 1)
    assert b"waits" not in end.tunnel._items and end.said() == [(1, numbers[0])]


def test_half_a_beginning_does_no_harm() -> None:
    end = Alone()
    end.tunnel.begin()
    end.tunnel.received(b"")
    end.tunnel.received(b"garbage")
    end.tunnel.received(b"")
    end.tunnel.peer_ended("a test")
    end.tunnel.received(b"")
    end.hear(1, 2)
    assert end.tunnel.open


class Stream:
    """A stream between two ends: what is on its way, and whether each end believes that it is open."""

    def __init__(self, sender: Alone, receiver: Alone) -> None:
        self.sender, self.receiver = sender, receiver
        self.items: list[bytes] = []
        self.sends = self.receives = False

    def open(self) -> None:
        """The sender has a new stream, which takes the place of a former one at the receiver."""
        self.items, self.sends, self.receives = [], True, True
        self.sender.tunnel.begin()

    def carry(self) -> None:
        if self.sends:
            self.items += self.sender.tunnel.take(40)

    def deliver(self) -> None:
        if self.items and self.receives:
            self.receiver.tunnel.received(self.items.pop(0))

    def lose(self) -> None:
        """The sender notices that the stream is broken; what is on its way still arrives."""
        if self.sends:
            self.sends = False
            self.sender.tunnel.end("lost")

    def notice(self) -> None:
        """The receiver notices it."""
        if self.receives:
            self.receives = False
            self.items = []
            self.receiver.tunnel.peer_ended("lost")


@pytest.mark.parametrize("seed", thinned(range(300), 3))
def test_a_tunnel_has_the_items_of_one_beginning(seed: int) -> None:
    """Between `opened` and `broken` an end gets items of one tunnel of the peer, from the first on, in order. At last
    both tunnels are open.
    """
    rng = Random(seed)
    ends = [Alone(), Alone()]
    streams = [Stream(ends[0], ends[1]), Stream(ends[1], ends[0])]
    taken: list[list[list[bytes]]] = [[], []]
    sent: Counter[tuple[int, int]] = Counter()
    for end, found in zip(ends, taken, strict=True):
        owner = end.owner
        owner.tunnel_opened = lambda node, found=found: found.append([])  # type: ignore[method-assign, misc]
        owner.tunnelled = lambda node, item, found=found: found[-1].append(item)  # type: ignore[method-assign, misc]
    for _ in range(rng.randrange(10, 300)):
        which = rng.randrange(2)
        stream, end = streams[which], ends[which]
        what = rng.choices(("open", "lose", "notice", "send", "carry", "deliver", "again"), (3, 1, 1, 9, 9, 30, 1))[0]
        if what == "open" and not stream.sends:
            stream.open()
        elif what == "send" and end.tunnel.send(b"%d/%d" % (len(taken[which]), sent[which, len(taken[which])])):
            sent[which, len(taken[which])] += 1
        elif what == "again":
            end.tunnel._begin_again()
        elif what in ("lose", "notice", "carry", "deliver"):
            getattr(stream, what)()
    for stream in streams:
        if stream.sends and not stream.receives:
            stream.lose()  # the receiver has closed it
        if not stream.sends:
            stream.open()
    for _ in range(400):
        for stream in streams:
            stream.carry()
            stream.deliver()
    assert [end.tunnel.open for end in ends] == [True, True]
    for found in taken:
        groups = [[item.partition(b"/")[0] for item in items] for items in found if items]
        assert all(len(set(group)) == 1 for group in groups), found
        assert len({group[0] for group in groups}) == len(groups), "the items of one tunnel arrived in two"
        numbers = [[int(item.partition(b"/")[2]) for item in items] for items in found]
        assert all(each == list(range(len(each))) for each in numbers), found
