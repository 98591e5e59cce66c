"""How the time of a run is cut."""

from __future__ import annotations

import pytest

from strogoff.analytics.report.intervals import POINTS, interval_ms

from .reports import BEGIN_MS


@pytest.mark.parametrize(
    ("length_ms", "interval"),
    [(0, 1), (299, 1), (300, 2), (598, 2), (10_000, 50), (3_600_000, 15_000), (40 * 86_400_000, 6 * 3_600_000)],
)
def test_an_axis_has_at_most_300_intervals_of_a_round_length(length_ms: int, interval: int) -> None:
    assert interval_ms(BEGIN_MS, BEGIN_MS + length_ms) == interval


@pytest.mark.parametrize("days", [1, 30, 149, 150, 151, 299, 300, 3_000, 40_000])
@pytest.mark.parametrize("shift", [0, 1, 86_399_999])
def test_no_run_is_too_long(days: int, shift: int) -> None:
    begin, end = BEGIN_MS + shift, BEGIN_MS + shift + days * 86_400_000
    length = interval_ms(begin, end)
    assert end // length - begin // length + 1 <= POINTS
