"""Deadlines in cluster time: one heap for a whole node, driven from outside.

The core asks for the next wake-up (`wake_at`). The shell or the simulator calls `run` at that time or later.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

STEP = 100
"""Most callbacks that one call of `run` calls: the wills of thousands of clients may be due in one millisecond."""


class Timer:
    """A deadline. `callback` is None after it has run or was cancelled."""

    __slots__ = ("callback", "when_ms")

    def __init__(self, when_ms: int, callback: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.callback: Callable[[], None] | None = callback


class Timers:
    """All deadlines of a node. Timers of the same millisecond run in the order in which they were set."""

    def __init__(self, wake_at: Callable[[int], None]) -> None:
        self._wake_at = wake_at
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = 0
        self._cancelled = 0

    def at(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once cluster time has reached `when_ms`."""
        timer = Timer(when_ms, callback)
        self._order += 1
        heappush(self._heap, (when_ms, self._order, timer))
        if self._heap[0][2] is timer:
            self._wake_at(when_ms)
        return timer

    def cancel(self, timer: Timer | None) -> None:
        """Cancel a timer; does nothing if it is None, has run or was cancelled before."""
        if timer is None or timer.callback is None:
            return
        timer.callback = None
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap = [item for item in self._heap if item[2].callback is not None]
            heapify(self._heap)
            self._cancelled = 0

    def shift(self, by_ms: int) -> None:
        """Move all deadlines after a jump of cluster time: each timer keeps its remaining milliseconds."""
        for _, _, timer in self._heap:
            timer.when_ms += by_ms
        self._heap = [(when_ms + by_ms, order, timer) for when_ms, order, timer in self._heap]

    def run(self, now_ms: int) -> None:
        """Run timers that are due, at most `STEP`, and ask for another call if there are more. A timer that a callback
        sets waits for the next call. If a callback raises, the next call runs the others."""
        last, left = self._order, STEP
        heap = self._heap
        try:
            while left and heap and heap[0][0] <= now_ms and heap[0][1] <= last:
                timer = heappop(heap)[2]
                callback = timer.callback
                if callback is None:
                    self._cancelled -= 1
                    continue
                timer.callback = None
                left -= 1
                callback()
                heap = self._heap
        finally:
            if self._heap:
                self._wake_at(self._heap[0][0])

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled
