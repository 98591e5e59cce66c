"""The clock of all nodes in one process. It does not count time in which the process did not run.

Leases and elections detect a node that stops while other nodes run. In one process all nodes stop together: on a busy
machine, in a debugger, in a test that blocks the loop. Then this clock stops, too.
"""

from __future__ import annotations

import asyncio
import time

SAMPLE_S = 0.005
MAX_STEP_S = 0.01
"""The longest step of the clock, in seconds: two samples. A longer pause of the process counts as this much."""


class ActiveClock:
    """A monotonic clock and a wall clock, in milliseconds. Both run from `start` to `stop`, on the running loop."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._active_s = self._last
        self._wall_ms = (time.time() - self._last) * 1000
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Sample the time every `SAMPLE_S` seconds, so that the clock also runs while the loop has no work."""
        self.mono_ms()
        self._timer = asyncio.get_running_loop().call_later(SAMPLE_S, self.start)

    def stop(self) -> None:
        """Stop sampling."""
        if self._timer is not None:
            self._timer.cancel()

    def mono_ms(self) -> float:
        """Returns monotonic milliseconds: those of `time.monotonic`, without the time in which the loop was blocked."""
        now = time.monotonic()
        self._active_s += min(now - self._last, MAX_STEP_S)
        self._last = now
        return self._active_s * 1000

    def wall_ms(self) -> float:
        """Returns milliseconds since 1970, at the rate of `mono_ms`. Steps of the machine's clock have no effect."""
        return self.mono_ms() + self._wall_ms
