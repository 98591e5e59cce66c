"""The contract of a transport: gRPC with data connections (asyncio and uvloop), gRPC alone, and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import uvloop

from strogoff.cluster.transport.grpc_wire import GrpcTransport
from strogoff.cluster.transport.memory_asyncio import AsyncioMemoryTransport, memory_network
from strogoff.cluster.transport.wire import CallFailed, Refused, Stamps, Transport, TransportError, Unproven, Wire
from tests.harness.loop_errors import collect_loop_errors
from tests.harness.waiting import until

from .wire_server import Recorder, WireServer

Body = Callable[["TransportPair"], Awaitable[None]]


class TransportPair:
    """Two nodes: `there` serves, `here` dials. A `stranger` has another cookie."""

    def __init__(self, here: Transport, there: Transport, stranger: Transport, host: str) -> None:
        self.here = here
        self.there = there
        self.stranger = stranger
        self.any = f"{host}:0"
        self.place = WireServer(there)

    async def joined(self, hello: bytes = b"me") -> tuple[Recorder, Recorder]:
        """One open stream: the recorders of its two ends."""
        if not self.place.address:
            await self.place.open(self.any)
        mine = Recorder()
        self.here.dial(self.place.address, hello, mine)
        await mine.until("opened")
        return mine, await self.place.comes(len(self.place.accepted) or 1)


@pytest.fixture(params=["memory", "grpc", "grpc-uvloop", "grpc-alone"])
def run(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Runs a test body on a transport, and checks that no task is left and the loop has no error."""
    kind = request.param

    def run(body: Body) -> None:
        complaints: list[dict[str, Any]] = []

        async def main() -> None:
            collect_loop_errors(complaints)
            here: Transport
            there: Transport
            stranger: Transport
            if kind == "memory":
                network = memory_network(dial_s=0.5)
                here, there = AsyncioMemoryTransport(network, "here"), AsyncioMemoryTransport(network, "there")
                stranger = AsyncioMemoryTransport(network, "stranger", "guessed")
            else:
                port = None if kind == "grpc-alone" else 0
                # the test does not measure a busy machine
                here, there = GrpcTransport(dial_s=10, data_port=port), GrpcTransport(dial_s=10, data_port=port)
                stranger = GrpcTransport(dial_s=10, cookie="guessed")
            two = TransportPair(here, there, stranger, "there" if kind == "memory" else "127.0.0.1")
            try:
                async with asyncio.timeout(20):
                    await body(two)
            finally:
                for each in (here, there, stranger):
                    await each.close()
            if left := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(left, timeout=5)  # gRPC ends its own tasks after the last call is over
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert [str(context.get("exception")) for context in complaints] == getattr(two, "complaints", [])

        factory = uvloop.new_event_loop if kind.endswith("uvloop") else None
        with asyncio.Runner(loop_factory=factory, debug=True) as runner:
            runner.run(main())

    return run


def test_hello_welcome_frames_both_ways(run: Callable[[Body], None]) -> None:
    """The welcome is first, also before frames that the acceptor sent while it accepted; frames are
    whole and in order.
    """

    async def body(two: TransportPair) -> None:
        two.place.early = b"early"
        mine, theirs = await two.joined()
        frames = [bytes([number % 256]) * (number * 7 % 5000) for number in range(300)]
        assert mine.wire is not None and theirs.wire is not None
        for frame in frames:
            mine.wire.send(frame)
            theirs.wire.send(frame)
        assert await theirs.until("received", 300) == frames
        assert await mine.until("received", 301) == [b"early", *frames]
        assert mine.seen[0] == ("opened", b"welcome to me")
        assert theirs.all("opened") == []
        assert mine.wire.peer and theirs.wire.peer

    run(body)


