"""The transport at the primary keeps the contract of `ClientTransport`."""

from __future__ import annotations

import pytest

from strogoff.broker.connection.transport import CLOSE_BOUND_S, ClientTransport
from strogoff.broker.gateway.credit import BASE_BYTES, Overrun
from strogoff.broker.gateway.messages import DATA, FROM_PRIMARY, GONE, OPENED, ROOM, read
from strogoff.broker.gateway.relayed_transport import RelayedTransport

from ...harness.broker import BrokerHarness
from .test_peer import FakeTunnel


class Port:
    def __init__(self) -> None:
        self.said: list[object] = []
        self.transport: RelayedTransport
        self.pauses = False

    def receive(self, data: bytes, /) -> None:
        self.said.append(data)
        if self.pauses:
            self.transport.pause_reading()

    def lost(self, reason: str, /) -> None:
        self.said.append(f"lost: {reason}")

    def writable(self, flag: bool, /) -> None:
        self.said.append(flag)


class Served:
    def __init__(self) -> None:
        self.broker = BrokerHarness()
        self.tunnel = FakeTunnel()
        self.peer = self.tunnel.peer()
        self.over: list[RelayedTransport] = []
        self.transport = RelayedTransport(self.broker.node.env, self.peer, 7, (1, 2), self.over.append)
        self.port = Port()
        self.port.transport = self.transport
        self.transport.hand_over(self.port)

    def sent(self) -> list[tuple[int, int]]:
        self.broker.settle()
        self.peer.flush()
        items, self.tunnel.items = self.tunnel.items, []
        return [(kind & ~FROM_PRIMARY, value) for item in items for kind, _, value, _ in read(item)]


def test_bytes_both_ways() -> None:
    served = Served()
    transport: ClientTransport = served.transport
    transport.write(b"abc")
    served.transport.received(b"in")
    transport.accepted()
    assert transport.watch_silence(1500)
    assert served.sent() == [(DATA, 3), (OPENED, 1500)] and served.port.said == [b"in"]


def test_no_credit_is_a_full_buffer() -> None:
    served = Served()
    served.transport.write(bytes(BASE_BYTES))
    assert served.port.said == []
    served.transport.write(b"x")
    served.transport.write(b"y")
    assert served.port.said == [False]
    served.transport.out.room(2)
    assert served.port.said == [False, True]


def test_paused_input_waits_within_the_window() -> None:
    served = Served()
    served.port.pauses = True
    for _ in range(3):
        served.transport.received(bytes(4096))
    assert len(served.port.said) == 1 and served.sent() == [(ROOM, 4096)]
    served.transport.resume_reading()
    served.transport.resume_reading()
    served.broker.settle()
    assert len(served.port.said) == 2
    with pytest.raises(Overrun):
        served.transport.received(bytes(BASE_BYTES))


@pytest.mark.parametrize("paused", [False, True])
def test_the_end_of_the_client_comes_behind_its_bytes(paused: bool) -> None:
    served = Served()
    if paused:
        served.transport.pause_reading()
    served.transport.received(b"last")
    assert not served.transport.gone_for
    served.transport.gone("peer_closed")
    assert served.transport.gone_for
    assert served.port.said == ([] if paused else [b"last", "lost: peer_closed"])
    served.transport.resume_reading()
    served.broker.settle()
    assert served.port.said == [b"last", "lost: peer_closed"] and served.over == [served.transport]
    served.transport.broken()
    assert len(served.port.said) == 2


def test_close_sends_what_is_written_then_gone() -> None:
    served = Served()
    served.transport.write(bytes(BASE_BYTES + 5))
    served.transport.close()
    served.transport.write(b"never")
    served.transport.received(b"never")
    assert (GONE, 6) not in served.sent() and served.over == []
    served.transport.out.room(5)
    assert served.sent() == [(DATA, 5), (GONE, 6)]
    assert served.port.said == [False, "lost: closed"] and served.over == [served.transport]


def test_close_is_bounded() -> None:
    served = Served()
    served.transport.write(bytes(BASE_BYTES + 5))
    served.transport.close()
    served.broker.pass_s(CLOSE_BOUND_S + 0.1)
    assert served.sent()[-1] == (GONE, 7) and served.port.said[-1] == "lost: closed"


def test_a_broken_tunnel_drops_what_waits() -> None:
    served = Served()
    served.transport.pause_reading()
    served.transport.received(b"unread")
    served.transport.broken()
    served.transport.resume_reading()
    served.broker.settle()
    assert served.port.said == ["lost: gateway_lost"] and served.sent() == []


@pytest.mark.parametrize("paused", [False, True])
def test_the_stop_of_the_gateway_is_not_that_of_this_node(paused: bool) -> None:
    served = Served()
    if paused:
        served.transport.pause_reading()
    served.transport.received(b"last")
    served.transport.gone("server_shutting_down")
    served.transport.resume_reading()
    served.broker.settle()
    assert served.port.said == [b"last", "lost: gateway_stopped"]


def test_a_tunnel_that_breaks_behind_gone_drops_nothing() -> None:
    served = Served()
    served.transport.pause_reading()
    served.transport.received(b"last")
    served.transport.gone("peer_closed")
    served.transport.broken()
    assert served.port.said == [] and served.over == []
    served.transport.resume_reading()
    served.broker.settle()
    assert served.port.said == [b"last", "lost: peer_closed"] and served.over == [served.transport]


def test_a_tunnel_that_breaks_behind_gone_ends_what_is_closed() -> None:
    """The answer waits for credit, which cannot come any more."""
    served = Served()
    served.transport.pause_reading()
    served.transport.received(b"last")
    served.transport.gone("peer_closed")
    served.transport.write(bytes(BASE_BYTES + 5))
    served.transport.close()
    assert served.over == []
    served.transport.broken()
    assert served.port.said == [False, "lost: gateway_lost"] and served.over == [served.transport]
