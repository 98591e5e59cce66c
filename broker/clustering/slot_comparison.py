"""Finds where the rows that a follower has kept of a slot differ from those of its primary, in few bytes. No I/O.

A *range* has the rows behind one key up to another one, in the order of `SlotSessions.rows`; b"" as its end stands for
the end of the slot. The primary sends digests of large ranges. The follower answers which of them differ. These are
compared again in small ranges, and of the small ones that differ the primary sends the rows.

What is equal once stays equal: from before the first digest on, the follower gets every change of the primary, in their
order. A row that none of them touches is the same whenever it is read, and one that they touch gets the last of them. A
range may differ only because a change is still under way. That costs some rows, and nothing else: they are those that
the primary has when it sends them, and the changes come again behind them.

Neither side reads much in one turn. The primary reads `STEP` rows for one item, the follower at most twice as much to
answer it. If the follower has more, it says up to which key it has compared, and the primary goes on from there.

Clients may write rows as fast as they are sent. So of a series, such as a queue, the rows are sent up to the one that
is the last when the first item has left: all later ones are changes. Rows that differ and have become more than one
item are compared again.

Measured (CPython 3.11, rows of 70 bytes): a row in a digest takes 0.5 us, and 0.8 us with the reading from LevelDB. So
either side needs 0.4 ms for an item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from ...cluster.links.frames import MalformedFrame
from ...storage.keys import SLOT_KINDS, end_of_series, series_of

DIGEST_BYTES = 16
"""Bytes of a digest."""

RowsBetween = Callable[[bytes, bytes], Iterator[tuple[bytes, bytes]]]
"""Yields the present rows of the slot behind one key up to another; b"" as the second stands for the end."""

LastOfSeries = Callable[[bytes], bytes]
"""Returns the last present key of the series to which a key belongs."""


class Size(NamedTuple):
    """A number of rows, and bytes of their keys and values. What reaches one of both is full."""

    rows: int
    bytes: int

    def is_full(self, rows: int, size: int) -> bool:
        """True if so many rows with so many bytes reach this size."""
        return rows >= self.rows or size >= self.bytes


LEVELS = Size(512, 64 << 10), Size(16, 2 << 10)
"""The sizes of ranges: of the first ones, and of those into which one that differs is split. A digest and a key are
about 60 bytes, so the second digests take a twentieth of the bytes of the rows."""
STEP = LEVELS[0]
"""What the primary reads for one item with digests: one large range, or small ones."""
MOST = 128
"""The most ranges in one item. A step has 65 at most: half of them full by rows, the others by bytes."""
ROWS = len(LEVELS)
"""The level of the ranges whose rows are sent."""


class Digest(msgspec.Struct, frozen=True, array_like=True):
    """A range that begins where the one before it ends. `upto`: its last key, b"" for the end of the slot."""

    upto: bytes
    digest: bytes


class _Range(NamedTuple):
    level: int
    after: bytes
    upto: bytes


class _Asked(NamedTuple):
    """An item that the follower has to answer. `small`: the ranges in it whose rows are sent if they differ."""

    number: int
    level: int
    after: bytes
    digests: list[Digest]
    small: set[int]


class _Hash:
    """The digest of some rows."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=DIGEST_BYTES)
        self.rows = self.bytes = 0

    def add(self, key: bytes, value: bytes) -> None:
        self._hash.update(b"%b%b%b%b" % (len(key).to_bytes(4, "big"), len(value).to_bytes(4, "big"), key, value))
        self.rows += 1
        self.bytes += len(key) + len(value)

    @property
    def digest(self) -> bytes:
        return self._hash.digest()


