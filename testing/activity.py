"""Notices that something went on, so that waiting for rest needs no sleeping."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

LOOK_AGAIN_S = 0.05
"""How long a waiter waits at most before it looks again: some things end without anybody saying so."""


class Activity:
    """Counts what goes on in a cluster: bytes in and out, commits, deadlines. Belongs to one event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def poke(self) -> None:
        """Something went on."""
        self.count += 1
        self._event.set()

    async def more(self) -> None:
        """Wait until something goes on, at most `LOOK_AGAIN_S`."""
        self._event.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN_S):
                await self._event.wait()

    async def until(self, true: Callable[[], bool], timeout: float) -> None:
        """Wait until something is true. Raises TimeoutError after so many seconds."""
        async with asyncio.timeout(timeout):
            while not true():
                await self.more()
