"""Measures how late the event loop is: how long work that is due waits for the work before it."""

from __future__ import annotations

import asyncio
import time

from ..storage.durations import Durations

EVERY_S = 0.1
"""The time between two measurements. A longer turn of the loop delays one for sure, a shorter one by chance."""


class LoopLag:
    """Sets a timer again and again, and counts how late each one fires. A process that stands still counts as well."""

    def __init__(self) -> None:
        self.durations = Durations()
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure the running loop from now on."""
        self._due_s = time.monotonic() + EVERY_S
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._measure)

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _measure(self) -> None:
        self.durations.add(max(0.0, time.monotonic() - self._due_s))
        self.start()
