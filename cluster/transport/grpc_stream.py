"""One end of a gRPC stream as a `Wire`: a task that reads, a task that writes, and the events for the owner.

Data frames use a separate connection (`data_stream`) once that is attached, else gRPC. The dialer decides: its first
message names the choice, and until then the acceptor keeps its data frames.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import grpc  # type: ignore[import-untyped]

from .data_stream import DataStream
from .wire import WireEvents

BESIDE, OVER_GRPC = b"\1", b"\0"
"""The dialer's first message: both ends send data over a separate connection, or over gRPC."""

_LAST_WORD_S = 0.1


class GrpcWire:
    """Implements `Wire`. `read` and `write` are those of the gRPC stream; `run` ends when the wire has closed."""

    def __init__(
        self,
        peer: str,
        read: Callable[[], Awaitable[Any]],
        write: Callable[[bytes], Awaitable[None]],
        events: WireEvents | None = None,
    ) -> None:
        self.peer = peer
        self.events = events
        self._read = read
        self._write = write
        self._queue: deque[bytes] = deque()
        self._data_queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._data: DataStream | None = None
        self._chosen = True
        self._wake: asyncio.Future[None] | None = None
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._silent = False
        self._tasks: list[asyncio.Task[None]] = []

    def send(self, frame: bytes) -> None:
        """Implements `Wire.send`."""
        if self._end.done():
            return
        self._queue.append(frame)
        self._queue_bytes += len(frame)
        self._write_on()

    def send_data(self, frame: bytes) -> None:
        """Implements `Wire.send_data`."""
        if self._end.done():
            return
        if self._data is not None:
            self._data.send(frame)
            return
        self._data_queue.append(frame)
        self._queue_bytes += len(frame)
        if self._chosen:
            self._write_on()

    def _write_on(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    @property
    def queued_bytes(self) -> int:
        """Implements `Wire.queued_bytes`."""
        return self._queue_bytes + (self._data.queued_bytes if self._data is not None else 0)

    def await_choice(self) -> None:
        """Keep data frames until the dialer has chosen the connection for them."""
        self._chosen = False

    def attach(self, data: DataStream) -> None:
        """Use this connection for data frames from now on, and send those that wait."""
        if self._end.done():
            data.abort()
            return
        self._data = data
        data.received = self._data_received
        data.drained = self._data_drained
        data.lost = self._data_lost
        while self._data_queue:
            frame = self._data_queue.popleft()
            self._queue_bytes -= len(frame)
            data.send(frame)
        data.release()

    def _choose(self, choice: bytes) -> None:
        """The dialer has chosen the connection for data frames: use it, or close the wire if it is lost."""
        self._chosen = True
        if choice == OVER_GRPC and self._data is None:
            self._write_on()
        elif choice != BESIDE or self._data is None:
            self._finish("the data connection is lost: the other end does not use it")

    def _data_received(self, frame: bytes) -> None:
        assert self.events is not None
        self._tell(partial(self.events.received, frame))

    def _data_lost(self, reason: str) -> None:
        """The data connection is lost: close the wire a moment later. If the other end has closed the wire, gRPC
        delivers its reason first."""
        asyncio.get_running_loop().call_later(_LAST_WORD_S, self._finish, reason)

    def _data_drained(self) -> None:
        assert self.events is not None
        self._tell(self.events.data_drained)

    def close(self, reason: str) -> None:
        """Implements `Wire.close`."""
        self._silent = True
        self._finish(reason)

    def start(self, first: Sequence[bytes] = ()) -> None:
        """Begin to read and write. The messages in `first` are written before all frames."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._reading()), loop.create_task(self._writing(first))]

    async def run(self) -> str:
        """Wait for the end of the wire and return the reason. Reports it unless the owner closed the wire."""
        try:
            return await asyncio.shield(self._end)
        except asyncio.CancelledError:
            # gRPC cancels a handler whose stream is gone; the transport cancels its own when it is closed.
            self._finish("the connection is lost, or the other end has ended it")
            raise
        finally:
            for task in self._tasks:
                task.cancel()
            # Before the wait: gRPC may cancel the handler of an ended stream during it.
            if not self._silent and self.events is not None:
                self.events.closed(self._end.result())
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _finish(self, reason: str) -> None:
        if not self._end.done():
            self._end.set_result(reason)
            self._queue.clear()
            self._data_queue.clear()
            self._queue_bytes = 0
            if self._data is not None:
                self._data.abort()

    async def _reading(self) -> None:
        read, events = self._read, self.events
        assert events is not None
        while True:
            try:
                frame = await read()
            except Exception as error:
                self._finish(_ended_by(error))
                return
            if frame is grpc.aio.EOF:
                self._finish("the other end has ended the stream")
            if self._end.done():
                return
            if not self._chosen:
                self._choose(frame)
                continue
            if not self._tell(partial(events.received, frame)):
                return

    async def _writing(self, first: Sequence[bytes]) -> None:
        queue, events = self._queue, self.events
        assert events is not None
        loop = asyncio.get_running_loop()
        for message in first:
            if not await self._written(message):
                return
        while not self._end.done():
            if not queue and not (self._chosen and self._data_queue):
                self._wake = loop.create_future()
                await self._wake
            if not await self._write_queue(queue, events.drained):
                return
            if self._chosen and self._data_queue and not await self._write_next_data(events):
                return

    async def _write_queue(self, queue: deque[bytes], drained: Callable[[], None]) -> bool:
        """Write the urgent frames, then call `drained`. Returns False if the wire has ended."""
        if not queue:
            return True
        while queue:
            if not await self._write_first(queue):
                return False
        return self._tell(drained)

    async def _write_next_data(self, events: WireEvents) -> bool:
        """Write one frame of data; urgent frames go before the next one."""
        if not await self._write_first(self._data_queue):
            return False
        return bool(self._data_queue) or self._tell(events.data_drained)

    async def _write_first(self, queue: deque[bytes]) -> bool:
        frame = queue.popleft()
        if not await self._written(frame):
            return False
        self._queue_bytes = max(0, self._queue_bytes - len(frame))
        return not self._end.done()

    def _tell(self, event: Callable[[], None]) -> bool:
        try:
            event()
        except Exception as error:
            self._report(error)
        return not self._end.done()

    async def _written(self, frame: bytes) -> bool:
        try:
            await self._write(frame)
        except Exception as error:
            # The stream has ended. Let the reader run: it gets the reason.
            await asyncio.wait([self._tasks[0]], timeout=_LAST_WORD_S)
            self._finish(_ended_by(error))
            return False
        return True

    def _report(self, error: Exception) -> None:
        """The owner raised an error: report it to the loop, and end this wire."""
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"wire to {self.peer} closed by an error", "exception": error}
        )
        self._finish(f"error at the other end: {error!r}")


def _ended_by(error: Exception) -> str:
    """Returns the reason in an error that gRPC raises from a read or a write; on its server side it has no status."""
    if isinstance(error, grpc.aio.AioRpcError):
        return reason_of(error.code(), error.details())
    return f"the stream has ended: {type(error).__name__}"


def reason_of(code: Any, details: str | None) -> str:
    """Returns the reason in a gRPC status: the text of the other node, or gRPC's own text with the name of its code."""
    if code in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ABORTED) and details:
        return details
    return f"{code.name}: {details}" if details else str(code.name)