def test_drained_tells_when_the_next_frame_may_be_sent(run: Callable[[Body], None]) -> None:
    """Frames given during a write are queued; `drained` is called when all are sent, never within `send`."""

    async def body(two: TransportPair) -> None:
        mine, theirs = await two.joined()
        assert mine.wire is not None
        mine.wire.send(b"a" * 1000)
        mine.wire.send(b"b" * 1000)
        assert mine.wire.queued_bytes == 2000 and mine.all("drained") == []
        await mine.until("drained")
        assert mine.wire.queued_bytes == 0
        mine.wire.send(b"c")
        await mine.until("drained", 2)
        assert [len(frame) for frame in await theirs.until("received", 3)] == [1000, 1000, 1]

    run(body)


def _is_empty(wire: Wire) -> bool:
    return wire.queued_bytes == 0


def test_data_and_urgent_frames_use_separate_ways(run: Callable[[Body], None]) -> None:
    """Each of the two ways keeps its order, and tells when its next frame may be sent."""

    async def body(two: TransportPair) -> None:
        early = [b"", b"early data", bytes(100_000)]
        two.place.early_data = early
        mine, theirs = await two.joined()
        assert await mine.until("received", 3) == early
        mine.seen.clear()
        assert mine.wire is not None and theirs.wire is not None
        urgent = [b"urgent %d" % number for number in range(100)]
        data = [bytes([number]) * (number * 701) for number in range(100)]
        for one, other in zip(urgent, data, strict=True):
            for wire in (mine.wire, theirs.wire):
                wire.send_data(other)
                wire.send(one)
        for end in (mine, theirs):
            came = await end.until("received", 200)
            assert [frame for frame in came if frame.startswith(b"urgent")] == urgent
            assert [frame for frame in came if not frame.startswith(b"urgent")] == data
            await end.until("drained")
            await end.until("data_drained")
            assert end.wire is not None
            await until(partial(_is_empty, end.wire))  # the peer may have a frame before this end knows it

    run(body)


def test_a_large_frame(run: Callable[[Body], None]) -> None:
    """48 MiB arrive whole."""

    async def body(two: TransportPair) -> None:
        mine, theirs = await two.joined()
        assert mine.wire is not None
        mine.wire.send(b"x" * (48 << 20))
        (frame,) = await theirs.until("received")
        assert len(frame) == 48 << 20

    run(body)


def test_refused(run: Callable[[Body], None]) -> None:
    """The dialer gets the reason, and nothing else happens."""

    async def body(two: TransportPair) -> None:
        await two.place.open(two.any)
        mine = Recorder()
        two.here.dial(two.place.address, b"no", mine)
        await mine.until("closed")
        assert mine.seen == [("closed", "not a member of this cluster")]
        assert two.place.accepted == []

    run(body)


def test_an_address_without_a_listener(run: Callable[[Body], None]) -> None:
    """A dial to an address without a listener ends with a reason; so does a call."""

    async def body(two: TransportPair) -> None:
        address = await two.place.open(two.any)
        await two.there.close()
        mine = Recorder()
        two.here.dial(address, b"me", mine)
        (reason,) = await mine.until("closed")
        assert "connect" in reason
        with pytest.raises(CallFailed, match="connect"):
            await two.here.call(address, "join", b"", 5)

    run(body)


@pytest.mark.parametrize("closer", ["dialer", "acceptor"])
def test_close(run: Callable[[Body], None], closer: str) -> None:
    """The other end is told, the own end gets no more events, and later sends have no effect."""

    async def body(two: TransportPair) -> None:
        mine, theirs = await two.joined()
        closing, other = (mine, theirs) if closer == "dialer" else (theirs, mine)
        assert closing.wire is not None
        closing.wire.close("enough of this")
        before = list(closing.seen)
        closing.wire.send(b"too late")
        closing.wire.close("again")
        (reason,) = await other.until("closed")
        if closer == "acceptor":
            assert reason == "enough of this"
        again, _ = await two.joined(b"again")
        assert again.seen == [("opened", b"welcome to again")]
        assert closing.seen == before
        assert other.all("received") == [] and other.all("closed") == [reason]

    run(body)


