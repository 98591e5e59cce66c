"""Large WebSocket frames as several small ones.

The library keeps a frame until it is complete (RFC 6455 section 5.2). A client may put as many MQTT packets into one
frame as it likes, so a frame may be much larger than a packet. Here each large frame becomes fragments (section 5.4)
before the library reads it: then it keeps one of them at most.
"""

from __future__ import annotations

PIECE_BYTES = 65532
"""A fragment has at most this many bytes of payload. A mask has 4 bytes, and the sender repeats it over the payload.
This is a multiple of 4, so the mask of a frame fits each of its fragments."""

_FIN = 0x80
_MASKED = 0x80
_LENGTH_BYTES = {126: 2, 127: 8}
"""Seven bits of a header -> the number of bytes behind them that have the length instead."""


class FrameSplitter:
    """Splits the frames of one client, whose bytes come in any portions."""

    __slots__ = ("_begin", "_fin", "_left", "_mask", "_rest")

    def __init__(self) -> None:
        self._begin = b""
        """The first bytes of a header that has not arrived."""
        self._left = 0
        """The bytes of the present frame or fragment that have not arrived."""
        self._rest = 0
        """The bytes of the frame behind the present fragment."""
        self._mask = b""
        self._fin = 0

    def split(self, data: bytes, largest: int | None) -> bytes:
        """Returns what the library has to read. A frame of more than `largest` bytes, which it refuses, stays whole."""
        if self._begin:
            data, self._begin = self._begin + data, b""
        parts: list[bytes] = []
        size, copied = len(data), 0
        at = self._skip(0, size)
        while at < size:
            if self._rest:
                parts += data[copied:at], self._fragment(0)
                copied = at
            else:
                begin, at, length = at, *_header(data, at)
                if at > size:
                    self._begin = data[begin:]
                    break
                if length <= PIECE_BYTES or (largest is not None and length > largest):
                    self._left = length
                else:
                    first = data[begin]
                    self._rest, self._fin = length, first & _FIN
                    self._mask = data[at - 4 : at] if data[begin + 1] & _MASKED else b""
                    parts += data[copied:begin], self._fragment(first & ~_FIN)
                    copied = at
            at = self._skip(at, size)
            while at + 6 <= size and not self._rest and _MASKED <= data[at + 1] < _MASKED + 126:
                # nearly all frames are small: their header has 6 bytes
                behind = at + 6 + data[at + 1] - _MASKED
                if behind > size:
                    break
                at = behind
        end = size - len(self._begin)
        if not parts and end == size:
            return data
        parts.append(data[copied:end])
        return b"".join(parts)

    def _skip(self, at: int, size: int) -> int:
        step = min(self._left, size - at)
        self._left -= step
        return at + step

    def _fragment(self, first: int) -> bytes:
        """Returns the header of the next fragment; `first` is its first byte without FIN."""
        self._left = min(self._rest, PIECE_BYTES)
        self._rest -= self._left
        fin = 0 if self._rest else self._fin
        return bytes((first | fin, (_MASKED if self._mask else 0) | 126, *self._left.to_bytes(2, "big"))) + self._mask


def _header(data: bytes, at: int) -> tuple[int, int]:
    """Returns where the header of the frame at a place ends, and the length of its payload. An end behind the data
    means that the rest of the header is missing."""
    if at + 2 > len(data):
        return at + 2, 0
    second = data[at + 1]
    length = second & ~_MASKED
    more = _LENGTH_BYTES.get(length, 0)
    if more:
        length = int.from_bytes(data[at + 2 : at + 2 + more], "big")
    return at + 2 + more + (4 if second & _MASKED else 0), length
