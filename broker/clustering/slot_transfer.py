"""The messages that move the rows of a slot from one node to another (docs/cluster.md#moving-a-slot).

    former node                    new node
    Offer            -->                        the slot may move: this is its row in the slot table
                     <--           Ready
    Piece 0, 1, ...  -->                        the rows of the slot, as one stream of bytes
                     <--           Took 0, 1, ...   the next piece may come; all is on disk
    Drop             -->                        the attempt is over: the slot stays; repeated until it is answered
                     <--           Declined     with the reason

Messages may be lost: the former node repeats its last one. One piece is under way at a time. A row in the stream is the
length of its key and of its value, 4 bytes each, then both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ...cluster.identity import Slot
from ...cluster.links.frames import MalformedFrame

PIECE_BYTES = 64 << 10
"""Bytes in one message."""
ROW_BYTES = 512 << 20
"""The most bytes of one row; no message is larger (MQTT 5.0 section 2.1.4)."""


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """An attempt to move a slot: its row's epoch and version, and a number of the process that makes it."""

    slot: Slot
    epoch: int
    version: int
    number: int


class Offer(msgspec.Struct, tag=1, array_like=True):
    """The former node asks whether this attempt may begin."""

    attempt: Attempt


class Ready(msgspec.Struct, tag=2, array_like=True):
    """It may."""

    attempt: Attempt


class Declined(msgspec.Struct, tag=3, array_like=True):
    """It may not, now or any more."""

    attempt: Attempt
    reason: str


class Piece(msgspec.Struct, tag=4, array_like=True):
    """The next bytes of the stream. `seq` counts from 0."""

    attempt: Attempt
    seq: int
    data: bytes
    last: bool


class Took(msgspec.Struct, tag=5, array_like=True):
    """The next piece may come. If this was the last one, all rows are on disk."""

    attempt: Attempt
    seq: int


class Drop(msgspec.Struct, tag=6, array_like=True):
    """The attempt is over."""

    attempt: Attempt


SlotMessage = Offer | Ready | Declined | Piece | Took | Drop

encode_message = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[SlotMessage] = msgspec.msgpack.Decoder(SlotMessage)


def decode_message(data: bytes) -> SlotMessage:
    """The message. Raises `MalformedFrame`."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedFrame(f"a message about a slot: {error}") from None


def pieces(rows: Iterable[tuple[bytes, bytes]], size: int = PIECE_BYTES) -> Iterator[tuple[bytes, bool]]:
    """Cut the stream of these rows. Yields pieces of `size` bytes, with True for the last one, which may be shorter."""
    gathered = bytearray()
    for key, value in rows:
        gathered += len(key).to_bytes(4, "big") + len(value).to_bytes(4, "big") + key + value
        if len(gathered) >= size:
            whole = len(gathered) // size * size
            for at in range(0, whole, size):
                yield bytes(gathered[at : at + size]), False
            del gathered[:whole]
    yield bytes(gathered), True


class RowStream:
    """The rows of a stream that arrives in pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def take(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows that this piece completes. Raises `MalformedFrame`."""
        rest = self._rest
        rest += data
        at = 0
        while len(rest) - at >= 8:
            key_bytes, value_bytes = (
                int.from_bytes(rest[at : at + 4], "big"),
                int.from_bytes(rest[at + 4 : at + 8], "big"),
            )
            if key_bytes + value_bytes > ROW_BYTES:
                raise MalformedFrame(f"a row of {key_bytes + value_bytes} bytes, {ROW_BYTES} are allowed")
            end = at + 8 + key_bytes + value_bytes
            if len(rest) < end:
                break
            yield bytes(rest[at + 8 : at + 8 + key_bytes]), bytes(rest[at + 8 + key_bytes : end])
            at = end
        del rest[:at]

    @property
    def complete(self) -> bool:
        """True if no row has begun without its end."""
        return not self._rest
