"""Reads and writes LevelDB's write-ahead log with its checksums, because LevelDB's own repair ignores them.

(Test with 1.22: `repair_db` returned one flipped bit in a log as a wrong value, with and without paranoid checks.)

A log is a sequence of blocks of 32 KiB. A block has fragments `crc32c(4) length(2) type(1) payload`. A fragment never
crosses blocks. A record (one write batch) is one full fragment, or a first one, middle ones and a last one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import google_crc32c

BLOCK = 32768
HEADER = 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def checksum(data: bytes) -> int:
    """CRC-32C, masked as LevelDB stores it."""
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@dataclass(slots=True)
class Sifted:
    """The content of a log: whole records in order, and the size of the damage. A tail cut by a crash is no damage."""

    records: list[bytes] = field(default_factory=list)
    dropped_records: int = 0
    dropped_bytes: int = 0


def sift(log: bytes) -> Sifted:
    """The records of a log with right checksums. Each damaged stretch counts as one dropped record, or more."""
    found = Sifted()
    parts: list[bytes] = []  # of the record that is being read
    in_damage = False

    def drop(size: int) -> None:
        nonlocal in_damage
        found.dropped_bytes += size + sum(map(len, parts))
        found.dropped_records += not in_damage
        in_damage = True
        parts.clear()

    for kind, body, size in _fragments(log):
        if body is None:
            drop(size)
            continue
        if kind in (FULL, FIRST):
            if parts:
                drop(0)  # the record before this one never ended
            in_damage = False
        elif not parts:
            drop(size)  # the rest of a record without its beginning
            continue
        parts.append(body)
        if kind in (FULL, LAST):
            found.records.append(b"".join(parts))
            parts.clear()
    return found


def _fragments(log: bytes) -> Iterator[tuple[int, bytes | None, int]]:
    """Yields kind, body (None if damaged) and size of each fragment, without a last one that a crash cut."""
    for at in range(0, len(log), BLOCK):
        block = log[at : at + BLOCK]
        place = 0
        while len(block) - place >= HEADER:
            length = int.from_bytes(block[place + 4 : place + 6], "little")
            kind = block[place + 6]
            end = place + HEADER + length
            if kind == 0 and length == 0:
                break  # reserved and unused space
            if end > len(block):
                if at + BLOCK >= len(log):
                    return
                yield 0, None, len(block) - place
                break
            stored = int.from_bytes(block[place : place + 4], "little")
            sound = FULL <= kind <= LAST and stored == checksum(block[place + 6 : end])
            yield kind, block[place + HEADER : end] if sound else None, end - place
            place = end


def frame(records: list[bytes]) -> bytes:
    """Encode these records as a log."""
    log = bytearray()
    for record in records:
        place = 0
        kinds = (FULL, FIRST)  # kind of the fragment if it is the last of its record, and if it is not
        while place < len(record) or kinds == (FULL, FIRST):
            room = BLOCK - len(log) % BLOCK
            if room < HEADER:
                log += bytes(room)
                room = BLOCK
            part = record[place : place + room - HEADER]
            place += len(part)
            kind = bytes((kinds[0] if place == len(record) else kinds[1],))
            log += checksum(kind + part).to_bytes(4, "little") + len(part).to_bytes(2, "little") + kind + part
            kinds = (LAST, MIDDLE)
    return bytes(log)
