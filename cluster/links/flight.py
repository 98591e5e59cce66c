"""Limits the data frames in flight: sent on a stream, and not yet handled by the peer's loop. The peer reports these.

A later message cannot overtake data in flight. So the limit is as low as possible while the stream stays busy: the
amount that a fast peer handles in one round trip of an otherwise idle stream.

The unit stands for work of the peer's loop: 16 units for each item, and one for each 64 bytes. An item of 150 bytes
costs the loop some 15 us, one of 100 KiB hardly ten times as much.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from .frames import MalformedFrame
from .ports import Timer

ITEM_UNITS = 16
BYTES_PER_UNIT = 64

UNITS_PER_MS = 6400
"""Assumed speed of a fast peer: 400 small items in a millisecond."""

MOST_UNITS = 1 << 20


def work_units(items: int, size: int) -> int:
    """Returns the work of a frame with this many items and bytes, in units."""
    return items * ITEM_UNITS + size // BYTES_PER_UNIT


class Flight:
    """The data in flight of the current stream. `least` is the limit for a peer with a short round trip, in units."""

    __slots__ = ("_frames", "_least", "_sent", "_shortest_ms", "_taken", "_units")

    def __init__(self, least: int) -> None:
        self._least = least
        self.begin()

    def begin(self) -> None:
        """A stream has opened: nothing is in flight."""
        self._frames: deque[tuple[int, float]] = deque()
        self._units = self._sent = self._taken = 0
        self._shortest_ms: float | None = None

    @property
    def limit(self) -> int:
        """Units that may be in flight; the last frame may exceed it."""
        if self._shortest_ms is None:
            return self._least
        return max(self._least, min(MOST_UNITS, int(self._shortest_ms * UNITS_PER_MS)))

    @property
    def full(self) -> bool:
        """Whether the next frame has to wait."""
        return self._units > 0 and self._units >= self.limit

    def sent(self, items: int, size: int, now_ms: float) -> None:
        """The sender has sent a frame with this many items and bytes."""
        units = work_units(items, size)
        self._sent += 1
        self._units += units
        self._frames.append((units, now_ms))

    def taken(self, count: int, now_ms: float) -> None:
        """The peer has handled `count` frames since the stream opened. Raises `MalformedFrame` if fewer were sent."""
        if count > self._sent:
            raise MalformedFrame(f"{count} frames handled, {self._sent} sent")
        while self._taken < count:
            units, sent_ms = self._frames.popleft()
            self._taken += 1
            self._units -= units
            took_ms = now_ms - sent_ms
            if self._shortest_ms is None or took_ms < self._shortest_ms:
                self._shortest_ms = took_ms


class Handled:
    """At the receiver: the data frames of the current stream that it has handled. `count` of them are to be reported.

    A report alone costs both nodes a turn of their loops, and an acknowledgement that tells the same often follows
    soon. So a report is `due` only after `report_s`, or if the frames since the last one have more than a quarter of
    the units that may be in flight: the sender must not wait for it. `later` sets a timer; `on_due` is called by it.
    """

    __slots__ = ("_late", "_later", "_most_units", "_on_due", "_report_s", "_timer", "_units", "count")

    def __init__(
        self,
        flight_units: int,
        report_s: float,
        later: Callable[[float, Callable[[], None]], Timer],
        on_due: Callable[[], None],
    ) -> None:
        self._most_units = flight_units // 4
        self._report_s = report_s
        self._later = later
        self._on_due = on_due
        self._timer: Timer | None = None
        self.begin()

    def begin(self) -> None:
        """A stream has opened: none of its frames was handled."""
        self.count = 0
        self.reported()

    @property
    def due(self) -> bool:
        """Whether the peer must be told now."""
        return self._late or self._units > self._most_units

    def handled(self, items: int, size: int) -> None:
        """A frame with this many items and bytes was handled."""
        self.count += 1
        self._units += work_units(items, size)
        if self._timer is None:
            self._timer = self._later(self._report_s, self._is_late)

    def reported(self) -> None:
        """The peer is told `count`."""
        self._units = 0
        self._late = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_late(self) -> None:
        self._timer = None
        self._late = True
        self._on_due()
