"""The key of each dot, in the order of dots: to a peer that lacks dots, a node sends only their keys.

The log holds the dots above a *floor*, which rises when every member has seen them. To a peer that lacks a dot at or
below the floor, a node sends every key (`delta_sender.py`). A dot costs two machine words.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

_COMPACT = 4096


class _Row:
    """The log of one actor: counters in order, and their keys. The first `skip` entries are trimmed, but not freed."""

    __slots__ = ("counters", "keys", "skip")

    def __init__(self) -> None:
        self.counters = array("Q")
        self.keys: list[bytes] = []
        self.skip = 0

    def __len__(self) -> int:
        return len(self.keys) - self.skip

    def after(self, counter: int) -> int:
        """Returns the position of the first entry above a counter."""
        return bisect_right(self.counters, counter, self.skip)


class DotLog:
    """All rows, and the floor of each: the counter up to which entries may be missing."""

    __slots__ = ("_rows", "floor")

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self.floor: dict[int, int] = {}

    def __len__(self) -> int:
        return sum(len(row) for row in self._rows.values())

    @property
    def actors(self) -> list[int]:
        """The actors with entries."""
        return list(self._rows)

    def add(self, actor: int, counter: int, key: bytes) -> None:
        """Add a dot, unless it is at or below the floor or known already."""
        row = self._rows.get(actor)
        if row is None:
            row = self._rows[actor] = _Row()
        counters = row.counters
        if not len(row) or counters[-1] < counter:
            if counter > self.floor.get(actor, 0):
                counters.append(counter)
                row.keys.append(key)
            return
        if counter <= self.floor.get(actor, 0):
            return
        position = row.after(counter)
        if position > row.skip and counters[position - 1] == counter:
            return
        counters.insert(position, counter)
        row.keys.insert(position, key)

    def between(self, actor: int, low: int, high: int, limit: int) -> list[tuple[int, bytes]]:
        """Returns at most `limit` entries with low < counter <= high, in order, as (counter, key)."""
        row = self._rows.get(actor)
        if row is None:
            return []
        start = row.after(low)
        stop = min(row.after(high), start + limit)
        return list(zip(row.counters[start:stop], row.keys[start:stop], strict=True))

    def trim(self, actor: int, high: int, limit: int) -> list[tuple[int, bytes]]:
        """Remove at most `limit` entries up to `high` and raise the floor accordingly. Returns the entries."""
        row = self._rows.get(actor)
        entries: list[tuple[int, bytes]] = []
        if row is not None:
            start = row.skip
            stop = min(row.after(high), start + limit)
            entries = list(zip(row.counters[start:stop], row.keys[start:stop], strict=True))
            row.skip = stop
            if not len(row):
                del self._rows[actor]
            elif row.skip > _COMPACT and row.skip > len(row):
                del row.counters[: row.skip]
                del row.keys[: row.skip]
                row.skip = 0
        self.raise_floor(actor, entries[-1][0] if len(entries) == limit else high)
        return entries

    def raise_floor(self, actor: int, counter: int) -> None:
        """Raise the floor: entries up to this counter may be missing from now on."""
        if counter > self.floor.get(actor, 0):
            self.floor[actor] = counter

    def forget(self, actor: int) -> None:
        """Remove the entries and the floor of a folded actor."""
        self._rows.pop(actor, None)
        self.floor.pop(actor, None)
