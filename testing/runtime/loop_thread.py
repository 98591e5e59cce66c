"""An event loop in its own thread, for callers without a loop and callers in another loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..client_errors import MqttClosed
from ..hidden_frames import of_documented_errors
from .node_handle import LeakError

__tracebackhide__ = of_documented_errors

_T = TypeVar("_T")
CALL_S = 60.0
"""Seconds that a blocking call waits at most, in addition to the limit of its work."""


def asyncio_loop() -> asyncio.AbstractEventLoop:
    """Returns the running loop. Raises RuntimeError if it is not asyncio's; its text says what a test for trio does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        text = "no asyncio loop runs: in a test for trio use the blocking methods, in a thread"
        raise RuntimeError(text) from None


class LoopThread:
    """Runs coroutines in its thread. `stop` ends the thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        # here and not in `stop`, because the thread that calls `stop` may have a running loop
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, _T], limit_s: float = 0.0) -> _T:
        """Run a coroutine in the loop and block until it ends. Returns its result or raises its error.

        `limit_s` is the timeout of the work itself. Raises TimeoutError `CALL_S` seconds after it, and `MqttClosed` if
        the thread has ended. If the caller is interrupted, the work is cancelled.
        """
        self._check_open(work)
        assert threading.current_thread() is not self._thread, "a blocking call from the loop itself"
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            error = running.exception(limit_s + CALL_S)
        except TimeoutError:
            running.cancel()
            text = f"no end within {limit_s + CALL_S:g} s: something blocks the thread of the brokers"
            raise TimeoutError(text) from None
        except BaseException:
            running.cancel()
            raise
        if error is None:
            return running.result()
        try:
            raise error  # not by `result`: its frames would hide the caller's line in a report
        finally:
            del error  # it has this frame: a cycle

    async def bridge(self, work: Coroutine[Any, Any, _T], take_back: Callable[[_T], None] = lambda _: None) -> _T:
        """Run a coroutine in the loop of this thread, while the caller, in another asyncio loop, awaits its result.

        If the caller is cancelled, the coroutine is cancelled, too. It may have ended before: then `take_back` gets the
        result, in the loop of this thread. Raises RuntimeError if the caller's loop is not asyncio's, and `MqttClosed`
        if the thread has ended.
        """
        self._check_open(work)
        try:
            asyncio_loop()
        except RuntimeError:
            work.close()
            raise
        cancelled = False
        results: list[_T] = []

        def undo() -> None:
            while cancelled and results:
                take_back(results.pop())

        async def run() -> _T:
            result = await work
            results.append(result)
            undo()
            return result

        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._loop))
        except asyncio.CancelledError:
            cancelled = True
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(undo)
            raise

    def _check_open(self, work: Coroutine[Any, Any, Any]) -> None:
        """Raises `MqttClosed` if the loop is closed. Then it also closes `work`, which nothing would await."""
        if self._loop.is_closed():
            work.close()
            raise MqttClosed("the cluster of this client is closed")

    def ask(self, function: Callable[[], _T]) -> _T:
        """Call a function in the loop's thread, and return its result."""

        async def run() -> _T:
            return function()

        return self.call(run())

    def stop(self) -> None:
        """End the thread; no effect if it has ended. Raises `LeakError` if tasks are left, or if it does not end."""
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
    """Returns the tasks that are not done, after a wait for those that are being cancelled."""
    me = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not me]
    if ending := [task for task in others if task.cancelling()]:
        await asyncio.wait(ending, timeout=CALL_S / 2)
    return [task for task in others if not task.done()]
