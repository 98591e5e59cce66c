"""A set of numbers, kept as ranges: its memory follows the number of gaps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Numbers:
    """A set of numbers that consists of few ranges."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, number: int) -> None:
        """Add a number."""
        firsts, lasts = self._firsts, self._lasts
        at = bisect_right(firsts, number)
        if at and number <= lasts[at - 1]:
            return
        joins_former = at > 0 and lasts[at - 1] == number - 1
        joins_next = at < len(firsts) and firsts[at] == number + 1
        if joins_former and joins_next:
            del firsts[at], lasts[at - 1]
        elif joins_former:
            lasts[at - 1] = number
        elif joins_next:
            firsts[at] = number
        else:
            firsts.insert(at, number)
            lasts.insert(at, number)

    def drop(self, upto: int) -> None:
        """Remove all numbers up to this one."""
        firsts, lasts = self._firsts, self._lasts
        over = bisect_right(lasts, upto)
        del firsts[:over], lasts[:over]
        if firsts and firsts[0] <= upto:
            firsts[0] = upto + 1

    def within(self, first: int, last: int) -> list[int]:
        """Returns the numbers from `first` to `last`."""
        firsts, lasts = self._firsts, self._lasts
        found: list[int] = []
        at = bisect_left(lasts, first)
        while at < len(firsts) and firsts[at] <= last:
            found += range(max(firsts[at], first), min(lasts[at], last) + 1)
            at += 1
        return found
