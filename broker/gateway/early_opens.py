"""The OPENs of one gateway that wait: for the table of that gateway, or for the end of a former connection."""

from __future__ import annotations

from collections.abc import Iterator

EARLY_MOST = 10_000
"""The most OPENs of one gateway that wait."""
EARLY_BYTES = 16 << 20
"""The most bytes of them. One OPEN may have `messages.OPENING_BYTES`."""


class EarlyOpens:
    """The OPENs that wait, by number. They are kept as bytes, so their size is known."""

    def __init__(self) -> None:
        self._opens: dict[int, bytes] = {}
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._opens)

    def __iter__(self) -> Iterator[int]:
        return iter(self._opens)

    def keep(self, number: int, data: bytes) -> bool:
        """Let an OPEN wait. Returns False if too many wait, or too many bytes."""
        self.pop(number)
        if len(self._opens) >= EARLY_MOST or self._size_bytes + len(data) > EARLY_BYTES:
            return False
        self._opens[number] = data
        self._size_bytes += len(data)
        return True

    def pop(self, number: int) -> bytes | None:
        """Remove and return an OPEN; None if it does not wait."""
        data = self._opens.pop(number, None)
        if data is not None:
            self._size_bytes -= len(data)
        return data

    def pop_all(self) -> dict[int, bytes]:
        """Remove and return all."""
        opens, self._opens, self._size_bytes = self._opens, {}, 0
        return opens
