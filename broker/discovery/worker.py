"""A source that asks its service in a task of its own, so that a look never waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from .pace import Pace
from .source import Lookup, Say

LONGEST = 300
"""How much of an error's text is said, in characters."""


class Worker(Lookup):
    """Asks at `pace_s` seconds at least. `place` is where, for texts. `_problem` is why the service does not answer
    now, "" if it does. Subclasses begin with `_start`."""

    def __init__(self, place: object, pace_s: float) -> None:
        self._place = place
        self._pace = Pace(pace_s)
        self._problem = self._silent = f"{place} has not answered yet"
        self._task: asyncio.Task[None] | None = None

    def _start(self, work: Coroutine[Any, Any, None], say: Say) -> None:
        """Run `work` until `close`. It never ends by itself."""
        self._say = say
        self._task = asyncio.get_running_loop().create_task(work)

    def _failed(self, error: Exception) -> None:
        """A request has failed. Say it, and wait longer before the next one."""
        self._pace.failed()
        said = str(error) or type(error).__name__
        self._problem = f"{self._place}: {' '.join(said.split())[:LONGEST]}"
        self._say(self._problem)

    async def close(self) -> None:
        """As `Source.close`."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
