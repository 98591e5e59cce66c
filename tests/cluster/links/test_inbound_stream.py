"""A stream from a peer: the accepted process, and refused frames."""

from __future__ import annotations

import pytest

from strogoff.cluster.links.frames import Frame, Run, encode_frame
from strogoff.cluster.links.hello import PeerInfo, encode_hello
from strogoff.cluster.links.links import Lane, LinkSettings
from strogoff.cluster.transport.memory_wire import MemoryTransport
from strogoff.cluster.transport.wire import Wire

from .link_harness import LinkHarness, Node


class Stranger:
    """A peer that sends arbitrary bytes."""

    def __init__(
        self, world: LinkHarness, boot: int = 1, process: str = "p", disk: str = "d", hello: bytes = b""
    ) -> None:
        self.wire: Wire | None = None
        self.frames: list[bytes] = []
        self.reason: str | None = None
        hello = hello or encode_hello(PeerInfo("x", boot, disk, process, "cluster", "x:1"))
        MemoryTransport(world.network, "x").dial("a:1883", hello, self)
        world.loop.settle()

    def opened(self, wire: Wire, welcome: bytes) -> None:
        self.wire = wire

    def received(self, frame: bytes) -> None:
        self.frames.append(frame)

    def drained(self) -> None:
        pass

    def data_drained(self) -> None:
        pass

    def closed(self, reason: str) -> None:
        self.reason = reason

    def say(self, world: LinkHarness, frame: bytes) -> None:
        assert self.wire is not None
        self.wire.send(frame)
        world.loop.settle()


@pytest.fixture
def scene() -> tuple[LinkHarness, Node]:
    world = LinkHarness()
    return world, world.node("a")


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b"\xff\xff", "malformed frame from x: frame of 2 bytes"),
        (encode_frame(Frame(runs=[Run(9, 1, 0, [b"1"])])), "malformed frame from x: there is no lane 9"),
        (encode_frame(Frame(runs=[Run(2, 2, 0, [b"2"])])), "malformed frame from x: lane 2: a run from 2 after 0"),
    ],
)
def test_an_invalid_frame_closes_the_stream(scene: tuple[LinkHarness, Node], frame: bytes, text: str) -> None:
    """Both ends get the reason; nothing is delivered."""
    world, a = scene
    stranger = Stranger(world)
    stranger.say(world, frame)
    assert stranger.reason is not None and text in stranger.reason
    assert any(text in line for line in a.logs)
    assert a.all("item") == []


def test_items_before_a_gap_are_delivered(scene: tuple[LinkHarness, Node]) -> None:
    """One frame has a good run, then a gap."""
    world, a = scene
    stranger = Stranger(world)
    stranger.say(world, encode_frame(Frame(runs=[Run(2, 1, 0, [b"1"]), Run(2, 3, 0, [b"3"])])))
    assert a.items(Lane.PUBLISH) == [b"1"] and stranger.reason is not None


def test_a_newer_stream_replaces_the_older(scene: tuple[LinkHarness, Node]) -> None:
    """The old stream is closed, and its later frames are ignored."""
    world, a = scene
    old = Stranger(world)
    new = Stranger(world)
    assert old.reason == "a newer stream has taken its place"
    old.say(world, encode_frame(Frame(runs=[Run(2, 1, 0, [b"late"])])))
    new.say(world, encode_frame(Frame(runs=[Run(2, 1, 0, [b"1"])])))
    assert a.items(Lane.PUBLISH) == [b"1"]


def test_an_older_boot_is_refused(scene: tuple[LinkHarness, Node]) -> None:
    world, _ = scene
    Stranger(world, boot=5, process="new")
    late = Stranger(world, boot=4, process="old")
    assert late.reason == "[old copy] x was started again since: boot 5 is known, this is 4"


