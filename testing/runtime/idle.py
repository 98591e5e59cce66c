"""Notices activity in a cluster, so that a test can wait until the cluster is idle, without sleeping."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

POLL_S = 0.05
"""The longest time between two checks of a condition, in seconds: some changes are not recorded as activity."""


class IdleDetector:
    """Counts activity in a cluster: bytes in and out, commits, deadlines. Belongs to one event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def record(self) -> None:
        """Count one activity, and wake the waiters."""
        self.count += 1
        self._event.set()

    async def wait_for_activity(self) -> None:
        """Wait until the next activity, at most `POLL_S` seconds."""
        self._event.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._event.wait()

    async def until(self, true: Callable[[], bool], timeout: float) -> None:
        """Wait until the condition `true` holds. Raises TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            while not true():
                await self.wait_for_activity()
