"""Drops entries that have expired in the full queue of an absent client, before one that has not is lost.

An entry that expires stays on disk until it is to be sent. A queue may have millions, so they are read in small steps:
the first one in the turn of the message that needs room, the others in later turns, until there is room. If many queues
are searched, each message that one of them refuses takes its search a step further. A search begins where the last one
has ended, because entries that were written together often expire together. If one has read the whole queue in vain,
there is no other one before the next entry expires.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ..environment import Environment
from .queue import Consumer

STEP = 32
"""Entries that one step reads, in about 0.1 ms. A message may be for thousands of full queues."""
BUSY = 8
"""If so many steps wait for their turns, a search goes on with the next message that needs room."""

_NEVER = 1 << 63


class SearchedQueue(Protocol):
    """A queue whose entries `[low, high)` are on disk. `handing_over` is another object when a search has to end."""

    env: Environment
    consumer: Consumer | None
    low: int
    high: int
    handing_over: object | None

    @property
    def full(self) -> bool:
        """As `Queue.full`."""
        ...

    def drop_expired(self, start: int, stop: int, limit: int) -> tuple[int, int]:
        """Drop what has expired of the first entries in a range. Returns where the rest of the range begins, and when
        the first of those that stay expires; 0 if none does."""
        ...


class ExpiredEntries:
    """The searches in one queue."""

    __slots__ = ("_added_ms", "_at", "_next_ms")

    def __init__(self) -> None:
        self._at = 0
        """Where the last search has ended."""
        self._next_ms = 0
        """No entry expires before this time; 0: unknown."""
        self._added_ms = _NEVER
        """When the first one expires of those that were written since the last search began."""

    def added(self, expires_at: int) -> None:
        """An entry was written that expires then; 0: never."""
        if expires_at:
            self._added_ms = min(self._added_ms, expires_at)
            self._next_ms = min(self._next_ms, expires_at)

    def make_room(self, queue: SearchedQueue) -> bool:
        """Drop entries that have expired. Returns True if the first step has made room. Otherwise later turns go on."""
        if queue.consumer is None and queue.handing_over is None and queue.env.now >= self._next_ms:
            queue.handing_over = this = object()
            self._go_on(queue, this, self._search(queue))
        return not queue.full

    def _go_on(self, queue: SearchedQueue, this: object, steps: Iterator[None]) -> None:
        if queue.handing_over is not this:
            return
        if next(steps, this) is this or queue.env.background.waiting >= BUSY:
            queue.handing_over = None
        else:
            queue.env.background(lambda: self._go_on(queue, this, steps))

    def _search(self, queue: SearchedQueue) -> Iterator[None]:
        """Go once around the queue, until it has room."""
        self._next_ms, self._added_ms, next_ms, end = 0, _NEVER, _NEVER, queue.high
        middle = min(max(queue.low, self._at), end)
        for start, stop in ((middle, end), (queue.low, middle)):
            while start < stop:
                self._at, expires_at = queue.drop_expired(start, stop, STEP)
                if not queue.full:
                    return
                start, next_ms = self._at, min(next_ms, expires_at or _NEVER)
                yield
        self._next_ms = min(next_ms, self._added_ms)
