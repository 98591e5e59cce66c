"""Virtual time: a loop that advances the clock to the next event. It has one thread, and the same seed gives the same
run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

from msgspec import Struct


class Scheduled(Struct, eq=False):
    """A function that runs later, unless it is cancelled."""

    function: Callable[[], None] | None

    def cancel(self) -> None:
        """Do not run the function."""
        self.function = None


class VirtualLoop:
    """`call_soon`, `call_later` and a clock, as in asyncio. Time passes only between events.

    `now_s` is true time in seconds since the begin of the simulation. Functions for the same time run in the order in
    which they were scheduled.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._soon: deque[Callable[[], None]] = deque()
        self.call_soon: Callable[[Callable[[], None]], None] = self._soon.append
        """Runs a function at the end of the present turn."""
        self._later: list[tuple[float, int, Scheduled]] = []
        self._order = 0

    def call_later(self, delay_s: float, function: Callable[[], None]) -> Scheduled:
        """Run a function `delay_s` seconds from now."""
        self._order += 1
        handle = Scheduled(function)
        heappush(self._later, (self.now_s + delay_s if delay_s > 0 else self.now_s, self._order, handle))
        return handle

    def call_at(self, when_s: float, function: Callable[[], None]) -> Scheduled:
        """Run a function at this time in seconds, or now if the time is past. Use it if order matters: a sum of delays
        may be rounded, a time is exact."""
        self._order += 1
        handle = Scheduled(function)
        heappush(self._later, (when_s if when_s > self.now_s else self.now_s, self._order, handle))
        return handle

    def turn(self) -> bool:
        """Run the next function, or all functions of `call_soon`; advance time if needed. False if none is left."""
        return self._turn(inf)

    def _turn(self, limit_s: float) -> bool:
        """As `turn`, if the next function is due by `limit_s`."""
        soon = self._soon
        if soon:
            for _ in range(len(soon)):
                soon.popleft()()
            return True
        later = self._later
        while later and later[0][0] <= limit_s:
            when, _, handle = heappop(later)
            function, handle.function = handle.function, None
            if function is not None:  # it was not cancelled
                self.now_s = when
                function()
                return True
        return False

    def settle(self, limit: int = 1_000_000) -> None:
        """Run everything that is due now; no time passes. Raises RuntimeError after `limit` turns."""
        self.run_until(self.now_s, limit)

    def run_until(self, when_s: float, limit: int = 10_000_000) -> None:
        """Run everything that is due by `when_s`, and set the time to it. Raises RuntimeError after `limit` turns."""
        for _ in range(limit):
            if not self._turn(when_s):
                self.now_s = max(self.now_s, when_s)
                return
        raise RuntimeError(f"still busy after {limit} turns at {self.now_s:.6f} s")

    def run_for(self, seconds: float) -> None:
        """Let this many seconds pass."""
        self.run_until(self.now_s + seconds)
