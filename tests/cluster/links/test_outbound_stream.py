"""The outbound stream to a peer: dialling, backoff, and peers with invalid answers."""

from __future__ import annotations

import pytest

from strogoff.cluster.links.frames import Frame, encode_frame
from strogoff.cluster.links.hello import NEWEST, PeerInfo, Welcome, encode_welcome
from strogoff.cluster.links.links import Lane
from strogoff.cluster.links.settings import LinkSettings
from strogoff.cluster.transport.memory_wire import MemoryTransport
from strogoff.cluster.transport.wire import Accepted, Wire

from .link_harness import LinkHarness, join


class Impostor:
    """A listener at `b:1883` with arbitrary answers."""

    def __init__(self, world: LinkHarness, welcome: bytes, frame: bytes = b"") -> None:
        self.welcome = welcome
        self.frame = frame
        self.reasons: list[str] = []
        MemoryTransport(world.network, "b").listen("b:1883", self.accept)

    def accept(self, hello: bytes, wire: Wire) -> Accepted:
        if self.frame:
            wire.send(self.frame)
        return Accepted(self.welcome, self)

    def opened(self, wire: Wire, welcome: bytes) -> None:
        raise AssertionError

    def received(self, frame: bytes) -> None:
        pass

    def drained(self) -> None:
        pass

    def data_drained(self) -> None:
        pass

    def closed(self, reason: str) -> None:
        self.reasons.append(reason)


def welcome(node: str = "b", version: int = NEWEST, publish: int = 0) -> bytes:
    return encode_welcome(Welcome(PeerInfo(node, 1, "d", "p", "cluster", "b:1883"), version, {Lane.PUBLISH: publish}))


@pytest.mark.parametrize(
    ("answer", "frame", "text"),
    [
        (b"junk", b"", "welcome of 4 bytes"),
        (welcome("c"), b"", "at b:1883 is c, not b"),
        (welcome(version=NEWEST + 1), b"", "of the protocol"),
        (welcome(publish=50), b"", "lane 2: the peer has 50, of 1 that this process made"),
        (welcome(), b"\xff", "malformed frame from b"),
        (welcome(), encode_frame(Frame(acks=[(2, 9)])), "lane 2: 9 acknowledged"),
        (welcome(), encode_frame(Frame(early=[(2, [9])])), "lane 2: 9 acknowledged"),
        (welcome(), encode_frame(Frame(resumes=[(2, 9)])), "lane 2: asked for 9"),
        (welcome(), encode_frame(Frame(holds=[(7, 1)])), "there is no lane 7"),
        (welcome(), encode_frame(Frame(acks=[(7, 1)])), "there is no lane 7"),
        (welcome(), encode_frame(Frame(windows=[(7, 1)])), "there is no lane 7"),
    ],
)
def test_an_invalid_answer_closes_the_stream(answer: bytes, frame: bytes, text: str) -> None:
    """Both ends get the reason, waiting items stay, and the dialling continues."""
    world = LinkHarness()
    impostor = Impostor(world, answer, frame)
    a = world.node("a")
    a.links.send("b", Lane.PUBLISH, b"kept")
    a.links.set_peers({"b": "b:1883"})
    world.loop.run_for(5)
    assert any(text in reason for reason in impostor.reasons), impostor.reasons
    assert any(text in line for line in a.logs) and len(a.logs) < 12
    assert a.links.waiting_items("b", Lane.PUBLISH) == 1
    assert a.links.traffic.dials > 4


def test_the_dialer_backs_off() -> None:
    """From 100 ms to 300 ms, with a random part of up to half."""
    world = LinkHarness()
    a = world.node("a")
    a.links.set_peers({"b": "b:1883"})
    world.loop.run_for(60)
    assert 180 <= a.links.traffic.dials <= 420
    assert len(a.logs) == 1 and "nobody listens there" in a.logs[0]
    b = world.node("b")
    world.loop.run_for(1.01)
    assert a.links.up("b") and not b.links.up("a")


def test_a_new_address_is_dialled_at_once() -> None:
    """The old stream is closed, the new address dialled at once."""
    world = LinkHarness()
    a, b = world.pair()
    b.transport.listen("b:2", b.links.accept)
    a.links.set_peers({"b": "b:2"})
    assert not a.links.up("b")
    world.loop.run_for(0.01)
    assert a.links.up("b") and a.links.traffic.dials == 2


def test_datagrams_have_a_bound() -> None:
    """Datagrams that a stuck stream does not take are dropped and counted; the rest is dropped with the stream."""
    world = LinkHarness()
    a, _ = world.pair()
    size = 1 << 20
    sent = [a.links.datagram("b", 1, bytes(size)) for _ in range(70)]
    assert sent.count(True) == 64 and a.links.traffic.datagrams_dropped == 6
    world.network.drop("a", "b")
    world.loop.settle()
    assert not a.links.datagram("b", 1, b"") and not a.links.datagram("nobody", 1, b"")


def test_a_datagram_above_the_bound_is_sent_if_there_is_room_before_it() -> None:
    """A snapshot of the log has some kilobytes, whatever the bound."""
    world = LinkHarness(settings=LinkSettings(buffer_bytes=1000))
    a, b = world.pair()
    assert [a.links.datagram("b", 1, bytes(size)) for size in (100, 4000, 1)] == [True, True, False]
    world.loop.run_for(0.1)
    assert len(b.all("datagram")) == 2


def test_a_removed_peer_is_not_dialled() -> None:
    """The stream ends and is not dialled again; waiting items are kept for the next time."""
    world = LinkHarness()
    a, b = world.pair()
    a.links.set_peers({})
    seq = a.links.send("b", Lane.PUBLISH, b"kept")
    world.loop.run_for(5)
    assert not a.links.up("b") and a.all("down") == [("b", "not a peer any more")]
    join(a, b)
    world.loop.run_for(0.1)
    assert b.items(Lane.PUBLISH) == [b"kept"] and seq == 1
