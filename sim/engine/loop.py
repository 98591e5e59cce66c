"""Virtual time: a loop that jumps to the next thing to do. One thread, one seed, the same run every time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

from msgspec import Struct


class Scheduled(Struct, eq=False):
    """Something to do later; `cancel` forgets it."""

    function: Callable[[], None] | None

    def cancel(self) -> None:
        """Do not do it."""
        self.function = None


class VirtualLoop:
    """`call_soon`, `call_later` and a clock, like asyncio's, on time that passes only between events.

    `now_s` is true time in seconds since the begin of the simulation. What is scheduled for the same time runs in the
    order in which it was scheduled.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._soon: deque[Callable[[], None]] = deque()
        self.call_soon: Callable[[Callable[[], None]], None] = self._soon.append
        """Run at the end of the present turn."""
        self._later: list[tuple[float, int, Scheduled]] = []
        self._order = 0

    def call_later(self, delay_s: float, function: Callable[[], None]) -> Scheduled:
        """Run `delay_s` seconds from now."""
        self._order += 1
        handle = Scheduled(function)
        heappush(self._later, (self.now_s + delay_s if delay_s > 0 else self.now_s, self._order, handle))
        return handle

    def call_at(self, when_s: float, function: Callable[[], None]) -> Scheduled:
        """Run at this time, or now if it is past. Exact, where a sum of delays is not: for what must keep its order."""
        self._order += 1
        handle = Scheduled(function)
        heappush(self._later, (when_s if when_s > self.now_s else self.now_s, self._order, handle))
        return handle

    def turn(self) -> bool:
        """Do the next thing, moving time forward if need be; False if there is nothing left."""
        return self._turn(inf)

    def _turn(self, limit_s: float) -> bool:
        """As `turn`, if it is due up to then."""
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
        """Do all that is due now, time standing still."""
        self.run_until(self.now_s, limit)

    def run_until(self, when_s: float, limit: int = 10_000_000) -> None:
        """Do all that is due up to `when_s`, and let time stand there."""
        for _ in range(limit):
            if not self._turn(when_s):
                self.now_s = max(self.now_s, when_s)
                return
        raise RuntimeError(f"still busy after {limit} turns at {self.now_s:.6f} s")

    def run_for(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.run_until(self.now_s + seconds)
