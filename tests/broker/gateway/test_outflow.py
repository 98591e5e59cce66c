"""Bytes leave as far as credit and tunnel allow, in order, and GONE is the last."""

from __future__ import annotations

from strogoff.broker.gateway.credit import BASE_BYTES
from strogoff.broker.gateway.messages import DATA, FROM_PRIMARY, GONE, PIECE_BYTES, RETURNED, WANT, read
from strogoff.broker.gateway.outflow import Outflow

from .test_peer import FakeTunnel


class Flow:
    def __init__(self) -> None:
        self.tunnel = FakeTunnel()
        self.peer = self.tunnel.peer()
        self.free = 0
        self.out = Outflow(self.peer, 7, FROM_PRIMARY, self.count)

    def count(self) -> None:
        self.free += 1

    def freed(self) -> int:
        return self.free

    def sent(self) -> list[tuple[int, int]]:
        """Kind and value of the messages since the last call."""
        self.peer.flush()
        items, self.tunnel.items = self.tunnel.items, []
        return [(kind & ~FROM_PRIMARY, value) for item in items for kind, _, value, _ in read(item)]


def test_bytes_within_the_credit_leave_at_once() -> None:
    flow = Flow()
    flow.out.write(b"abc")
    assert flow.sent() == [(DATA, 3)] and not flow.out.stuck and flow.out.credit == BASE_BYTES - 3 and not flow.free


def test_without_credit_bytes_wait_and_more_is_asked_for_once() -> None:
    flow = Flow()
    flow.out.write(bytes(BASE_BYTES - 1))
    flow.out.write(bytes(10))
    flow.out.write(bytes(10))
    assert flow.sent() == [(DATA, BASE_BYTES - 1), (DATA, 1), (WANT, 9)]
    assert flow.out.stuck and flow.out.waiting == 19 and flow.freed() == 0
    flow.out.room(12)
    assert flow.sent() == [(DATA, 9), (DATA, 3), (WANT, 7)]
    flow.out.room(100)
    assert flow.sent() == [(DATA, 7)] and flow.freed() == 1 and not flow.out.stuck and flow.out.credit == 93


def test_large_writes_are_cut() -> None:
    flow = Flow()
    flow.out.credit = 100_000
    flow.out.write(bytes(40_000))
    assert flow.sent() == [(DATA, PIECE_BYTES), (DATA, PIECE_BYTES), (DATA, 40_000 - 2 * PIECE_BYTES)]
    assert not flow.out.stuck and flow.out.credit == 60_000


def test_a_full_tunnel_keeps_bytes_without_asking_for_credit() -> None:
    flow = Flow()
    flow.peer.full = True
    flow.out.write(b"abc")
    assert flow.out.stuck and flow.sent() == [] and [*flow.peer.blocked] == [flow.out]
    flow.peer.room()
    assert flow.sent() == [(DATA, 3)] and not flow.out.stuck


def test_gone_follows_the_last_bytes() -> None:
    flow = Flow()
    flow.out.credit = 2
    flow.out.write(b"abc")
    flow.out.end("closed")
    assert flow.sent() == [(DATA, 2), (WANT, 1)] and flow.freed() == 0
    flow.out.room(5)
    assert flow.sent() == [(DATA, 1), (GONE, 6)]
    assert flow.freed() == 1


def test_dropped_bytes_never_leave() -> None:
    flow = Flow()
    flow.peer.full = True
    flow.out.write(b"abc")
    flow.out.drop()
    flow.peer.room()
    assert flow.sent() == [] and flow.out.waiting == 0 and not flow.peer.blocked
    flow.out.end("x" * 1000)
    assert flow.sent() == [(GONE, 200)]


def test_unused_credit_goes_back_but_never_the_base() -> None:
    flow = Flow()
    flow.out.recall(1000)
    assert flow.sent() == []
    flow.out.room(5000)
    flow.out.recall(100_000)
    assert flow.sent() == [(RETURNED, 5000)] and flow.out.credit == BASE_BYTES
