"""Counts how long something took, in buckets of seconds: a histogram for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""From a commit of a quick disk to a node that the others have given up."""


class Durations:
    """Durations since the start. `bounds` are the upper ends of the buckets, in ascending order; the last bucket has
    none. All methods belong to one thread."""

    __slots__ = ("_counts", "at_once", "bounds", "total_s")

    def __init__(self, bounds: Sequence[float] = BOUNDS_S) -> None:
        self.bounds = tuple(bounds)
        self._counts = [0] * (len(self.bounds) + 1)
        self.total_s = 0.0
        """The sum of all durations."""
        self.at_once = 0
        """How many durations were 0. Code on a hot path adds to it instead of a call of `add`."""

    def add(self, took_s: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(self.bounds, took_s)] += 1
        self.total_s += took_s

    @property
    def cumulated(self) -> list[int]:
        """For each bound the number of durations up to it, and at the end the number of all."""
        return [self.at_once + number for number in accumulate(self._counts)]
