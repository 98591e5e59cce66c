"""A gRPC wire with a stream made of queues: ends of all kinds, and their reasons."""

from __future__ import annotations

import asyncio

import grpc  # type: ignore[import-untyped]
import pytest

from strogoff.cluster.transport.grpc_stream import GrpcWire, reason_of

from .wire_server import Recorder


class FakeCall:
    """The two methods of a stream that a wire uses; items in `incoming` are read, exceptions are raised."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[object] = asyncio.Queue()
        self.written: list[bytes] = []
        self.may_write = asyncio.Event()
        self.may_write.set()

    async def read(self) -> object:
        item = await self.incoming.get()
        if isinstance(item, Exception):
            raise item
        return item

    async def write(self, frame: bytes) -> None:
        await self.may_write.wait()
        self.written.append(frame)


def test_one_write_in_flight() -> None:
    """The next frame is written when the earlier one is accepted; `drained` follows after the last."""

    async def main() -> None:
        call, recorder = FakeCall(), Recorder()
        wire = GrpcWire("peer", call.read, call.write, recorder)
        call.may_write.clear()
        wire.start([b"welcome"])
        running = asyncio.ensure_future(wire.run())
        wire.send(b"one")
        wire.send(b"two")
        await asyncio.sleep(0)
        assert call.written == [] and wire.queued_bytes == 6
        call.may_write.set()
        await recorder.until("drained")
        assert call.written == [b"welcome", b"one", b"two"] and wire.queued_bytes == 0
        await call.incoming.put(grpc.aio.EOF)
        assert await running == "the other end has ended the stream"
        assert recorder.seen == [("drained",), ("closed", "the other end has ended the stream")]

    asyncio.run(main())


def test_the_end_is_told_although_the_handler_is_cancelled_meanwhile() -> None:
    """gRPC cancels the handler of a stream whose other end is gone, at any time after the end was read."""

    async def main() -> None:
        call, recorder = FakeCall(), Recorder()
        ending, may_end = asyncio.Event(), asyncio.Event()

        async def write(frame: bytes) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ending.set()
                await may_end.wait()

        wire = GrpcWire("peer", call.read, write, recorder)
        wire.start([b"welcome"])
        running = asyncio.ensure_future(wire.run())
        await call.incoming.put(grpc.aio.EOF)
        await ending.wait()  # `run` waits for the end of this write
        running.cancel()
        may_end.set()
        await asyncio.wait([running])
        assert running.cancelled() and recorder.seen == [("closed", "the other end has ended the stream")]

    asyncio.run(main())


def test_closing_a_wire_causes_no_event_here() -> None:
    """No event follows it, also if a frame was already there."""

    async def main() -> None:
        call, recorder = FakeCall(), Recorder()
        wire = GrpcWire("peer", call.read, call.write, recorder)
        wire.start()
        await call.incoming.put(b"frame")
        wire.close("done")
        wire.send(b"late")
        assert await wire.run() == "done"
        assert recorder.seen == [] and call.written == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("code", "details", "reason"),
    [
        (grpc.StatusCode.FAILED_PRECONDITION, "not a member", "not a member"),
        (grpc.StatusCode.ABORTED, "a newer stream", "a newer stream"),
        (grpc.StatusCode.UNAVAILABLE, "ping timeout", "UNAVAILABLE: ping timeout"),
        (grpc.StatusCode.CANCELLED, "", "CANCELLED"),
    ],
)
def test_reasons(code: grpc.StatusCode, details: str, reason: str) -> None:
    """The text of a node stands alone; an error of gRPC has the name of its code."""
    assert reason_of(code, details) == reason
