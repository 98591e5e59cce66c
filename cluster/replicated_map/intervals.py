"""Sets of counters as sorted, disjoint spans: `[low, high, low, high, ...]`, each holding low < counter <= high.

The ordinary set is one span that begins at 0: everything up to some counter. It stays so small because writes of one
actor arrive in order; other spans exist only between a gap and its repair.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

Intervals = list[int]


def add(spans: Intervals, low: int, high: int) -> None:
    """Put low < counter <= high into the set, in place. Nothing happens when the span is empty."""
    if low >= high:
        return
    if not spans:
        spans += (low, high)
    elif low == spans[-1]:
        spans[-1] = high
    elif low > spans[-1]:
        spans += (low, high)
    else:
        # An odd position is inside a span: keep the edge of that span. Adjacent spans become one.
        first = bisect_left(spans, low)
        last = bisect_left(spans, high + 1)
        spans[first:last] = ([low] if first % 2 == 0 else []) + ([high] if last % 2 == 0 else [])


def has(spans: Intervals, counter: int) -> bool:
    """Whether the set holds a counter."""
    return bisect_left(spans, counter) % 2 == 1


def base(spans: Intervals) -> int:
    """The largest counter up to which nothing is missing."""
    return spans[1] if spans and spans[0] == 0 else 0


def minus(mine: Intervals, theirs: Intervals) -> list[tuple[int, int]]:
    """The spans of `mine` without `theirs`, in order."""
    rest = []
    position = 0
    for low, high in pairs(mine):
        while position < len(theirs) and theirs[position + 1] <= low:
            position += 2
        at = position
        while at < len(theirs) and theirs[at] < high:
            if low < theirs[at]:
                rest.append((low, theirs[at]))
            low = max(low, theirs[at + 1])
            at += 2
        if low < high:
            rest.append((low, high))
    return rest


def pairs(spans: Intervals) -> list[tuple[int, int]]:
    """The spans as (low, high)."""
    return list(zip(spans[::2], spans[1::2], strict=True))


def valid(spans: Intervals) -> bool:
    """Whether a list from another node is a valid set of spans."""
    return len(spans) % 2 == 0 and (not spans or (spans[0] >= 0 and all(a < b for a, b in pairwise(spans))))
