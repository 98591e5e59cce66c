"""One end of a gRPC stream as a `Wire`: a task that reads, a task that writes, and who hears of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import grpc  # type: ignore[import-untyped]

from .wire import WireEvents

_LAST_WORD_S = 0.1


class GrpcWire:
    """As `Wire`. `read` and `write` are the stream's own, of either side; `run` ends when the wire has closed."""

    def __init__(
        self,
        peer: str,
        read: Callable[[], Awaitable[Any]],
        write: Callable[[bytes], Awaitable[None]],
        events: WireEvents | None = None,
    ) -> None:
        self.peer = peer
        self.queued_bytes = 0
        self.events = events
        self._read = read
        self._write = write
        self._queue: deque[bytes] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._silent = False
        self._tasks: list[asyncio.Task[None]] = []

    def send(self, frame: bytes) -> None:
        """As `Wire.send`."""
        if self._end.done():
            return
        self._queue.append(frame)
        self.queued_bytes += len(frame)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def close(self, reason: str) -> None:
        """As `Wire.close`."""
        self._silent = True
        self._finish(reason)

    def start(self, welcome: bytes | None = None) -> None:
        """Begin to read and write; a welcome goes first."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._reading()), loop.create_task(self._writing(welcome))]

    async def run(self) -> str:
        """Wait for the end of the wire, tell of it unless the owner made it, and return the reason."""
        try:
            return await asyncio.shield(self._end)
        except asyncio.CancelledError:
            # gRPC cancels a handler whose stream is gone; the transport cancels its own when it is closed.
            self._finish("the connection is lost, or the other end has ended it")
            raise
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if not self._silent and self.events is not None:
                self.events.closed(self._end.result())

    def _finish(self, reason: str) -> None:
        if not self._end.done():
            self._end.set_result(reason)
            self._queue.clear()
            self.queued_bytes = 0

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
            try:
                events.received(frame)
            except Exception as error:
                self._report(error)
                return

    async def _writing(self, welcome: bytes | None) -> None:
        queue, events = self._queue, self.events
        assert events is not None
        loop = asyncio.get_running_loop()
        if welcome is not None and not await self._written(welcome):
            return
        while not self._end.done():
            if not queue:
                self._wake = loop.create_future()
                await self._wake
            while queue:
                frame = queue.popleft()
                if not await self._written(frame):
                    return
                self.queued_bytes = max(0, self.queued_bytes - len(frame))
            if not self._end.done():
                try:
                    events.drained()
                except Exception as error:
                    self._report(error)

    async def _written(self, frame: bytes) -> bool:
        try:
            await self._write(frame)
        except Exception as error:
            # The stream has ended. The reader knows why, if it is given the chance to find out.
            await asyncio.wait([self._tasks[0]], timeout=_LAST_WORD_S)
            self._finish(_ended_by(error))
            return False
        return True

    def _report(self, error: Exception) -> None:
        """An error of the owner's: it ends this wire, and is not hidden."""
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"wire to {self.peer} closed by an error", "exception": error}
        )
        self._finish(f"error at the other end: {error!r}")


def _ended_by(error: Exception) -> str:
    """The reason in what gRPC raises from a read or a write; its server side has errors without a status."""
    if isinstance(error, grpc.aio.AioRpcError):
        return reason_of(error.code(), error.details())
    return f"the stream has ended: {type(error).__name__}"


def reason_of(code: Any, details: str | None) -> str:
    """A gRPC status in words: what our nodes said stands alone, what gRPC found gets its code's name."""
    if code in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ABORTED) and details:
        return details
    return f"{code.name}: {details}" if details else str(code.name)
