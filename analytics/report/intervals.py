"""The intervals of the time axis."""

from __future__ import annotations

from typing import Final

POINTS: Final = 300
"""Most intervals of an axis."""

_LENGTHS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(each * 1_000 for each in (1, 2, 5, 10, 15, 30)),
    *(each * 60_000 for each in (1, 2, 5, 10, 15, 30)),
    *(each * 3_600_000 for each in (1, 2, 3, 6, 12)),
)
_DAY_MS: Final = 86_400_000


def interval_ms(begin_ms: int, end_ms: int) -> int:
    """Returns the shortest round length that cuts a time into at most `POINTS` intervals."""
    for length in _LENGTHS_MS:
        if end_ms // length - begin_ms // length < POINTS:
            return length
    days = (end_ms - begin_ms) // _DAY_MS // (POINTS - 1) + 1
    return days * _DAY_MS
