"""An event loop in a thread of its own, for callers that have none, or another one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .node_handle import LeakError

_T = TypeVar("_T")
CALL_S = 60.0
"""How long a blocking call waits at most, beyond the limit that its caller has set."""


class LoopThread:
    """Runs coroutines in its thread. `stop` ends it and raises `LeakError` for tasks that are left."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        # here, because the thread that stops this one may have a running loop itself
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, _T], limit_s: float = 0.0) -> _T:
        """Run to the end, from a thread that may block; the result, or what it raised.

        `limit_s` is the limit that the work has itself. When the caller is interrupted, the work is cancelled.
        """
        assert threading.current_thread() is not self._thread, "a blocking call from the loop itself"
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(limit_s + CALL_S)
        except BaseException:
            running.cancel()
            raise

    async def bridge(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run to the end, from a coroutine of any other asyncio loop; to cancel this cancels the work."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def ask(self, function: Callable[[], _T]) -> _T:
        """Call a function in the loop's thread; its result."""

        async def run() -> _T:
            return function()

        return self.call(run())

    def stop(self) -> None:
        """End the thread; again is no error."""
        if self._loop.is_closed():
            return
        left = self.call(_left())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S)
        if self._thread.is_alive():
            raise LeakError(f"the thread {self._thread.name} does not end")
        if left:
            raise LeakError(f"tasks are left: {left}")


async def _left() -> list[asyncio.Task[Any]]:
    """The tasks that do not end; who is cancelled is given the time to."""
    me = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not me]
    if ending := [task for task in others if task.cancelling()]:
        await asyncio.wait(ending, timeout=CALL_S / 2)
    return [task for task in others if not task.done()]
