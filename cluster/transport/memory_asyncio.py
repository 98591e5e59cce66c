"""The memory transport as a `Transport` of asyncio: for tests within one process, several nodes on one loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from .memory_network import Answer, MemoryNetwork
from .memory_wire import MemoryTransport
from .wire import DEFAULT_COOKIE, DIAL_S, NOTICE_S, Accept, CallFailed, Calls, Dialing, Stamps, WireEvents


def memory_network(notice_s: float = NOTICE_S, dial_s: float = DIAL_S) -> MemoryNetwork:
    """Returns a network on the running loop."""
    loop = asyncio.get_running_loop()
    return MemoryNetwork(loop.call_soon, loop.call_later, notice_s, dial_s)


class AsyncioMemoryTransport:
    """Implements `Transport` with a `MemoryTransport`."""

    def __init__(self, network: MemoryNetwork, host: str, cookie: str = DEFAULT_COOKIE) -> None:
        self.inner = MemoryTransport(network, host, cookie)
        self._tasks: set[asyncio.Task[None]] = set()

    def use_stamps(self, stamps: Stamps) -> None:
        """Implements `Transport.use_stamps`."""
        self.inner.use_stamps(stamps)

    def dial(self, address: str, hello: bytes, events: WireEvents) -> Dialing:
        """Implements `Transport.dial`."""
        return self.inner.dial(address, hello, events)

    async def serve(self, address: str, accept: Accept, calls: Calls | None = None) -> str:
        """Implements `Transport.serve`."""
        if calls is None:
            return self.inner.listen(address, accept)
        handler = calls
        return self.inner.listen(
            address, accept, lambda method, request, answer: self._run(handler(method, request), answer)
        )

    async def call(self, address: str, method: str, request: bytes, timeout_s: float) -> bytes:
        """Implements `Transport.call`."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def finish(result: bytes | CallFailed) -> None:
            if not future.done():
                if isinstance(result, CallFailed):
                    future.set_exception(result)
                else:
                    future.set_result(result)

        self.inner.ask(address, method, request, timeout_s, finish)
        return await future

    async def close(self) -> None:
        """Implements `Transport.close`."""
        self.inner.shut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(self, result: Awaitable[bytes], answer: Answer) -> None:
        async def run() -> None:
            try:
                answer(await result)
            except CallFailed as error:
                answer(error)
            except Exception as error:
                answer(CallFailed(f"error in the handler: {error!r}"))
                loop.call_exception_handler({"message": "error in a handler of calls", "exception": error})

        loop = asyncio.get_running_loop()
        task = loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