def test_two_processes_with_one_boot(scene: tuple[LinkHarness, Node]) -> None:
    """A copied data directory: item numbers of the two processes would be confused."""
    world, _ = scene
    Stranger(world, process="one")
    assert Stranger(world, process="two").reason == "[old copy] boot 1 of x belongs to another process"
    assert Stranger(world, process="three", disk="another").reason is None


def test_a_malformed_hello_is_refused(scene: tuple[LinkHarness, Node]) -> None:
    world, a = scene
    assert "hello of 4 bytes" in (Stranger(world, hello=b"junk").reason or "")
    assert any("hello of 4 bytes" in line for line in a.logs)


def test_a_node_refuses_a_stream_from_itself(scene: tuple[LinkHarness, Node]) -> None:
    world, _ = scene
    hello = encode_hello(PeerInfo("a", 1, "d", "p", "cluster", "x:1"))
    assert Stranger(world, hello=hello).reason == "a is the name of this node itself"


def test_a_silent_dialer_is_dropped(scene: tuple[LinkHarness, Node]) -> None:
    """After twice the time in which a dialer gives up."""
    world, a = scene
    stranger = Stranger(world)
    world.loop.run_for(4)
    assert stranger.reason is not None and "silent" in stranger.reason
    assert len(stranger.frames) > 5
    assert a.links.heard_ms("x") == 0


def test_an_item_is_sent_again_after_an_error_of_the_listener(scene: tuple[LinkHarness, Node]) -> None:
    """The error ends the stream, and the item is sent again on the next stream."""
    world, a = scene

    def explode(*_: object) -> None:
        a.on_deliver = None
        raise ZeroDivisionError

    a.on_deliver = explode
    stranger = Stranger(world)
    with pytest.raises(ZeroDivisionError):
        stranger.say(world, encode_frame(Frame(runs=[Run(2, 1, 0, [b"1"])])))
    world.loop.settle()
    assert "ZeroDivisionError" in (stranger.reason or "")
    Stranger(world).say(world, encode_frame(Frame(runs=[Run(2, 1, 0, [b"1"])])))
    assert [payload for *_, payload in a.disk.taken] == [b"1"]


def test_early_acknowledgements_are_told_again_only_for_items_that_come_again() -> None:
    """While one item waits for days, a receiver acknowledges all later ones early. It keeps a few ranges of their
    numbers, and a new stream repeats none of them, so its first frame stays small."""
    world = LinkHarness(settings=LinkSettings(max_frame_bytes=40_000))
    a, b = world.pair(commit_s=1e6)

    def send(count: int, *large: bytes) -> list[int]:
        seqs = [a.links.send("b", Lane.PUBLISH, payload) for payload in (*large, *[b""] * count)]
        world.loop.run_for(0.5)
        return seqs

    stuck = send(2)
    for _ in range(20):
        b.links.ack_early("a", Lane.PUBLISH, send(999), 1)
        world.loop.run_for(0.01)
    stuck += send(1)
    lost = send(2, bytes(50_000))
    b.links.ack_early("a", Lane.PUBLISH, lost, 1)
    world.network.drop("a", "b")
    sent, answered, dials = a.links.traffic.bytes_out, b.links.traffic.bytes_out, a.links.traffic.dials
    world.loop.run_for(3.0)
    assert a.links.waiting_items("b", Lane.PUBLISH) == len(stuck)
    assert a.links.traffic.bytes_out - sent < 60_000 and b.links.traffic.bytes_out - answered < 1000
    assert a.all("early")[20:] == [("b", Lane.PUBLISH, lost[:1]), ("b", Lane.PUBLISH, lost[1:])]
    assert a.links.traffic.dials == dials + 1
    told = b.links._in["a"]._told_early[Lane.PUBLISH]
    assert len(told._firsts) == 2
    b.links.ack("a", Lane.PUBLISH, stuck[-1], 1)
    world.loop.run_for(0.1)
    assert a.links.waiting_items("b", Lane.PUBLISH) == 0 and told.within(1, stuck[-1]) == []
