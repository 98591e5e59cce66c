"""Notifications to asynchronous plugins: in order for one client, concurrent for several clients, limited in number."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, TypeAlias

OnError: TypeAlias = Callable[[str, str, BaseException], None]
"""Port for errors of plugins: plugin name, hook name, the exception."""

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
"""Port that runs a coroutine in the background and keeps it alive until it ends."""


class NotificationsDropped(RuntimeError):
    """A plugin is so slow that notifications for it were dropped."""


class Lanes:
    """Unfinished notifications, one lane for each (plugin, client).

    At most `limit` notifications are unfinished at a time. Further ones are dropped and counted in `dropped`; the first
    one is reported, then none until there is room again. `apart` is as in `Hooks`.
    """

    def __init__(
        self,
        spawn: Spawn,
        on_error: OnError,
        limit: int,
        apart: Callable[[Awaitable[object]], Awaitable[object]] = lambda work: work,
    ) -> None:
        self._apart = apart
        self._spawn = spawn
        self._on_error = on_error
        self._limit = limit
        self._lanes: dict[Hashable, deque[tuple[str, Awaitable[object]]]] = {}
        self._overflowing = False
        self.pending = 0
        self.dropped = 0

    def add(self, plugin: str, hook: str, client: Hashable, work: Awaitable[object]) -> None:
        """Run `work`, the awaitable of a plugin's async method, after the earlier notifications of the same client."""
        if self.pending >= self._limit:
            self._drop(plugin, hook, work)
            return
        self.pending += 1
        key = (plugin, client)
        lane = self._lanes.get(key)
        if lane is not None:
            lane.append((hook, work))
            return
        self._lanes[key] = deque([(hook, work)])
        run = self._run(plugin, key)
        try:
            self._spawn(run)
        except Exception as error:  # no event loop any more
            run.close()
            self._put_away(key)
            self._on_error(plugin, hook, error)

    async def _run(self, plugin: str, key: Hashable) -> None:
        lane = self._lanes[key]
        try:
            while lane:
                hook, work = lane.popleft()
                try:
                    await self._apart(work)
                except Exception as error:
                    self._on_error(plugin, hook, error)
                finally:
                    self.pending -= 1
                    self._overflowing = False
        finally:
            self._put_away(key)

    def _put_away(self, key: Hashable) -> None:
        for _, work in self._lanes.pop(key):  # not empty if the broker stops: what never started is closed
            self.pending -= 1
            _close(work)

    def _drop(self, plugin: str, hook: str, work: Awaitable[object]) -> None:
        self.dropped += 1
        _close(work)
        if not self._overflowing:
            self._overflowing = True
            self._on_error(plugin, hook, NotificationsDropped(f"{self._limit} notifications are unfinished"))


def _close(work: Awaitable[object]) -> None:
    if isinstance(work, Coroutine):
        work.close()