def test_cancel_a_dial(run: Callable[[Body], None]) -> None:
    """No event follows, whether the dial was cancelled at once or when the wire was open."""

    async def body(two: TransportPair) -> None:
        await two.place.open(two.any)
        at_once = Recorder()
        two.here.dial(two.place.address, b"at once", at_once).cancel()
        opened = Recorder()
        dialing = two.here.dial(two.place.address, b"opened", opened)
        await opened.until("opened")
        theirs = two.place.accepted[-1]
        dialing.cancel()
        await theirs.until("closed")
        assert at_once.seen == []
        assert opened.seen == [("opened", b"welcome to opened")]

    run(body)


def test_the_transport_ends(run: Callable[[Body], None]) -> None:
    """Closing a transport closes the other ends of its wires, dialled and accepted, without events of its own."""

    async def body(two: TransportPair) -> None:
        mine, theirs = await two.joined()
        other = WireServer(two.here)
        await other.open(two.any)
        dialled = Recorder()
        two.there.dial(other.address, b"back", dialled)
        await dialled.until("opened")
        await two.there.close()
        await mine.until("closed")
        await (await other.comes()).until("closed")
        assert theirs.all("closed") == [] and dialled.all("closed") == []

    run(body)


def test_an_error_in_the_receiver(run: Callable[[Body], None]) -> None:
    """The error closes that wire, tells both ends, and is reported to the loop; other wires continue."""

    async def body(two: TransportPair) -> None:
        two.complaints = ["boom"]  # type: ignore[attr-defined]
        mine, theirs = await two.joined()
        other, _ = await two.joined(b"other")

        def explode(_wire: Any, _frame: bytes) -> None:
            raise ZeroDivisionError("boom")

        theirs._on_frame = explode
        assert mine.wire is not None and other.wire is not None
        mine.wire.send(b"x")
        assert "boom" in (await mine.until("closed"))[0]
        assert "boom" in (await theirs.until("closed"))[0]
        other.wire.send(b"y")
        assert await two.place.accepted[1].until("received") == [b"y"]

    run(body)


def test_calls(run: Callable[[Body], None]) -> None:
    """An answer, a refusal, no handler, no answer in time."""

    async def body(two: TransportPair) -> None:
        never = asyncio.Event()

        async def calls(method: str, request: bytes) -> bytes:
            if method == "refuse":
                raise CallFailed("this node has sessions of its own")
            if method == "hang":
                await never.wait()
            return method.encode() + b":" + request

        address = await two.place.open(two.any, calls)
        assert await two.here.call(address, "join", b"\x00x", 5) == b"join:\x00x"
        with pytest.raises(CallFailed, match=r"^this node has sessions of its own$"):
            await two.here.call(address, "refuse", b"", 5)
        with pytest.raises(CallFailed, match=r"no answer from .* in 0.3 s"):
            await two.here.call(address, "hang", b"", 0.3)
        deaf = await WireServer(two.here).open(two.any)
        with pytest.raises(CallFailed, match="answers no calls"):
            await two.there.call(deaf, "join", b"", 5)

    run(body)


def test_a_dialer_with_another_cookie(run: Callable[[Body], None]) -> None:
    """It gets neither stream nor answer, but a hint; its hello and its call are not read."""

    async def body(two: TransportPair) -> None:
        asked: list[str] = []

        async def calls(method: str, request: bytes) -> bytes:
            asked.append(method)
            return b"settings"

        address = await two.place.open(two.any, calls)
        mine = Recorder()
        two.stranger.dial(address, b"me", mine)
        (reason,) = await mine.until("closed")
        assert "set the same distributed_cookie on all nodes" in reason
        with pytest.raises(Unproven, match="set the same distributed_cookie on all nodes"):
            await two.stranger.call(address, "settings", b"", 5)
        assert (two.place.accepted, asked, mine.all("opened")) == ([], [], [])
        assert await two.here.call(address, "settings", b"", 5) == b"settings"

    run(body)


