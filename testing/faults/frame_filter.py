"""Finds MQTT packets in a stream of bytes, and leaves out the packets that a fault drops.

It reads only the fixed header (section 2.1 of both standards), so it does not need the protocol version. It passes
malformed bytes on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

PACKETS = (
    *("CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE"),
    *("SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"),
)
"""The names of the control packets. A packet's type is its position here, counted from 1."""

_MOST_LENGTH_BYTES = 4


class FrameFilter:
    """Filters one direction of one connection.

    When a header is complete, `keep` gets the packet's name and returns whether the packet passes. Bytes of a passing
    packet are not delayed; only an incomplete header, at most four bytes, is held back.
    """

    def __init__(self, keep: Callable[[str], bool]) -> None:
        self._keep = keep
        self._header = bytearray()
        self._left = 0
        self._passing = True
        self._broken = False
        self._over = False

    def feed(self, data: bytes) -> bytes:
        """Returns the bytes that pass, of `data` and of the header that was held back."""
        if self._over:
            return b""
        if self._broken:
            return data
        out = bytearray()
        pos, end = 0, len(data)
        while pos < end:
            if self._left:
                stop = min(end, pos + self._left)
                if self._passing:
                    out += data[pos:stop]
                self._left -= stop - pos
                pos = stop
                continue
            self._header.append(data[pos])
            pos += 1
            if len(self._header) > 1:
                self._look(out)
                if self._over:
                    break
                if self._broken:
                    return bytes(out + data[pos:])
        return bytes(out)

    def end(self) -> None:
        """Drop everything from now on. Within a call of `keep` that includes the packet in question."""
        self._over = True

    def _look(self, out: bytearray) -> None:
        """Decide whether the packet passes, if its header is complete."""
        header = self._header
        if header[-1] > 127:
            if len(header) > _MOST_LENGTH_BYTES:
                self._break(out)
            return
        if not 1 <= header[0] >> 4 <= len(PACKETS):
            self._break(out)
            return
        self._left = sum((byte & 127) << 7 * place for place, byte in enumerate(header[1:]))
        self._passing = self._keep(PACKETS[(header[0] >> 4) - 1])
        if self._passing:
            out += header
        header.clear()

    def _break(self, out: bytearray) -> None:
        """Pass everything from now on: the header is malformed."""
        self._broken = True
        out += self._header
        self._header.clear()
