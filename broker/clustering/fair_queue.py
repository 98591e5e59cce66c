"""A queue that gives each of its publishers an equal share of the bytes.

The items of one publisher keep their order. Publishers take turns by bytes: the *turn* of a publisher grows by the
bytes that are taken from it, and the publisher with the lowest turn is next. A publisher that had no waiting items
starts with the current turn of the others. So an item of a publisher that sends little is taken soon, and a publisher
that sends much delays only its own items.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush, heapreplace
from typing import Generic, TypeVar

Item = TypeVar("Item")


class _Publisher(Generic[Item]):
    """The waiting items of one publisher: (bytes, item)."""

    __slots__ = ("items", "key", "size_bytes")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.items: deque[tuple[int, Item]] = deque()
        self.size_bytes = 0

    def take(self, size_bytes: int, taken: list[Item]) -> int:
        """Move its next items to `taken`, `size_bytes` or a little more, or all. Returns the number of their bytes."""
        items = self.items
        used = 0
        while used < size_bytes and items:
            size, item = items.popleft()
            used += size
            taken.append(item)
        self.size_bytes -= used
        return used


class FairQueue(Generic[Item]):
    """Items of publishers; any hashable key names a publisher. Sizes are in bytes, and positive.

    A turn of a publisher takes `turn_bytes` or a little more: with 1 it takes one item, with more it takes a few small
    items at once, which costs less time for each.
    """

    __slots__ = ("_entries", "_publishers", "_turn", "_turn_bytes", "_turns", "items", "size_bytes")

    def __init__(self, turn_bytes: int = 1) -> None:
        self._turn_bytes = turn_bytes
        self.items = 0
        self.size_bytes = 0
        self._publishers: dict[Hashable, _Publisher[Item]] = {}
        self._turns: list[tuple[int, int, _Publisher[Item]]] = []
        """A heap of (turn, number, publisher). A publisher whose last item was taken stays until the others reach its
        turn."""
        self._turn = 0
        self._entries = 0

    def put(self, key: Hashable, size_bytes: int, item: Item) -> None:
        """Add an item behind all items of this publisher."""
        publisher = self._publishers.get(key)
        if publisher is None:
            publisher = self._publishers[key] = _Publisher(key)
            heappush(self._turns, (self._turn, self._entry(), publisher))
        publisher.items.append((size_bytes, item))
        publisher.size_bytes += size_bytes
        self.size_bytes += size_bytes
        self.items += 1

    def take(self, size_bytes: int) -> list[Item]:
        """Take the next items, `size_bytes` or a little more, or all."""
        taken: list[Item] = []
        turns = self._turns
        left = size_bytes
        while left > 0 and len(taken) < self.items:
            turn, _, publisher = turns[0]
            if not publisher.items:
                heappop(turns)
                del self._publishers[publisher.key]
                continue
            used = publisher.take(min(left, self._turn_bytes), taken)
            self._turn = turn
            heapreplace(turns, (turn + used, self._entry(), publisher))
            left -= used
        self.items -= len(taken)
        self.size_bytes -= size_bytes - left
        return taken

    def waits_of(self, key: Hashable) -> int:
        """Return the number of bytes that wait of one publisher."""
        publisher = self._publishers.get(key)
        return 0 if publisher is None else publisher.size_bytes

    def __iter__(self) -> Iterator[Item]:
        """Iterate over all items, one publisher after another."""
        for publisher in self._publishers.values():
            for _, item in publisher.items:
                yield item

    def _entry(self) -> int:
        self._entries += 1
        return self._entries
