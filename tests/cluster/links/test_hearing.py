"""Which peers are heard: frames of idle streams, confirmations on another stream, and silence."""

from __future__ import annotations

from collections.abc import Callable

from strogoff.cluster.transport.wire import Wire

from .link_harness import LinkHarness, Node


def test_heartbeats_and_silence() -> None:
    """The dialer of an idle stream sends every 250 ms or a little more, and confirms that it hears the other's stream;
    the acceptor sends nothing. A stream that is cut is down within two seconds, and is opened again.
    """
    world = LinkHarness()
    a, b = world.pair()
    world.loop.run_for(10)
    frames = a.links.traffic.frames_out - 4  # the numbers of the tunnel, and the answers to the peer's
    assert 10 / 0.3 <= frames <= 10 / 0.24
    heard = b.links.heard_ms("a")
    assert heard is not None and world.loop.now_s * 1000 - heard < 400
    world.network.cut("a", "b")
    world.loop.run_for(2.0)
    assert not a.links.up("b") and not b.links.up("a")
    assert "silent" in str(a.all("down")[0][1])
    world.network.heal()
    world.loop.run_for(3.5)
    assert a.links.up("b") and b.links.up("a")


def test_heartbeats_carry_stamps() -> None:
    """Those of a dialer, and those of an acceptor without a stream back."""
    world = LinkHarness()
    a, b = world.node("a"), world.node("b")
    a.links.set_peers({"b": "b:1883"})
    world.loop.run_for(2)
    a.stamp, b.stamp = 5, 7
    world.loop.run_for(2)
    assert a.observed[-1] == 7 and b.observed[-1] == 5


def test_an_acceptor_without_a_stream_back_sends_empty_frames() -> None:
    """Only a dials: empty frames of b keep its stream up."""
    world = LinkHarness()
    a, b = world.node("a"), world.node("b")
    a.links.set_peers({"b": "b:1883"})
    world.loop.run_for(10)
    assert a.links.up("b") and a.all("down") == [] and a.links.traffic.dials == 1
    assert 10 / 0.6 <= b.links.traffic.frames_out <= 10 / 0.44


def test_a_peer_that_sends_no_confirmations_gets_empty_frames() -> None:
    """Such a peer does not read confirmations either: b confirms on the stream of a, twice a second."""
    world = LinkHarness()
    a, b = world.pair()
    other = world.node("other")
    other.links.set_peers({"b": "nowhere:1"})
    a.links._in["b"]._link = other.links._out["b"]
    frames = a.links.traffic.frames_out, b.links.traffic.frames_out
    world.loop.run_for(10)
    said = [node.links.traffic.frames_out - before for node, before in zip((a, b), frames, strict=True)]
    assert min(said) >= 10 / 0.3 + 10 / 0.6
    assert a.all("down") == b.all("down") == []


class Swallowing:
    """A wire that accepts frames and loses them."""

    def __init__(self, node: Node, wire: Wire, done: Callable[[], None]) -> None:
        self.node = node
        self.wire = wire
        self.done = done

    @property
    def peer(self) -> str:
        return self.wire.peer

    @property
    def queued_bytes(self) -> int:
        return 0

    def send(self, frame: bytes) -> None:
        self.node.world.loop.call_soon(self.done)

    def send_data(self, frame: bytes) -> None:
        self.wire.send_data(frame)

    def close(self, reason: str) -> None:
        self.wire.close(reason)


def test_a_stream_survives_the_stream_with_its_confirmations() -> None:
    """The frames on the stream of a are lost, and so are the confirmations in them: then a confirms
    on the stream of b.
    """
    world = LinkHarness()
    a, b = world.pair()
    link = a.links._out["b"]
    assert link._wire is not None
    link._wire = Swallowing(a, link._wire, link.drained)
    world.loop.run_for(10)
    assert "silent" in str(a.all("down")[0][1]) and a.links.up("b")
    assert b.all("down") == [] and b.links.up("a")


def test_a_member_ticks_the_links_in_its_own_turns() -> None:
    """Then the links need no turn of their own."""
    world = LinkHarness()
    a, b = world.pair()
    ticks, tick = 0, a.links.tick

    def ticked() -> None:
        nonlocal ticks
        ticks += 1
        tick()

    a.links.tick = ticked  # type: ignore[method-assign]
    tick()  # the next turn belongs to the timer, or to the test
    for _ in range(20):
        world.loop.run_for(0.2)
        tick()
    assert ticks == 0 and a.links.up("b") and b.links.up("a")
    world.loop.run_for(0.4)
    assert ticks == 1


def test_a_stuck_loop_does_not_count_as_silence_of_peers() -> None:
    """After its own pause of 5 s a node first reads the frames that arrived meanwhile."""
    world = LinkHarness()
    a, b = world.pair()
    world.loop.run_for(1)
    ups = len(a.all("up"))
    link = a.links._out["b"]
    link._heard_ms -= 5000
    a.links._ticked_ms -= 5000
    world.loop.run_for(3)
    assert a.links.up("b") and len(a.all("up")) == ups and b.links.up("a")
