"""LevelDB's log, as LevelDB writes it, and with every kind of damage."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from strogoff.storage.leveldb_binding import plyvel
from strogoff.storage.leveldb_log import BLOCK, HEADER, checksum, frame, sift

SIZES = (0, 1, 100, BLOCK - HEADER - 1, BLOCK - HEADER, BLOCK - HEADER + 1, BLOCK, 3 * BLOCK + 5, 20)


def records(seed: int) -> list[bytes]:
    rng = Random(seed)
    return [rng.randbytes(rng.choice(SIZES) if rng.random() < 0.3 else rng.randint(0, 3000)) for _ in range(40)]


def test_checksum_is_crc_32c() -> None:
    """The check value of CRC-32C is that of `123456789`; LevelDB stores it rotated, plus a constant."""
    crc = 0xE3069283
    assert checksum(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("seed", range(10))
def test_a_round_trip_changes_nothing(seed: int) -> None:
    wanted = records(seed)
    found = sift(frame(wanted))
    assert (found.records, found.dropped_records, found.dropped_bytes) == (wanted, 0, 0)


@pytest.mark.parametrize("size", SIZES)
def test_each_size_at_the_end_of_a_block(size: int) -> None:
    for rest in range(HEADER * 2 + 1):
        wanted = [bytes(BLOCK - HEADER - rest), bytes(size), b"end"]
        assert sift(frame(wanted)).records == wanted


def test_the_log_that_leveldb_writes(tmp_path: Path) -> None:
    database = plyvel.DB(str(tmp_path), create_if_missing=True)
    values = [Random(n).randbytes(n * 50) for n in range(300)]
    for number, value in enumerate(values):
        database.put(b"%d" % number, value)
    database.close()
    log = next(tmp_path.glob("*.log"))
    found = sift(log.read_bytes())
    assert found.dropped_records == 0
    assert [value in record for value, record in zip(values, found.records, strict=True)] == [True] * 300
    log.write_bytes(frame(found.records))
    database = plyvel.DB(str(tmp_path), paranoid_checks=True)
    assert [database.get(b"%d" % number) for number in range(300)] == values
    database.close()


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_byte_costs_records_and_changes_none(seed: int) -> None:
    rng = Random(seed)
    wanted = records(seed)
    log = bytearray(frame(wanted))
    for _ in range(rng.randint(1, 3)):
        log[rng.randrange(len(log))] ^= 1 << rng.randrange(8)
    found = sift(bytes(log))
    rest = iter(wanted)
    assert all(any(record == other for other in rest) for record in found.records), "a sub-sequence of what was written"


def test_one_damaged_value_costs_one_record() -> None:
    wanted = [b"%03d" % n * 30 for n in range(1000)]
    log = bytearray(frame(wanted))
    log[len(log) // 2] ^= 1
    found = sift(bytes(log))
    assert len(found.records) == 999
    assert found.dropped_records == 1
    assert found.dropped_bytes == 90 + HEADER


def test_a_long_record_damaged_in_one_part_goes_as_a_whole() -> None:
    wanted = [b"first", b"x" * (4 * BLOCK), b"last"]
    for part in range(4):
        log = bytearray(frame(wanted))
        log[part * BLOCK + 1000] ^= 1
        found = sift(bytes(log))
        assert found.records == [b"first", b"last"]
        assert found.dropped_records == 1
        assert 4 * BLOCK - HEADER * 5 <= found.dropped_bytes <= 4 * BLOCK + HEADER * 5


@pytest.mark.parametrize("seed", range(10))
def test_a_tail_cut_short_is_no_damage(seed: int) -> None:
    wanted = records(seed)
    log = frame(wanted)
    found = sift(log[: Random(seed).randrange(len(log))])
    assert found.records == wanted[: len(found.records)]
    assert found.dropped_records == 0
