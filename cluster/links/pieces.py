"""Large items are sent in pieces, so that a frame stays small and heartbeats are sent between two pieces.

The sender cuts an item (`cut`), one piece per frame and lane. The receiver joins the pieces (`Joining`). A lane has at
most one incomplete item, so the memory of the receiver is bounded by the largest item that may exist. When the stream
breaks, or the sender cancels the item, the receiver drops the incomplete item. After a break the sender starts over.
"""

from __future__ import annotations

from io import BytesIO
from typing import Annotated

from msgspec import Meta, Struct

_Count = Annotated[int, Meta(ge=0)]


class Piece(Struct, array_like=True):
    """A part of the item `seq` of a lane: the bytes from `offset` on, of `size` bytes in all."""

    lane: int
    seq: int
    size: _Count
    offset: _Count
    data: bytes

    @property
    def last(self) -> bool:
        """Whether the item ends with this piece."""
        return self.offset + len(self.data) == self.size


class Scattered(Exception):
    """A piece does not continue the incomplete item. The text describes the piece and the incomplete item."""


def cut(lane: int, seq: int, payload: bytes, offset: int, most: int) -> Piece:
    """Returns the piece of an item that begins at `offset`, with at most `most` bytes of data."""
    return Piece(lane, seq, len(payload), offset, payload[offset : offset + most])


class Joining:
    """The incomplete item of one lane. An item of more than `limit` bytes is read to its end, but not kept.

    `BytesIO` returns its content without a copy. Joining a list of 100 MiB would take 70 ms (CPython 3.11), in which
    the node sends no heartbeat.
    """

    __slots__ = ("_buffer", "_got", "_limit", "_seq", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._seq = 0
        self._size = 0
        self._got = 0
        self._buffer = BytesIO()

    @property
    def bytes_held(self) -> int:
        """Bytes of the incomplete item that are in memory."""
        return self._buffer.tell()

    def drop(self) -> None:
        """Forget the incomplete item, if there is one."""
        self._seq = self._size = self._got = 0
        self._buffer = BytesIO()

    def add(self, piece: Piece) -> bytes | None:
        """Take the next piece. Returns the whole item with its last piece, but None if it is larger than the limit.

        Raises `Scattered` if the piece does not follow the one before, is empty, or ends behind the item.
        """
        if piece.offset == 0:
            self.drop()
            self._seq, self._size = piece.seq, piece.size
        if (piece.seq, piece.size, piece.offset) != (self._seq, self._size, self._got):
            raise Scattered(
                f"bytes from {piece.offset} of item {piece.seq} ({piece.size} bytes), "
                f"after {self._got} of item {self._seq} ({self._size} bytes)"
            )
        self._got += len(piece.data)
        if self._got > self._size or not piece.data:
            raise Scattered(f"item {piece.seq} of {piece.size} bytes: a piece of {len(piece.data)} from {piece.offset}")
        kept = self._size <= self._limit
        if kept:
            self._buffer.write(piece.data)
        if self._got < self._size:
            return None
        payload = self._buffer.getvalue() if kept else None
        self.drop()
        return payload
