"""Frames over a data connection: turns, and the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from strogoff.cluster.transport.data_stream import TURN_S, DataStream


class Pair:
    """Both ends of one connection."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.reasons: list[str] = []
        self.turns: list[int] = []
        self.came = asyncio.Event()

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        made: asyncio.Future[DataStream] = loop.create_future()
        self.server = await loop.create_server(lambda: DataStream(made.set_result), "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        _, self.near = await loop.create_connection(DataStream, "127.0.0.1", port)
        self.far = await made
        self.near.open_up()
        self.far.open_up()
        self.far.received = self._received
        self.far.lost = self._lost

    def _received(self, frame: bytes) -> None:
        self.frames.append(frame)
        self.came.set()

    def _lost(self, reason: str) -> None:
        self.reasons.append(reason)
        self.came.set()

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not done():
                self.came.clear()
                await self.came.wait()

    def close(self) -> None:
        self.near.abort()
        self.far.abort()
        self.server.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[Pair], Awaitable[None]]], None]:
    def run(body: Callable[[Pair], Awaitable[None]]) -> None:
        async def main() -> None:
            pair = Pair()
            await pair.open()
            try:
                await body(pair)
            finally:
                pair.close()
                await pair.server.wait_closed()

        factory = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())

    return run


Run = Callable[[Callable[[Pair], Awaitable[None]]], None]


def test_large_amounts_of_data_are_delivered_in_turns(run: Run) -> None:
    """Frames are delivered for `TURN_S`, and one frame more. Then other work runs."""

    async def body(pair: Pair) -> None:
        loop, most, before = asyncio.get_running_loop(), 0, 0

        def turn() -> None:
            nonlocal most, before
            most, before = max(most, len(pair.frames) - before), len(pair.frames)
            if before < 100:
                loop.call_soon(turn)

        loop.call_soon(turn)
        slow_s = TURN_S / 5

        def handle(frame: bytes) -> None:
            until = time.monotonic() + slow_s
            while time.monotonic() < until:
                pass
            pair._received(frame)

        pair.far.received = handle
        for _ in range(100):
            pair.near.send(bytes(1024))
        await pair.until(lambda: len(pair.frames) == 100)
        assert 0 < most <= 12, "six for each turn; the turn of this test may come first or last"

    run(body)


def test_no_frame_is_delivered_while_the_stream_is_held(run: Run) -> None:
    async def body(pair: Pair) -> None:
        def received(frame: bytes) -> None:
            pair._received(frame)
            pair.far.hold()

        pair.far.received = received
        for number in range(3):
            pair.near.send(b"%d" % number)
        for count in (1, 2, 3):
            await pair.until(lambda count=count: len(pair.frames) >= count)  # type: ignore[misc]
            assert pair.frames == [b"0", b"1", b"2"][:count]
            pair.far.release()

    run(body)


def test_drained_is_called_later_and_only_when_all_is_sent(run: Run) -> None:
    async def body(pair: Pair) -> None:
        drained = asyncio.Event()
        queued: list[int] = []

        def note() -> None:
            queued.append(pair.near.queued_bytes)
            drained.set()

        pair.near.drained = note
        pair.near.send(bytes(8 << 20))
        assert queued == []
        async with asyncio.timeout(10):
            await drained.wait()
        assert queued[0] == 0
        await pair.until(lambda: len(pair.frames) == 1)

    run(body)


def test_only_the_other_end_is_told_of_an_abort(run: Run) -> None:
    async def body(pair: Pair) -> None:
        lost: list[str] = []
        pair.near.lost = lost.append
        pair.near.abort()
        pair.near.send(b"too late")
        await pair.until(lambda: bool(pair.reasons))
        assert "the data connection is lost" in pair.reasons[0]
        assert lost == [] and pair.frames == [] and pair.near.queued_bytes == 0

    run(body)
