"""What of a file can be read, and the places of its lines."""

from __future__ import annotations

import gzip
import io
import random
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.analytics import log_content
from strogoff.analytics.event_lines import header_line, row_line, rows_in
from strogoff.analytics.log_content import measure, open_content, places, rows_from

HEADER = header_line("r", "n1", 3)
ROWS = [row_line("node.stop", number, number << 16, 9, {"reason": "x" * number}) for number in range(1, 6)]


def extent_of(content: bytes, complete: bool = True, before: int = 0) -> log_content.Extent:
    return measure(io.BytesIO(content), complete, before)


def packed_extent(content: bytes) -> log_content.Extent:
    with gzip.open(io.BytesIO(content)) as unpacked:
        return measure(unpacked, complete=True)


def test_an_open_file_is_read_up_to_its_last_whole_line() -> None:
    assert extent_of(b"one\ntwo\nthr", complete=False)[:2] == (8, 2)
    assert extent_of(b"one\ntwo\nthr", complete=True)[:2] == (11, 3)
    assert extent_of(b"thr", complete=False)[:2] == (0, 0)
    assert extent_of(b"", complete=True)[:2] == (0, 0)


@given(st.lists(st.binary(max_size=9)), st.integers(0, 40), st.booleans(), st.integers(1, 7))
def test_the_digest_of_what_was_read_before_shows_if_it_is_the_same(
    lines: list[bytes], before: int, complete: bool, block: int
) -> None:
    """Whatever the size of the blocks in which a file comes."""
    content = b"\n".join(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_content, "_BLOCK", block)
        found = extent_of(content, complete, before)
    readable = content if complete else content[: content.rfind(b"\n") + 1]
    assert (found.size, found.damaged) == (len(readable), False)
    assert found.lines == len([*io.BytesIO(readable)])
    assert found.digest == extent_of(readable).digest
    assert found.earlier == (extent_of(readable[:before]).digest if before <= len(readable) else "")


def test_a_damaged_compressed_file_is_read_up_to_its_last_whole_line() -> None:
    lines = [b"%d\n" % random.Random(number).getrandbits(900) for number in range(300)]
    packed = gzip.compress(b"".join(lines))
    found = packed_extent(packed[: len(packed) // 2])
    readable = zlib.decompressobj(wbits=31).decompress(packed[: len(packed) // 2])
    assert found.damaged
    assert found.size == readable.rfind(b"\n") + 1 == len(b"".join(lines[: found.lines]))
    assert 100 < found.lines < 300
    assert packed_extent(b"no gzip")[:2] == (0, 0)
    whole = packed_extent(packed)
    assert (whole.lines, whole.damaged) == (300, False)


def test_the_extent_of_a_compressed_file_with_wrong_bytes_can_be_read() -> None:
    """It ends at most 128 KiB of the file before them: Python reads so much at once."""
    chance = random.Random(1)
    lines = [b"%d\n" % chance.getrandbits(900) for _ in range(6000)]
    packed = gzip.compress(b"".join(lines))
    read = []
    for _ in range(20):
        wrong = bytearray(packed)
        at = chance.randrange(len(packed) // 2, len(packed) - 8)
        wrong[at : at + 4] = chance.randbytes(4)
        found = packed_extent(bytes(wrong))
        with gzip.open(io.BytesIO(wrong)) as unpacked:
            assert len([*places(unpacked, found.size)]) == found.lines
        assert found.damaged
        read.append(found.lines)
    assert min(read) > 500


def test_content_is_found_under_the_name_that_the_file_has_now(tmp_path: Path) -> None:
    path = tmp_path / "boot=1-000001.jsonl"
    for name, content in ((f"{path}.open", b"a"), (str(path), b"a"), (f"{path}.gz", gzip.compress(b"a"))):
        Path(name).write_bytes(content)
        with open_content(tmp_path, path.name) as found:
            assert found.read() == b"a"
        Path(name).unlink()
    with pytest.raises(FileNotFoundError, match="deleted while"):
        open_content(tmp_path, path.name)


def test_lines_have_numbers_and_offsets() -> None:
    assert [*places(io.BytesIO(b"one\n\nthree\nfour"), 11)] == [(1, 0, b"one"), (2, 4, b""), (3, 5, b"three")]
    assert [*places(io.BytesIO(b"one\ntwo"), 7)] == [(1, 0, b"one"), (2, 4, b"two")]
    with pytest.raises(EOFError):
        list(places(io.BytesIO(b"one\n"), 5))


def test_rows_are_those_of_all_lines_with_their_places() -> None:
    lines = [
        HEADER,
        *ROWS[:2],
        b"\n",
        b"no json\n",
        b'{"strogoff_eventlog":99}\n',
        ROWS[2],
        HEADER,
        ROWS[3],
        ROWS[4][:9],
    ]
    content = b"".join(lines)
    found = [*rows_from(io.BytesIO(content), 0, len(content))]
    assert [row for _, row in found] == [*rows_in(lines)]
    assert [place.number for place, _ in found] == [2, 3, 5, 6, 7, 9, 10]
    for place, _ in found:
        assert content[place.offset :].startswith(place.line)
    assert [row.reason for _, row in found if isinstance(row, tuple)] == [
        "not_json",
        "newer_version",
        "no_header",
        "torn",
    ]


def test_rows_behind_an_offset_have_the_header_line_in_front_of_it() -> None:
    content = b"".join([HEADER, *ROWS])
    begin = len(HEADER + ROWS[0] + ROWS[1])
    (*_, last) = rows_from(io.BytesIO(content), 0, len(content))
    found = [*rows_from(io.BytesIO(content), begin, len(content))]
    assert [row["seq"] for _, row in found if isinstance(row, dict)] == [3, 4, 5]
    assert found[-1] == last
