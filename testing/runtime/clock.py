"""The clock of all nodes in one process. It does not count time in which the process did not run.

Leases and elections detect a node that stops while other nodes run. In one process all nodes stop together: on a busy
machine, in a debugger, in a test that blocks the loop. No time passes on this clock then.
"""

from __future__ import annotations

import asyncio
import time

SAMPLE_S = 0.005
MAX_STEP_S = 0.01
"""No step of the clock is longer: two beats."""


class ActiveClock:
    """Counts from `start` to `stop`; belongs to the running loop. Both clocks are in milliseconds."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._active_s = self._last
        self._wall_ms = (time.time() - self._last) * 1000
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at the time often, so that a loop without work is not taken for one that stands still."""
        self.mono_ms()
        self._timer = asyncio.get_running_loop().call_later(SAMPLE_S, self.start)

    def stop(self) -> None:
        """Stop sampling."""
        if self._timer is not None:
            self._timer.cancel()

    def mono_ms(self) -> float:
        """A monotonic clock, as `time.monotonic` where the loop always had its turn."""
        now = time.monotonic()
        self._active_s += min(now - self._last, MAX_STEP_S)
        self._last = now
        return self._active_s * 1000

    def wall_ms(self) -> float:
        """Milliseconds since 1970, running with the other; a step of the machine's own clock is not seen."""
        return self.mono_ms() + self._wall_ms
