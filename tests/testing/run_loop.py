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
    found = [each for each in complaints if not _of_an_earlier_loop(each)]
    assert not found, found


def _of_an_earlier_loop(context: dict[str, Any]) -> bool:
    """gRPC has one queue of events for all loops of a process: what comes late for a loop that is closed, as the end of
    a stream that was cancelled, it reads in the next one, and fails there. This test's loop is not closed."""
    closed = str(context.get("exception")) == "Event loop is closed"
    return closed and "PollerCompletionQueue._handle_events" in context["message"]
