"""Numbers, times and lengths as a reader of the page gets them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS: Final = 86_400_000
_UNITS: Final = ((_DAY_MS, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def number(value: int) -> str:
    """Returns a number with commas, such as `12,345`."""
    return f"{value:,}"


def plural(value: int, one: str, many: str = "") -> str:
    """Returns a number with its noun: `1 message`, `2 messages`."""
    return f"{number(value)} {one if value == 1 else many or f'{one}s'}"


def date_time(ms: int) -> str:
    """Returns date and time to the ms, such as `2026-03-01 12:00:00.250`. The 48 bits of a stamp fit any calendar."""
    ms = max(ms, 0)
    return (_EPOCH + timedelta(milliseconds=ms)).strftime("%Y-%m-%d %H:%M:%S.") + f"{ms % 1000:03d}"


def time_within(ms: int, begin_ms: int, end_ms: int) -> str:
    """Returns a time of an axis: without the date where the axis is within one day."""
    one_day = begin_ms // _DAY_MS == end_ms // _DAY_MS
    return date_time(ms)[11:] if one_day else date_time(ms)


def length(ms: int) -> str:
    """Returns a length of time in its two largest units, such as `421 ms`, `2.3 s`, `3 min 20 s`."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s".replace(".0 ", " ")
    parts = []
    for size, unit in _UNITS:
        if ms >= size:
            parts.append(f"{ms // size} {unit}")
            ms %= size
    return " ".join(parts[:2])


def micros(us: int | None) -> str:
    """Returns a time that was measured in us, in ms: `0.42 ms`."""
    if us is None:
        return "-"
    return f"{us / 1000:.2f} ms" if us < 10_000 else length(us // 1000)


def names(all_names: Iterable[str], most: int = 6) -> str:
    """Returns names in a row; behind the first ones their number stands for the others."""
    listed = list(all_names)
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")
