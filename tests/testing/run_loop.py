"""Runs an asynchronous test with a time limit; the loop must have no error."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from tests.harness.loop_errors import collect_loop_errors


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, within 20 seconds."""
    complaints: list[dict[str, Any]] = []

    async def bounded() -> None:
        collect_loop_errors(complaints)
        async with asyncio.timeout(20):
            await work

    asyncio.run(bounded())
    assert not complaints, complaints
