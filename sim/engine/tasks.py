"""Runs coroutines of the broker on virtual time, as asyncio runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Protocol

from ...cluster.transport.memory_wire import MemoryTransport
from ...cluster.transport.wire import CallFailed


class Process(Protocol):
    """A process that may end or be suspended: a `Host`."""

    def soon(self, function: Callable[[], None]) -> object:
        """Call the function at the end of the turn."""
        ...

    def later(self, delay_s: float, function: Callable[[], None]) -> object:
        """Call the function after this time."""
        ...


class Tasks(asyncio.AbstractEventLoop):
    """The event loop of one process. `time_s` is its clock. If the process ends, nothing runs any more."""

    def __init__(self, process: Process, time_s: Callable[[], float]) -> None:
        self._process = process
        self._time_s = time_s

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine."""
        return asyncio.Task(work, loop=self)

    def time(self) -> float:
        """The process's clock, in seconds."""
        return self._time_s()

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's."""
        handle = asyncio.Handle(callback, args, self, context)
        self._process.soon(lambda: self._run(handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's."""
        handle = asyncio.TimerHandle(self.time() + delay, callback, args, self, context)
        self._process.later(delay, lambda: self._run(handle))
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's."""
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """The handle knows it."""

    def create_future(self) -> asyncio.Future[Any]:
        """As asyncio's."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **_: Any) -> asyncio.Task[Any]:
        """As asyncio's."""
        return asyncio.Task(coro, loop=self)

    def get_debug(self) -> bool:
        """Never: it costs time."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A task of a process that has ended is never done. Everything else is a mistake."""
        if "exception" in context:
            raise context["exception"]

    def _run(self, handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            before = asyncio._get_running_loop()
            asyncio._set_running_loop(self)
            try:
                handle._run()
            finally:
                asyncio._set_running_loop(before)


class Calls:
    """The calls of a `MemoryTransport`, for coroutines."""

    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport

    async def call(self, address: str, method: str, request: bytes, timeout_s: float) -> bytes:
        """As `Transport.call`."""
        came: asyncio.Future[bytes | CallFailed] = asyncio.get_running_loop().create_future()
        self._transport.ask(
            address, method, request, timeout_s, lambda answer: None if came.done() else came.set_result(answer)
        )
        answer = await came
        if isinstance(answer, CallFailed):
            raise answer
        return answer
