"""Numbers, times and lengths as text."""

from __future__ import annotations

import pytest

from strogoff.analytics.report import words

NOON = 1_772_366_400_000


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (2_340, "2.3 s"),
        (60_000, "1 min"),
        (200_500, "3 min 20 s"),
        (3_600_000, "1 h"),
        (90_061_000, "1 d 1 h"),
    ],
)
def test_lengths(ms: int, said: str) -> None:
    assert words.length(ms) == said


def test_numbers() -> None:
    assert words.number(1234567) == "1,234,567"
    assert words.plural(1, "message") == "1 message"
    assert words.plural(0, "message") == "0 messages"
    assert words.plural(2, "entry", "entries") == "2 entries"


def test_times_have_a_date_where_the_axis_has_more_than_one() -> None:
    assert words.date_time(NOON + 7) == "2026-03-01 12:00:00.007"
    assert words.time_within(NOON, NOON, NOON + 1000) == "12:00:00.000"
    assert words.time_within(NOON, NOON, NOON + 86_400_000) == "2026-03-01 12:00:00.000"


def test_a_stamp_that_no_calendar_has_is_no_error() -> None:
    assert words.date_time((1 << 47) - 1) == "6429-10-17 02:45:55.327"
    assert words.date_time(-5).startswith("1970-01-01")


@pytest.mark.parametrize(
    ("us", "said"), [(None, "-"), (0, "0.00 ms"), (420, "0.42 ms"), (9_999, "10.00 ms"), (2_500_000, "2.5 s")]
)
def test_measured_times(us: int | None, said: str) -> None:
    assert words.micros(us) == said


def test_many_names_are_counted() -> None:
    assert words.names(["a", "b"]) == "a, b"
    assert words.names("abcdefgh", 3) == "a, b, c and 5 more"
    assert words.names([]) == ""
