"""Transports with faults: the same over memory and over gRPC, with the behaviour of TCP."""

from __future__ import annotations

import asyncio

import pytest

from strogoff.cluster.links.hello import PeerInfo, encode_hello
from strogoff.cluster.transport.wire import Accepted, CallFailed, Dialing, Refused, Transport, Wire
from strogoff.testing.faults.fault_gate import FaultGate
from strogoff.testing.runtime.idle import IdleDetector
from strogoff.testing.runtime.node_links import Links, NodeLinks

from ..run_loop import run

HELLO = encode_hello(PeerInfo("a", 1, "disk", "process", "cluster", "127.0.0.1:0"))
BOTH = pytest.mark.parametrize("kind", ["memory", "grpc"])


class End:
    """The events of one end, which a test can wait for."""

    def __init__(self) -> None:
        self.wire: Wire | None = None
        self.frames: asyncio.Queue[bytes] = asyncio.Queue()
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.open = asyncio.Event()

    def opened(self, wire: Wire, welcome: bytes) -> None:
        assert welcome == b"welcome"
        self.wire = wire
        self.open.set()

    def received(self, frame: bytes) -> None:
        self.frames.put_nowait(frame)

    def drained(self) -> None:
        """Ignored."""

    def data_drained(self) -> None:
        """Ignored."""

    def closed(self, reason: str) -> None:
        self.ended.set_result(reason)

    def send(self, frame: bytes) -> None:
        assert self.wire is not None
        self.wire.send(frame)

    async def frame(self) -> bytes:
        async with asyncio.timeout(5):
            return await self.frames.get()

    async def reason(self) -> str:
        async with asyncio.timeout(5):
            return await self.ended


class Pair:
    """Two nodes; node 1 listens."""

    def __init__(self, kind: Links, pace: float = 20.0) -> None:
        self.node_links = NodeLinks(kind, ["a", "b"], pace)
        self.network_faults = self.node_links.network_faults
        self.gates = [FaultGate(lambda link, origin: None, lambda c: None, IdleDetector(), []) for _ in "ab"]  # type: ignore[arg-type, return-value]
        self.nodes: list[Transport] = [
            self.node_links.transport(number, gate) for number, gate in enumerate(self.gates)
        ]
        self.far: list[End] = []

    async def __aenter__(self) -> Pair:
        async def answer(method: str, request: bytes) -> bytes:
            return method.encode() + request

        self.address = await self.nodes[1].serve(self.node_links.address(1), self.accept, answer)
        return self

    async def __aexit__(self, *raised: object) -> None:
        for node in self.nodes:
            await node.close()
        self.node_links.release()
        assert self.network_faults.ends == {}

    def accept(self, hello: bytes, wire: Wire) -> Accepted | Refused:
        if hello == b"go away":
            return Refused("not wanted")
        end = End()
        end.wire = wire
        self.far.append(end)
        return Accepted(b"welcome", end)

    def dial(self, hello: bytes = HELLO) -> tuple[End, Dialing]:
        end = End()
        return end, self.nodes[0].dial(self.address, hello, end)

    async def open(self) -> tuple[End, End]:
        end, _ = self.dial()
        async with asyncio.timeout(5):
            await end.open.wait()
        assert (1, 0) in [each.nodes for each in self.network_faults.ends]
        return end, self.far[-1]


@BOTH
def test_without_faults_all_passes(kind: Links) -> None:
    """Streams, refusals, calls and ends."""

    async def test() -> None:
        async with Pair(kind) as pair:
            near, far = await pair.open()
            near.send(b"there")
            assert await far.frame() == b"there"
            far.send(b"back")
            assert await near.frame() == b"back"
            assert near.wire is not None and near.wire.queued_bytes >= 0 and near.wire.peer
            refused, _ = pair.dial(b"go away")
            assert await refused.reason() == "not wanted"
            assert await pair.nodes[0].call(pair.address, "m", b"1", 5) == b"m1"
            near.wire.close("enough")
            assert await far.reason()

    run(test())


@BOTH
def test_data_sent_during_a_cut_arrives_late(kind: Links) -> None:
    """It arrives if the cut heals in time; the other direction works."""

    async def test() -> None:
        async with Pair(kind, pace=1) as pair:
            near, far = await pair.open()
            pair.network_faults.cut(0, 1)
            for frame in (b"1", b"2"):
                near.send(frame)
            far.send(b"back")
            assert await near.frame() == b"back" and far.frames.empty()
            assert near.wire is not None and near.wire.queued_bytes >= 2
            assert pair.network_faults.heal() == [(0, 1)]
            assert [await far.frame(), await far.frame()] == [b"1", b"2"]

    run(test())


@BOTH
def test_a_cut_is_noticed(kind: Links) -> None:
    """Both ends close; dials and calls get no answer until the cut heals."""

    async def test() -> None:
        async with Pair(kind) as pair:
            near, far = await pair.open()
            pair.network_faults.cut(1, 0)
            assert await near.reason() == await far.reason() == "the peer does not answer"
            again, _ = pair.dial()
            assert await again.reason() == "no answer to the dial"
            with pytest.raises(CallFailed, match="no answer from"):
                await pair.nodes[0].call(pair.address, "m", b"", 0.01)
            pair.network_faults.heal()
            near, far = await pair.open()
            near.send(b"x")
            assert await far.frame() == b"x"

    run(test())


@BOTH
def test_a_close_does_not_pass_a_cut(kind: Links) -> None:
    """The other end is told after the cut; a cancelled dial causes no event."""

    async def test() -> None:
        async with Pair(kind, pace=1) as pair:
            near, far = await pair.open()
            pair.network_faults.cut(0, 1)
            assert near.wire is not None
            near.wire.close("bye")
            far.send(b"lost")
            silent, dialing = pair.dial()
            dialing.cancel()
            assert not far.ended.done()
            pair.network_faults.heal()
            await far.reason()
            assert near.frames.empty() and not near.ended.done() and not silent.ended.done()

    run(test())


@BOTH
def test_a_suspended_node(kind: Links) -> None:
    """Data for it arrives when the node continues, in order; dials meanwhile get no answer."""

    async def test() -> None:
        async with Pair(kind) as pair:
            near, far = await pair.open()
            pair.gates[1].freeze()
            pair.network_faults.paused[1] = None
            near.send(b"1")
            call = asyncio.create_task(pair.nodes[0].inner.call(pair.address, "m", b"", 5))  # type: ignore[attr-defined]
            other, _ = pair.dial()
            assert await other.reason() == "no answer to the dial"
            assert far.frames.empty() and not call.done()
            del pair.network_faults.paused[1]
            pair.gates[1].thaw()
            assert await far.frame() == b"1" and await call == b"m"

    run(test())
