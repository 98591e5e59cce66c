"""The client's end of a connection: packets in, packets out, no decisions."""

from __future__ import annotations

from random import Random

import pytest

from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.host import Host
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.engine.peer import Peer, connect_packet


@pytest.fixture
def host() -> Host:
    """A node that runs."""
    loop = VirtualLoop()
    host = Host(loop, lambda _: SimDisk(Random(0), loop.call_later, lambda: loop.now_s, "sync", (0.0, 0.0)))
    host.start()
    return host


@pytest.mark.parametrize("version", [3, 4, 5])
def test_packets_both_ways(host: Host, version: int) -> None:
    """Packets in one piece are answered; `take` empties the list."""
    peer = Peer(host, version)
    peer.send(connect_packet("c", version), packets.Pingreq())
    host.loop.settle()
    connack, ping = peer.take()
    assert (connack.reason, ping) == (0, packets.Pingresp())
    assert peer.take() == []


def test_raw_bytes(host: Host) -> None:
    """Raw bytes are for packets that no encoder makes; they may be split anywhere."""
    peer = Peer(host)
    frame = encode(connect_packet("c"), 4)
    assert frame is not None
    peer.send(frame[:5])
    peer.send(frame[5:], packets.Pingreq(), b"\xf0\x00")
    host.loop.settle()
    assert len(peer.take()) == 2 and peer.closed


def test_ports(host: Host) -> None:
    """With `on_packet` no packets gather; `on_closed` is called once; a closed peer gets no more packets."""
    peer = Peer(host)
    heard: list[object] = []
    peer.on_packet = heard.append
    peer.on_closed = lambda: heard.append("closed")
    peer.send(connect_packet("c"), packets.Disconnect())
    host.loop.settle()
    assert len(heard) == 2 and heard[1] == "closed" and peer.received == []
    quick = Peer(host)
    quick.on_packet = lambda packet: quick.close()
    quick.on_closed = lambda: heard.append("never")
    quick.send(connect_packet("q"), packets.Pingreq())
    host.loop.settle()
    assert heard[-1] == "closed" and quick.closed


def test_close_and_break(host: Host) -> None:
    """`close`: bytes that were sent still arrive. `break_off`: they are lost."""
    for how, there in (("close", True), ("break_off", False)):
        peer = Peer(host, delay_s=(0.5, 0.5))
        peer.send(connect_packet(how, clean=False))
        getattr(peer, how)()
        host.loop.run_for(5)
        assert host.node is not None
        assert (host.node.sessions.get("", how) is not None) is there
        assert peer.closed and peer.take() == []


def test_a_connection_is_refused_while_no_node_runs(host: Host) -> None:
    """ConnectionRefusedError while the process is not there, or stops."""
    host.kill()
    with pytest.raises(ConnectionRefusedError):
        Peer(host)
    host.start()
    host.stop(lambda: None)
    with pytest.raises(ConnectionRefusedError):
        Peer(host)


def test_a_packet_for_no_client_is_an_error(host: Host) -> None:
    """The peer's decoder is strict: bytes that break the protocol fail the test that caused them."""
    peer = Peer(host)
    peer.pipe.write(encode(packets.Pingreq(), 4) or b"")
    with pytest.raises(AssertionError, match="break the protocol"):
        host.loop.settle()


def test_connect_packet() -> None:
    """Keep alive is 0 unless given."""
    packet = connect_packet("c", 5, False, keepalive_s=9, username="u")
    assert packet == packets.Connect("c", 5, False, 9, "u")
    assert connect_packet("c").keepalive_s == 0
