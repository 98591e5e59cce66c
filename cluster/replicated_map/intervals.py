"""Sets of counters as sorted, disjoint spans: `[low, high, low, high, ...]`, each holding low < counter <= high.

Usually a set is one span that begins at 0: all counters up to some number. Writes of one actor arrive in order, so
further spans exist only until a gap is repaired.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

Intervals = list[int]


def add(spans: Intervals, low: int, high: int) -> None:
    """Add low < counter <= high to the set, in place. Does nothing if the span is empty."""
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
    """Returns the largest counter up to which the set has every counter; 0 if it lacks the first one."""
    return spans[1] if spans and spans[0] == 0 else 0


def minus(mine: Intervals, theirs: Intervals) -> list[tuple[int, int]]:
    """Returns the spans of `mine` without `theirs`, in order."""
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
    """Returns the spans as (low, high)."""
    return list(zip(spans[::2], spans[1::2], strict=True))


def valid(spans: Intervals) -> bool:
    """Whether a list from another node is a valid set of spans."""
    return len(spans) % 2 == 0 and (not spans or (spans[0] >= 0 and all(a < b for a, b in pairwise(spans))))
