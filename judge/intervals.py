"""Finds the items whose interval contains a stamp, in the time of the items found and the depth of a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

LEAF = 8
"""So few items are looked through one by one."""


class Interval(Protocol):
    """From after `since` until before `until`."""

    @property
    def since(self) -> int:
        """Its begin."""
        ...

    @property
    def until(self) -> int:
        """Its end."""
        ...


T = TypeVar("T", bound=Interval)


class IntervalTree(Generic[T]):
    """The items that contain a middle stamp are at a node, once by begin and once by end; all others are below it."""

    __slots__ = ("_above", "_below", "_by_begin", "_by_end", "_middle")

    def __init__(self, items: Sequence[T]) -> None:
        """Every item must end after its begin."""
        self._below: IntervalTree[T] | None = None
        self._above: IntervalTree[T] | None = None
        self._middle = 0
        here = items
        if len(items) > LEAF:
            self._middle = sorted(each.since for each in items)[len(items) // 2]
            below = [each for each in items if each.until <= self._middle]
            above = [each for each in items if each.since > self._middle]
            here = [each for each in items if each.since <= self._middle < each.until]
            self._below = IntervalTree(below) if below else None
            self._above = IntervalTree(above) if above else None
        self._by_begin = sorted(here, key=lambda each: each.since)
        self._by_end = sorted(here, key=lambda each: -each.until) if len(items) > LEAF else []

    def at(self, stamp: int) -> Iterator[T]:
        """Returns the items with `since < stamp < until`."""
        node: IntervalTree[T] | None = self
        while node is not None:
            if stamp <= node._middle or not node._by_end:
                for each in node._by_begin:
                    if each.since >= stamp:
                        break
                    if stamp < each.until:
                        yield each
            else:
                for each in node._by_end:
                    if each.until <= stamp:
                        break
                    if each.since < stamp:
                        yield each
            node = node._below if stamp <= node._middle else node._above
