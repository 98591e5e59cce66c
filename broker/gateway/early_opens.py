"""The OPENs of one gateway that wait: for the table of that gateway, or for the end of a former connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

EARLY_MOST = 10_000
"""The most OPENs of one gateway that wait."""
EARLY_BYTES = 16 << 20
"""The most bytes of them. One OPEN may have `messages.OPENING_BYTES`."""


class Arrival(NamedTuple):
    """The content of an OPEN, and when it arrived, in cluster time in ms."""

    data: bytes
    at: int


class EarlyOpens:
    """The OPENs that wait, by number. They are kept as bytes, so their size is known."""

    def __init__(self) -> None:
        self._opens: dict[int, Arrival] = {}
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._opens)

    def __iter__(self) -> Iterator[int]:
        return iter(self._opens)

    def keep(self, number: int, arrival: Arrival) -> bool:
        """Let an OPEN wait. Returns False if too many wait, or too many bytes."""
        self.pop(number)
        if len(self._opens) >= EARLY_MOST or self._size_bytes + len(arrival.data) > EARLY_BYTES:
            return False
        self._opens[number] = arrival
        self._size_bytes += len(arrival.data)
        return True

    def pop(self, number: int) -> Arrival | None:
        """Remove and return an OPEN; None if it does not wait."""
        arrival = self._opens.pop(number, None)
        if arrival is not None:
            self._size_bytes -= len(arrival.data)
        return arrival

    def pop_all(self) -> dict[int, Arrival]:
        """Remove and return all."""
        opens, self._opens, self._size_bytes = self._opens, {}, 0
        return opens
