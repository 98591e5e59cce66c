"""Stamps (H-17)."""

from __future__ import annotations

from strogoff.cluster.replicated_map.hlc import AHEAD_MS, LOGICAL_BITS, HybridClock


def test_stamps_only_rise() -> None:
    time = [1000.0]
    clock = HybridClock(lambda: time[0])
    first = clock.next()
    time[0] = 1.0
    assert clock.next() == first + 1
    clock.observe(first + 500)
    assert clock.next() > first + 500


def test_a_clock_of_next_year_is_clamped_and_counted() -> None:
    clock = HybridClock(lambda: 1000.0)
    clock.observe((365 * 86_400_000) << LOGICAL_BITS)
    assert clock.clamped == 1
    assert clock.next() >> LOGICAL_BITS == 1000 + AHEAD_MS