class Comparison:
    """What a primary still has to send of a slot. `kept`: the follower has rows of it, which are compared first.
    `number`: that of the last item with digests in this attempt.

    One item with digests at a time waits for its answer. Everything before it in the order of the keys was sent.
    """

    def __init__(self, kept: bool, number: int = 0) -> None:
        self.kept = kept
        self.number = number
        self._left = [_Range(0 if kept else ROWS, b"", b"")]
        """The ranges that are left, the next one last."""
        self._asked: _Asked | None = None

    @property
    def waits(self) -> bool:
        """True while digests are not answered."""
        return self._asked is not None

    @property
    def complete(self) -> bool:
        """True if the follower has, or was sent, all rows."""
        return not self._left and self._asked is None

    @property
    def needs_rows(self) -> bool:
        """True if `rows` is the next step."""
        return self._asked is None and bool(self._left) and self._left[-1].level == ROWS

    @property
    def needs_digests(self) -> bool:
        """True if `digests` is the next step."""
        return self._asked is None and bool(self._left) and self._left[-1].level != ROWS

    def rows(
        self, between: RowsBetween, limit: int, last: LastOfSeries | None = None
    ) -> tuple[bytes, bytes, list[bytes]]:
        """Return the next range and its rows as key, value, key, value; it ends when it has `limit` bytes."""
        _, after, end = self._left.pop()
        found: list[bytes] = []
        size = 0
        for key, value in between(after, end):
            found += (key, value)
            size += len(key) + len(value)
            if size >= limit:
                if key != end:
                    self._keep_rest(found[0], key, end, last)
                return after, key, found
        return after, end, found

    def _keep_rest(self, first: bytes, upto: bytes, end: bytes, last: LastOfSeries | None) -> None:
        """An item with the rows from `first` up to `upto` leaves the rest of a range."""
        series = series_of(upto)
        if self.kept:
            self._left.append(_Range(0, upto, end))
        elif end or last is None or not series or series != series_of(first):
            self._left.append(_Range(ROWS, upto, end))
        else:
            self._left.append(_Range(ROWS, end_of_series(series), end))
            if (until := last(upto)) != upto:
                self._left.append(_Range(ROWS, upto, until))

    def digests(self, between: RowsBetween) -> tuple[int, bytes, list[Digest]]:
        """Return the number of the next item with digests, the key behind which its first range begins, and these."""
        level, after, end = self._left.pop()
        digests: list[Digest] = []
        small: set[int] = set()
        seen, size, last, part = 0, 0, after, _Hash()

        def cut(upto: bytes) -> None:
            if part.rows <= LEVELS[-1].rows and part.bytes <= LEVELS[-1].bytes:
                small.add(len(digests))
            digests.append(Digest(upto, part.digest))

        for key, value in between(after, end):
            if STEP.is_full(seen, size):
                self._left.append(_Range(level, last, end))
                cut(last)
                break
            if LEVELS[level].is_full(part.rows, part.bytes):
                cut(last)
                part = _Hash()
            part.add(key, value)
            seen, size, last = seen + 1, size + len(key) + len(value), key
        else:
            cut(end)
        self.number += 1
        self._asked = _Asked(self.number, level, after, digests, small)
        return self.number, after, digests

    def again(self) -> None:
        """The answer may be lost: compare the same rows again."""
        assert self._asked is not None
        self._left.append(_Range(self._asked.level, self._asked.after, self._asked.digests[-1].upto))
        self._asked = None

    def answered(self, number: int, different: Collection[int], compared: bytes | None) -> bool:
        """Take the answer to an item, as `differences` returns it. Returns False for another item than the last one.
        Raises `MalformedFrame`."""
        asked = self._asked
        if asked is None or asked.number != number:
            return False
        end = asked.digests[-1].upto
        if not all(0 <= index < len(asked.digests) for index in different):
            raise MalformedFrame(f"an answer about ranges that the item {number} does not have")
        within = compared is None or (compared and _is_before(asked.after, compared) and _is_before(compared, end))
        if not within:
            raise MalformedFrame(f"an answer about the item {number} up to a key that is not in it: {compared!r:.40}")
        found = []
        for index in sorted(different):
            after = asked.digests[index - 1].upto if index else asked.after
            upto = asked.digests[index].upto
            if compared is not None and _is_before(compared, upto):
                upto = compared
            found.append(_Range(ROWS if index in asked.small else asked.level + 1, after, upto))
        if compared is not None:
            found.append(_Range(asked.level, compared, end))
        self._left += reversed(found)
        self._asked = None
        return True


def differences(between: RowsBetween, after: bytes, digests: list[Digest]) -> tuple[list[int], bytes | None]:
    """Compare the digests of a primary with the rows of a follower. Returns the ranges that differ, by their places in
    the item, and the last key that was compared; None if all were.

    If that key is within a range, this range counts as one that differs up to there.
    """
    different: list[int] = []
    most = Size(2 * STEP.rows, 2 * STEP.bytes)
    seen, size, last = 0, 0, after
    for index, sent in enumerate(digests):
        part = _Hash()
        for key, value in between(after, sent.upto):
            if most.is_full(seen, size):
                return different + [index] * (part.rows > 0), last
            part.add(key, value)
            seen, size, last = seen + 1, size + len(key) + len(value), key
        if part.digest != sent.digest:
            different.append(index)
        after = last = sent.upto
    return different, None


def _is_before(key: bytes, end: bytes) -> bool:
    """True if a key is before the end of a range, in the order of the rows."""
    return not end or _place(key) < _place(end)


def _place(key: bytes) -> tuple[int, bytes]:
    return SLOT_KINDS.find(key[:1]), key
