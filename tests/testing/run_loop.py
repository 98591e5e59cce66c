"""Runs an asynchronous test with a time limit; the loop must have no error."""

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
    """Whether an error belongs to a closed loop. gRPC has one event queue for all loops of a process: a late event for
    a closed loop, such as the end of a cancelled stream, is read in the next loop and fails there.
    """
    closed = str(context.get("exception")) == "Event loop is closed"
    return closed and "PollerCompletionQueue._handle_events" in context["message"]
