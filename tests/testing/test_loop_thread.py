"""A loop in a thread: results and errors come over, and what is left at its end is told."""

from __future__ import annotations

import asyncio
import threading

import pytest

from strogoff.testing.loop_thread import LoopThread
from strogoff.testing.node import LeakError


def test_calls_and_errors_come_over() -> None:
    """Blocking, by function, and from another loop."""

    async def where() -> str:
        return threading.current_thread().name

    async def fails() -> None:
        raise KeyError("x")

    thread = LoopThread("elsewhere")
    assert thread.call(where()) == "elsewhere" == thread.ask(lambda: threading.current_thread().name)
    assert asyncio.run(thread.bridge(where())) == "elsewhere"
    with pytest.raises(KeyError):
        thread.call(fails())
    thread.stop()
    thread.stop()
    assert "elsewhere" not in {each.name for each in threading.enumerate()}


def test_a_task_that_is_left_is_told() -> None:
    """And the thread ends all the same."""
    thread = LoopThread("leaky")
    event = asyncio.Event()
    task = thread.ask(lambda: asyncio.ensure_future(event.wait()))
    with pytest.raises(LeakError, match="tasks are left"):
        thread.stop()
    assert not task.done() and "leaky" not in {each.name for each in threading.enumerate()}
    task.get_coro().close()  # type: ignore[union-attr]
