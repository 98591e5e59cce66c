"""Finds MQTT packets in a stream of bytes, and leaves out those that somebody does not want to pass.

Only the fixed header is read (section 2.1 of both standards), so it needs no version and passes malformed bytes on as
they are: what the broker says to those is not this module's business.
"""

from __future__ import annotations

from collections.abc import Callable

PACKETS = (
    *("CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE"),
    *("SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"),
)
"""The names of the control packets; the type of a packet is its place here, from 1."""

_MOST_LENGTH_BYTES = 4


class FrameFilter:
    """One direction of one connection. `keep` is asked once for each packet, with its name, when its header is there.

    Bytes of a packet that passes go on as they come; at most four bytes of an incomplete header are held back.
    """

    def __init__(self, keep: Callable[[str], bool]) -> None:
        self._keep = keep
        self._header = bytearray()
        self._left = 0
        self._passing = True
        self._broken = False
        self._over = False

    def feed(self, data: bytes) -> bytes:
        """What of `data`, and of what was held back, goes on."""
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
        """Nothing more goes on, from the packet on that is asked about."""
        self._over = True

    def _look(self, out: bytearray) -> None:
        """Decide about the packet, once its length is known."""
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
        """This is no MQTT: everything from here on passes."""
        self._broken = True
        out += self._header
        self._header.clear()
