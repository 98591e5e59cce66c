"""Coroutines on virtual time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.engine.tasks import Tasks


class Process:
    """A process on a virtual loop."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.soon = self.loop.call_soon
        self.later = self.loop.call_later
        self.tasks = Tasks(self, lambda: self.loop.now_s)  # type: ignore[abstract]


def test_a_coroutine_waits_in_virtual_time() -> None:
    process = Process()
    done: list[float] = []

    async def work() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 600)
        called = asyncio.Event()
        process.later(61, called.set)
        await asyncio.create_task(called.wait())
        done.append(asyncio.get_running_loop().time())

    task = process.tasks.start(work())
    process.loop.run_until(1000.0)
    assert task.done() and done == [661.0]


def test_an_error_of_a_callback_is_raised() -> None:
    process = Process()

    def fails() -> None:
        raise ValueError("planted")

    process.tasks.call_soon(fails)
    with pytest.raises(ValueError, match="planted"):
        process.loop.settle()