def test_an_acceptor_with_another_cookie(run: Callable[[Body], None]) -> None:
    """The dialer sends it neither its hello nor its call."""

    async def body(two: TransportPair) -> None:
        heard: list[bytes] = []

        def accept(hello: bytes, wire: Wire) -> Refused:
            heard.append(hello)
            return Refused("[old copy] stop for good")

        async def calls(method: str, request: bytes) -> bytes:
            heard.append(request)
            return b"yes"

        address = await two.stranger.serve(two.any.replace("there", "stranger"), accept, calls)
        mine = Recorder()
        two.here.dial(address, b"me", mine)
        (reason,) = await mine.until("closed")
        assert "set the same distributed_cookie on all nodes" in reason
        assert not reason.startswith("[")
        with pytest.raises(Unproven):
            await two.here.call(address, "join", b"my disk", 5)
        assert heard == []

    run(body)


def test_an_address_in_use(run: Callable[[Body], None]) -> None:
    """The error names the address."""

    async def body(two: TransportPair) -> None:
        address = await two.place.open(two.any)
        with pytest.raises(TransportError, match=f"cannot listen on {address}"):
            await WireServer(two.here).open(address)

    run(body)


def test_many_at_once(run: Callable[[Body], None]) -> None:
    """Twenty streams in both directions between the same two nodes do not mix."""

    async def body(two: TransportPair) -> None:
        await two.place.open(two.any)
        mine = [Recorder() for _ in range(20)]
        for number, recorder in enumerate(mine):
            two.here.dial(two.place.address, b"%d" % number, recorder)
        for number, recorder in enumerate(mine):
            assert await recorder.until("opened") == [b"welcome to %d" % number]
            assert recorder.wire is not None
            recorder.wire.send(b"frame of %d" % number)
        received = sorted([(await recorder.until("received"))[0] for recorder in two.place.accepted])
        assert received == sorted(b"frame of %d" % number for number in range(20))

    run(body)


class Clock:
    """A log at each end: its last stamp, and the stamps that came."""

    def __init__(self, stamp: int) -> None:
        self.last = stamp
        self.came: list[int] = []

    @property
    def stamps(self) -> Stamps:
        return Stamps(lambda: self.last, self.came.append)


def test_calls_and_answers_carry_stamps(run: Callable[[Body], None]) -> None:
    """The stamp of a call is that of its begin at the latest. The stamp of an answer is that of the end of its work,
    and it is known before the answer. A refusal is an answer, too."""

    async def body(two: TransportPair) -> None:
        here, there = Clock(5), Clock(7 << 50)
        two.here.use_stamps(here.stamps)
        two.there.use_stamps(there.stamps)

        async def answer(method: str, request: bytes) -> bytes:
            assert there.came[-1] == here.last
            there.last += 1
            if method == "refuse":
                raise CallFailed("no")
            return b"yes"

        address = await two.place.open(two.any, answer)
        assert await two.here.call(address, "join", b"", 5) == b"yes"
        assert there.came == [5] and here.came == [(7 << 50) + 1]
        here.last = 6
        with pytest.raises(CallFailed, match="no"):
            await two.here.call(address, "refuse", b"", 5)
        assert there.came == [5, 6] and here.came[-1] == (7 << 50) + 2

    run(body)


def test_hello_and_welcome_carry_stamps(run: Callable[[Body], None]) -> None:
    """They are known before the hello is accepted, and before the dialer hears of the welcome or of the refusal."""

    async def body(two: TransportPair) -> None:
        here, there = Clock(5), Clock(7)
        two.here.use_stamps(here.stamps)
        two.there.use_stamps(there.stamps)
        await two.joined()
        assert there.came == [5] and here.came == [7]
        here.last, there.last = 6, 8
        refused = Recorder()
        two.here.dial(two.place.address, b"no", refused)
        await refused.until("closed")
        assert there.came == [5, 6] and here.came == [7, 8]

    run(body)


def test_a_stranger_has_no_stamp(run: Callable[[Body], None]) -> None:
    async def body(two: TransportPair) -> None:
        stranger, there = Clock(5), Clock(7)
        two.stranger.use_stamps(stranger.stamps)
        two.there.use_stamps(there.stamps)

        async def answer(method: str, request: bytes) -> bytes:
            return b""

        address = await two.place.open(two.any, answer)
        with pytest.raises(CallFailed):
            await two.stranger.call(address, "join", b"", 5)
        assert there.came == [] and not any(stranger.came)

    run(body)
