"""The content of one file of an event log: how much of it can be read, and its lines with their places.

Places are numbers of lines, and offsets in bytes before compression. They stay the same when the broker completes or
compresses the file. This is plain Python, and runs where the file is read.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from .event_lines import Header, Reject, Row, decode, read_header
from .log_sources import PACKED, SUFFIXES

_BLOCK: Final = 1 << 20
_DIGEST_BYTES: Final = 16
DAMAGED: Final = (EOFError, zlib.error, gzip.BadGzipFile)
"""What the reader of a compressed file raises where the file breaks off."""


class Extent(NamedTuple):
    """How much of a file can be read now: bytes and lines before compression, and the digest of these bytes.

    `earlier` is the digest of as many bytes as were read before; "" if the file is shorter now. `damaged`: the
    compressed file breaks off behind this extent.
    """

    size: int
    lines: int
    digest: str
    earlier: str
    damaged: bool


Decoded = TypeVar("Decoded")


class Place(NamedTuple):
    """A line of a file, with its number from 1 and its offset."""

    number: int
    offset: int
    line: bytes


def open_content(logdir: Path, file: str) -> BufferedIOBase:
    """The content of a source under the name that it has now. Raises FileNotFoundError if it has none any more."""
    for suffix in SUFFIXES:
        path = logdir / (file + suffix)
        try:
            return gzip.open(path) if suffix == PACKED else path.open("rb")
        except FileNotFoundError:
            continue
    raise FileNotFoundError(f"{logdir / file}: deleted while it was to be read")


def measure(content: BufferedIOBase, complete: bool, before: int = 0) -> Extent:
    """The extent of a file. A file that is not complete is read up to its last whole line."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    size = lines = 0
    earlier = digest.hexdigest() if before == 0 else ""
    rest = b""
    damaged = ended = False
    while not ended:
        try:
            block = content.read1(_BLOCK)  # read() would drop what comes before the damage
        except DAMAGED:
            block, damaged = b"", True
        ended = not block
        whole = rest + block
        end = len(whole) if ended and complete and not damaged else whole.rfind(b"\n") + 1
        rest, whole = whole[end:], whole[:end]
        if size < before <= size + len(whole):
            at = before - size
            digest.update(whole[:at])
            earlier = digest.hexdigest()
            digest.update(whole[at:])
        else:
            digest.update(whole)
        size += len(whole)
        lines += whole.count(b"\n") + (ended and whole != b"" and not whole.endswith(b"\n"))
    return Extent(size, lines, digest.hexdigest(), earlier, damaged)


def places(content: BufferedIOBase, end: int) -> Iterator[Place]:
    """The lines up to the offset `end`, without their line ends. Raises EOFError if the content is shorter."""
    number = offset = 0
    while offset < end:
        line = content.readline(end - offset)
        if not line:
            raise EOFError(f"an event log has become shorter than {end} bytes while it was read")
        number += 1
        yield Place(number, offset, line.removesuffix(b"\n"))
        offset += len(line)


def rows_from(content: BufferedIOBase, begin: int, end: int) -> Iterator[tuple[Place, Row | Reject]]:
    """The rows and rejects of the lines from the offset `begin` to `end`, as `event_lines.rows_in` finds them. A header
    line in front of `begin` holds for them."""
    return decoded_from(content, begin, end, decode)


def decoded_from(
    content: BufferedIOBase, begin: int, end: int, decode: Callable[[bytes, Header | None], Decoded]
) -> Iterator[tuple[Place, Decoded | Reject]]:
    """The same with another function that decodes a line under a header."""
    header: Header | None = None
    for place in places(content, end):
        found = read_header(place.line)
        if isinstance(found, Header):
            header = found
            continue
        if isinstance(found, Reject):
            header = None
        if place.offset < begin:
            continue
        if isinstance(found, Reject):
            yield place, found
        elif place.line.strip():
            yield place, decode(place.line, header)
