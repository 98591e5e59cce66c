"""The data frames of one stream that the peer's loop has not handled yet: how much of them there may be.

What is on its way cannot be overtaken by anybody's message. So there is never more of it than keeps the stream busy:
what a fast peer handles in the time that a frame and its answer take when nothing else is on the way.

It is counted in units that stand for work of the peer's loop: 16 for each item, and one for each 64 bytes. An item of
150 bytes costs the loop some 15 us, one of 100 KiB hardly ten times as much.
"""

from __future__ import annotations

from collections import deque

from .frames import MalformedFrame

ITEM_UNITS = 16
BYTES_PER_UNIT = 64

UNITS_PER_MS = 6400
"""What is assumed of a fast peer: 400 small items in a millisecond."""

MOST_UNITS = 1 << 20


class Flight:
    """For one stream after the other. `least` is the limit for a peer that is near, in units."""

    __slots__ = ("_frames", "_least", "_sent", "_shortest_ms", "_taken", "_units")

    def __init__(self, least: int) -> None:
        self._least = least
        self.begin()

    def begin(self) -> None:
        """A stream has opened: nothing is on its way."""
        self._frames: deque[tuple[int, float]] = deque()
        self._units = self._sent = self._taken = 0
        self._shortest_ms: float | None = None

    @property
    def limit(self) -> int:
        """So many units may be on their way, and the last frame may go beyond."""
        if self._shortest_ms is None:
            return self._least
        return max(self._least, min(MOST_UNITS, int(self._shortest_ms * UNITS_PER_MS)))

    @property
    def full(self) -> bool:
        """Whether the next frame has to wait."""
        return self._units > 0 and self._units >= self.limit

    def sent(self, items: int, size: int, now_ms: float) -> None:
        """A frame with so many items and bytes goes out."""
        units = items * ITEM_UNITS + size // BYTES_PER_UNIT
        self._sent += 1
        self._units += units
        self._frames.append((units, now_ms))

    def taken(self, count: int, now_ms: float) -> None:
        """The peer has handled so many frames since the stream opened. Raises `MalformedFrame`."""
        if count > self._sent:
            raise MalformedFrame(f"{count} frames handled, {self._sent} sent")
        while self._taken < count:
            units, sent_ms = self._frames.popleft()
            self._taken += 1
            self._units -= units
            took_ms = now_ms - sent_ms
            if self._shortest_ms is None or took_ms < self._shortest_ms:
                self._shortest_ms = took_ms
