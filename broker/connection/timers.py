"""The named timers of one client connection."""

from __future__ import annotations

from collections.abc import Callable

from ..environment import Environment
from ..timers import Timer


class ConnectionTimers:
    """At most one timer for each name."""

    __slots__ = ("_env", "_timers", "keepalive_ms")

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._timers: dict[str, Timer] = {}
        self.keepalive_ms = 0
        """The longest time without a packet of the client; 0 stands for no limit."""

    def set(self, name: str, delay_ms: int, callback: Callable[[], None]) -> None:
        """Set or replace a timer."""
        timers = self._env.timers
        timers.cancel(self._timers.get(name))
        self._timers[name] = timers.at(self._env.now + delay_ms, callback)

    def left_ms(self, name: str) -> int:
        """Time until this timer runs; 0 if it is not set."""
        timer = self._timers.get(name)
        return 0 if timer is None or timer.callback is None else timer.when_ms - self._env.now

    def cancel(self, name: str) -> None:
        """Cancel a timer, if it is set."""
        self._env.timers.cancel(self._timers.pop(name, None))

    def cancel_all(self) -> None:
        """Cancel all timers, because the connection is closed."""
        for timer in self._timers.values():
            self._env.timers.cancel(timer)
        self._timers.clear()
