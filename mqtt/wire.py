"""The data types of the wire (section 1.5 of both standards): integers, variable byte integers, strings, binary data.

Readers take `(data, pos, end)`, never look at `end` or beyond, and return `(value, position after it)`; they raise
`MalformedPacket` and nothing else. Writers return bytes and raise `ValueError` for values that have no encoding.
"""

from __future__ import annotations

from .errors import MalformedPacket

MAX_VARINT = 268_435_455
"""The largest variable byte integer: four bytes of seven bits (section 1.5.5)."""

MAX_LENGTH = 65_535
"""Most bytes of a string or of binary data: their length has two bytes (sections 1.5.4 and 1.5.6)."""


def encode_varint(value: int) -> bytes:
    """A variable byte integer in as few bytes as possible [MQTT5-1.5.5-1]."""
    if 0 <= value < 128:
        return bytes((value,))
    if not 0 <= value <= MAX_VARINT:
        raise ValueError(f"{value} is not a variable byte integer (0 to {MAX_VARINT})")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, pos: int, end: int, what: str) -> tuple[int, int]:
    """A variable byte integer of at most four bytes, none of them superfluous [MQTT5-1.5.5-1]."""
    value = shift = 0
    for at in range(pos, min(pos + 4, end)):
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            if not byte and shift:
                raise MalformedPacket(f"{what} is encoded with more bytes than needed")
            return value, at + 1
        shift += 7
    raise MalformedPacket(f"{what} is longer than four bytes" if shift == 28 else f"the packet ends inside {what}")


def read_u8(data: bytes, pos: int, end: int, what: str) -> tuple[int, int]:
    """One byte."""
    if pos >= end:
        raise MalformedPacket(f"the packet ends before {what}")
    return data[pos], pos + 1


def read_u16(data: bytes, pos: int, end: int, what: str) -> tuple[int, int]:
    """Two bytes, big endian (section 1.5.2)."""
    if pos + 2 > end:
        raise MalformedPacket(f"the packet ends inside {what}")
    return data[pos] << 8 | data[pos + 1], pos + 2


def read_u32(data: bytes, pos: int, end: int, what: str) -> tuple[int, int]:
    """Four bytes, big endian (section 1.5.3)."""
    if pos + 4 > end:
        raise MalformedPacket(f"the packet ends inside {what}")
    return int.from_bytes(data[pos : pos + 4], "big"), pos + 4


def read_binary(data: bytes, pos: int, end: int, what: str) -> tuple[bytes, int]:
    """Binary data: a two-byte length and as many bytes (section 1.5.6)."""
    start = pos + 2
    stop = start + (data[pos] << 8 | data[pos + 1]) if start <= end else end + 1
    if stop > end:
        raise MalformedPacket(f"the packet ends inside {what}")
    return data[start:stop], stop


def read_utf8(data: bytes, pos: int, end: int, what: str) -> tuple[str, int]:
    """A UTF-8 string (section 1.5.4): well-formed, without U+0000; a byte order mark is kept."""
    start = pos + 2
    stop = start + (data[pos] << 8 | data[pos + 1]) if start <= end else end + 1
    if stop > end:
        raise MalformedPacket(f"the packet ends inside {what}")
    return decode_utf8(data[start:stop], what), stop


def decode_utf8(raw: bytes, what: str) -> str:
    """The text of the bytes of a string; raises `MalformedPacket` when they break the rules."""
    try:
        # Strict UTF-8 refuses surrogates, overlong forms and code points above U+10FFFF [MQTT-1.5.3-1] [MQTT5-1.5.4-1],
        # and keeps U+FEFF as a character of the text [MQTT-1.5.3-3] [MQTT5-1.5.4-3].
        text = raw.decode()
    except UnicodeDecodeError:
        raise MalformedPacket(f"{what} is not well-formed UTF-8") from None
    if "\0" in text:
        raise MalformedPacket(f"{what} contains U+0000")  # [MQTT-1.5.3-2] [MQTT5-1.5.4-2]
    return text


def encode_u8(value: int, what: str) -> bytes:
    """One byte."""
    return _unsigned(value, 1, what)


def encode_u16(value: int, what: str) -> bytes:
    """Two bytes, big endian."""
    return _unsigned(value, 2, what)


def encode_u32(value: int, what: str) -> bytes:
    """Four bytes, big endian."""
    return _unsigned(value, 4, what)


def _unsigned(value: int, size: int, what: str) -> bytes:
    if not isinstance(value, int):
        raise ValueError(f"{what} must be a whole number, not {value!r}")
    if not 0 <= value < 1 << 8 * size:
        raise ValueError(f"{what} must be from 0 to {(1 << 8 * size) - 1}, not {value}")
    return value.to_bytes(size, "big")


def encode_binary(value: bytes, what: str) -> bytes:
    """Binary data with its length; at most 65,535 bytes."""
    if not isinstance(value, bytes):
        raise ValueError(f"{what} must be bytes, not {type(value).__name__}")
    if len(value) > MAX_LENGTH:
        raise ValueError(f"{what} has {len(value)} bytes, more than {MAX_LENGTH}")
    return len(value).to_bytes(2, "big") + value


def encode_utf8(value: str, what: str) -> bytes:
    """A UTF-8 string with its length; no U+0000, no surrogates, at most 65,535 bytes (section 1.5.4)."""
    if not isinstance(value, str):
        raise ValueError(f"{what} must be text, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError(f"{what} contains U+0000")  # [MQTT-1.5.3-2] [MQTT5-1.5.4-2]
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} contains a surrogate code point") from None  # [MQTT-1.5.3-1] [MQTT5-1.5.4-1]
    return encode_binary(raw, what)
