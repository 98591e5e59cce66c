"""Notices that something went on, so that waiting for rest needs no sleeping."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

POLL_S = 0.05
"""How long a waiter waits at most before it looks again: some things end without anybody saying so."""


class IdleDetector:
    """Counts what goes on in a cluster: bytes in and out, commits, deadlines. Belongs to one event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def record(self) -> None:
        """Something went on."""
        self.count += 1
        self._event.set()

    async def wait_for_activity(self) -> None:
        """Wait until something goes on, at most `POLL_S`."""
        self._event.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._event.wait()

    async def until(self, true: Callable[[], bool], timeout: float) -> None:
        """Wait until something is true. Raises TimeoutError after so many seconds."""
        async with asyncio.timeout(timeout):
            while not true():
                await self.wait_for_activity()
