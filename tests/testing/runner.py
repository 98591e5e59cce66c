"""Runs an asynchronous test: bounded, and the loop must have nothing to complain of."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, within 20 seconds."""
    complaints: list[Any] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with asyncio.timeout(20):
            await work

    asyncio.run(bounded())
    assert not complaints, complaints
