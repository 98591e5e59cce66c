"""The shared memory of the event log: rows in order at every position, what a kill leaves, and files of others."""

from __future__ import annotations

import os
import shutil
import sys
from collections import deque
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.analytics.event_lines import header_line, row_line
from strogoff.broker.process.eventlog_ring import Ring, open_ring

BOOT = 3
HEADER = header_line("run", "n1", BOOT)


def line(seq: int, reason: str = "") -> bytes:
    return row_line("node.stop", seq, 65536, 5, {"reason": reason})


SIZE = 20_000


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*.ring")
    return path


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Returns a folder in place of /dev/shm."""
    folder = tmp_path / "shm"
    folder.mkdir()
    return folder


def killed(tmp_path: Path, shared: Path, lines: list[bytes], taken: int = 0) -> Path:
    """Returns the file that a killed process leaves with these rows, the first `taken` of which are in files."""
    directory = tmp_path / "log"
    ring = open_ring(directory, "n1", BOOT, HEADER, SIZE, shared)
    for number, each in enumerate(lines):
        assert ring.put(each, 0)
        if number < taken:
            ring.free(ring.written)
    path = only_file(shared)
    shutil.copy(path, tmp_path / "copy")
    ring.close()
    shutil.move(tmp_path / "copy", path)
    return path


def rescued(tmp_path: Path, shared: Path) -> list[bytes] | None:
    ring = open_ring(tmp_path / "log", "n1", BOOT + 1, b"", SIZE, shared)
    found = ring.rescued
    ring.close()
    assert found is None or (found.boot, found.header) == (BOOT, HEADER)
    return None if found is None else found.lines


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=60))
def test_lines_come_out_as_they_went_in(steps: list[tuple[int, bool]]) -> None:
    """A step adds a line of some size, or takes some. A line that has no place changes nothing."""
    size, room = 200, 20
    ring, model = Ring(size), deque[bytes]()
    for number, (length, add) in enumerate(steps):
        held = sum(map(len, model))
        assert ring.used == held
        if add:
            line = bytes([65 + number]) * length + b"\n"
            fits = held + len(line) <= size - room
            assert ring.put(line, room) is fits
            assert (ring.written > ring.crowded) is (ring.used > size // 4)
            if fits:
                model.append(line)
        else:
            lines = ring.next(ring.written, length).splitlines(keepends=True)
            assert lines == list(model)[: len(lines)] and bool(lines) == bool(model)
            assert len(lines) <= 1 or sum(map(len, lines)) <= length
            ring.free(ring.taken + sum(map(len, lines)))
            for _ in lines:
                model.popleft()
    ring.close()


def test_a_ring_is_pressed_from_a_half_until_an_eighth() -> None:
    ring = Ring(800)
    found = []
    for step in (400, 1, -200, -100, -1, 200, 101):
        if step > 0:
            assert ring.put(bytes(step - 1) + b"\n", 0)
        else:
            ring.free(ring.taken - step)
        found.append((ring.used, ring.pressed()))
    assert found == [(400, False), (401, True), (201, True), (101, True), (100, False), (300, False), (401, True)]
    ring.close()


def test_rows_that_no_file_has_survive_a_kill(tmp_path: Path, shared: Path) -> None:
    lines = [line(seq) for seq in range(1, 100) if seq < 20]
    killed(tmp_path, shared, lines[:19], taken=7)
    assert rescued(tmp_path, shared) == lines[7:]
    assert rescued(tmp_path, shared) is None, "an orderly end leaves nothing"


def test_a_row_belongs_to_the_header_line_before_it(tmp_path: Path, shared: Path) -> None:
    """The header line in front is that of the rows at the place up to which they are in files."""
    joined = header_line("joined", "n1", BOOT)
    lines = [line(1), joined, line(2)]
    killed(tmp_path, shared, lines)
    assert rescued(tmp_path, shared) == lines
    ring = open_ring(tmp_path / "log", "n1", BOOT, HEADER, SIZE, shared)
    path = only_file(shared)
    for each in lines:
        ring.put(each, 0)
    ring.free(len(lines[0]))
    ring.belong_to(joined)
    shutil.copy(path, tmp_path / "copy")  # killed here: the line itself still follows
    ring.free(len(lines[0]) + len(joined))
    shutil.copy(path, tmp_path / "later")
    ring.close()
    for name, left in (("copy", lines[1:]), ("later", lines[2:])):
        shutil.move(tmp_path / name, path)
        again = open_ring(tmp_path / "log", "n1", BOOT + 1, b"", SIZE, shared)
        assert again.rescued is not None
        assert (again.rescued.header, again.rescued.lines) == (joined, left)
        again.close()


def test_rows_end_at_the_first_that_does_not_follow(tmp_path: Path, shared: Path) -> None:
    """A file on a disk may have lost some of its pages with the power."""
    gap = row_line("log.gap", 9, 65536, 5, {"first": 3, "last": 9, "rows": 7, "reason": "disk"})
    for odd in (b"\0" * 30 + b"\n", line(10)[:-3] + b"\n", line(12), line(9), b"[1]\n"):
        killed(tmp_path, shared, [line(1), line(2), gap, odd, line(11)])
        assert rescued(tmp_path, shared) == [line(1), line(2), gap]


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"x" * 9000])
def test_another_file_is_overwritten(tmp_path: Path, shared: Path, content: bytes) -> None:
    killed(tmp_path, shared, []).write_bytes(content)
    assert rescued(tmp_path, shared) is None


def test_impossible_positions_are_no_rows(tmp_path: Path, shared: Path) -> None:
    for written, taken in ((SIZE + 1, 0), (5, 6)):
        path = killed(tmp_path, shared, [line(1), line(2)])
        data = bytearray(path.read_bytes())
        data[24:40] = written.to_bytes(8, sys.byteorder) + taken.to_bytes(8, sys.byteorder)
        path.write_bytes(data)
        assert rescued(tmp_path, shared) is None


@pytest.mark.parametrize("obstacle", ["link", "folder", "in use", "no space", "nothing shared"])
def test_a_ring_that_cannot_be_shared_is_in_the_directory(
    tmp_path: Path, shared: Path, obstacle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other users may write into /dev/shm: no link of theirs is followed."""
    path = killed(tmp_path, shared, [])
    first: Ring | None = None
    if obstacle == "in use":
        first = open_ring(tmp_path / "log", "n1", BOOT, HEADER, SIZE, shared)
    else:
        path.unlink()
    if obstacle == "link":
        path.symlink_to(tmp_path / "target")
    elif obstacle == "folder":
        path.mkdir()
    elif obstacle == "nothing shared":
        shared = tmp_path / "missing"
    elif obstacle == "no space":
        allocate = os.posix_fallocate
        refused: list[int] = []

        def full_once(handle: int, offset: int, length: int) -> None:
            if not refused:
                refused.append(handle)
                raise OSError(28, "No space left on device")
            allocate(handle, offset, length)

        monkeypatch.setattr(os, "posix_fallocate", full_once)
    ring = open_ring(tmp_path / "log", "n1", BOOT, HEADER, SIZE, shared)
    assert only_file(tmp_path / "log").stat().st_size == 32768 + SIZE and not (tmp_path / "target").exists()
    ring.close()
    assert list((tmp_path / "log").iterdir()) == []
    if first is not None:
        first.close()


def test_rings_of_directories_that_are_gone_are_deleted(tmp_path: Path, shared: Path) -> None:
    """That of a directory that exists stays: its node may start again."""
    gone = killed(tmp_path, shared, [line(1)])
    (shared / "strogoff-other.ring").write_bytes(b"of somebody else")
    other = tmp_path / "other"
    open_ring(other, "n2", 1, HEADER, SIZE, shared).close()
    assert gone.exists()
    (tmp_path / "log").rmdir()
    ring = open_ring(other, "n2", 1, HEADER, SIZE, shared)
    assert not gone.exists() and (shared / "strogoff-other.ring").exists()
    ring.close()
