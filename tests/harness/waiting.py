"""A wait until a condition is true, which leaves the processor to other processes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_S = 0.001
"""The interval between two checks of the condition, in seconds."""


async def until(true: Callable[[], object], within_s: float = 30.0) -> None:
    """Let the event loop run until the condition is true. Raises TimeoutError after `within_s` seconds.

    A busy machine needs more than 15 s for three nodes with 256 slots.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(within_s):
        while not true():
            looked = asyncio.Event()
            loop.call_later(LOOK_S, looked.set)
            await looked.wait()


async def until_answer(ask: Callable[[], Awaitable[T]], right: Callable[[T], object], within_s: float = 30.0) -> T:
    """Ask again and again until the answer is right, and return it. Raises TimeoutError as `until`."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(within_s):
        while not right(answer := await ask()):
            asked = asyncio.Event()
            loop.call_later(LOOK_S, asked.set)
            await asked.wait()
        return answer
