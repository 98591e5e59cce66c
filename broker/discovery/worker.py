"""A source that asks its service in a task of its own, so that a look never waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from .pace import Pace
from .source import Lookup, Say, Seen

LONGEST = 300
"""How much of an error's text is said, in characters."""


class Worker(Lookup):
    """Leaves at least `pace_s` seconds between two requests. `where` names the service in texts. `_problem` is why the
    service does not answer now, "" if it does. A subclass begins with `_start`."""

    def __init__(self, where: str, pace_s: float) -> None:
        self._where = where
        self._pace = Pace(pace_s)
        self._problem = self._silent = f"{where} has not answered yet"
        self._task: asyncio.Task[None] | None = None

    def _start(self, work: Coroutine[Any, Any, None], say: Say) -> None:
        """Run `work` until `close`. It never ends by itself."""
        self._say = say
        self._task = asyncio.get_running_loop().create_task(work)

    def _failed(self, error: Exception) -> None:
        """A request has failed. Say it, and wait longer before the next one."""
        self._pace.failed()
        said = str(error) or type(error).__name__
        self._problem = f"{self._where}: {' '.join(said.split())[:LONGEST]}"
        self._say(self._problem)

    def _seen(self, addresses: tuple[str, ...]) -> Seen:
        """The answer to a look, with the problem of the service. There may be more nodes while it has one."""
        return Seen(addresses, (self._problem,) if self._problem else (), bool(self._problem))

    @staticmethod
    async def _wait(event: asyncio.Event, within_s: float) -> None:
        """Wait until the event is set, but for `within_s` seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await event.wait()

    async def close(self) -> None:
        """As `Source.close`."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
