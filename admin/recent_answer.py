"""An answer that is expensive to make, and that many may ask for: those who ask at the same time share it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

RECENT_S = 1.0
"""How long an answer is given again, in seconds."""


class RecentAnswer:
    """Calls `make` at most once at a time, and once in `RECENT_S`. An error of `make` is raised, and not kept."""

    def __init__(self, make: Callable[[], Awaitable[bytes]]) -> None:
        self._make = make
        self._making = asyncio.Lock()
        self._answer = b""
        self._until_s = 0.0
        """Until when the answer is recent, in seconds of the loop's clock."""

    async def get(self) -> bytes:
        """Returns the recent answer, or makes one. Whoever asks while one is made waits for it."""
        loop = asyncio.get_running_loop()
        async with self._making:
            if loop.time() >= self._until_s:
                self._answer = await self._make()
                self._until_s = loop.time() + RECENT_S
            return self._answer
