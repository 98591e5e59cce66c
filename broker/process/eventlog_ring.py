"""The newest rows of the event log, in shared memory: they survive `kill -9`, and no disk delays them.

The event loop writes each row here, before anything that follows from it leaves the node. The writer's thread takes the
rows from here to the files. After a kill the next start of the node finds here what the thread had not taken.

    /dev/shm/strogoff-<hash of directory and node>.ring     memory of the system; gone after a reboot
    <directory>/<hash>.ring                                 where there is no /dev/shm, or no space in it

    magic, 16 bytes | boot | written | taken | length and bytes of the directory's path
    from byte 4096: length and bytes of the header line of the rows at `taken`
    from byte 32640: length and bytes of the id of the kernel's boot under which the process ran
    from byte 32768: lines, among them the header lines of later runs

Numbers have 8 bytes in the machine's order. `written` and `taken` count bytes of lines since the start. A line is
written before `written` rises, so a kill leaves whole lines. The space is allocated at once: a full file system refuses
the file, and no later write can fail.

The header line in front is replaced when `taken` stands before the header line that replaces it. So it does not matter
whether a kill comes before, during or after that: the rows are those behind the header line at `taken`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import stat
import struct
import sys
from pathlib import Path
from typing import NamedTuple

from ...analytics.event_lines import Header, Reject, decode, numbers_of, read_header

SHARED = Path("/dev/shm")
SIZE = 4 << 20
"""Bytes for rows: about 40,000 rows of level `message`."""

_LAST = 64 << 10
"""Bytes in which the last row is looked for. Longer rows are rare."""

_MAGIC = b"strogoff rows 2\n"
_HEADER_AT = 4096
_KERNEL_AT = 32640
_BEGIN = 32768
_NUMBERS = slice(16, 40)
_BOOT, _WRITTEN, _TAKEN = range(3)
_PATH_AT = 40


class Rescued(NamedTuple):
    """What a killed process has left: the number of its start, the header line of its rows, and the lines that are not
    known to be in a file. A header line among them is that of the rows behind it. `last_seq` and `last_stamp`: those
    of its last row, which may be in a file; 0 if it cannot be read. `kernel`: id of the kernel's boot under which it
    ran, "" if unknown. `crowded`: rows may have been dropped for lack of space, and nobody has said so."""

    boot: int
    header: bytes
    lines: list[bytes]
    last_seq: int = 0
    last_stamp: int = 0
    kernel: str = ""
    crowded: bool = False


class RingFile:
    """The file of a ring, allocated and locked. Raises `OSError` if it cannot be used, for example because another
    process has it."""

    def __init__(self, path: Path, directory: Path, boot: int, header: bytes, size: int) -> None:
        self._path = path
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _check_owner(self.handle)
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.rescued = _rescue(self.handle)
            os.ftruncate(self.handle, 0)
            os.posix_fallocate(self.handle, 0, _BEGIN + size)
            name = os.fsencode(directory)[: _HEADER_AT - _PATH_AT - 8]
            head = struct.pack("=3QQ", boot, 0, 0, len(name)) + name
            os.pwrite(self.handle, head, _NUMBERS.start)
            os.pwrite(self.handle, _sized(header), _HEADER_AT)
            os.pwrite(self.handle, _MAGIC, 0)
        except BaseException:
            os.close(self.handle)
            raise

    def run_under(self, kernel: str) -> None:
        """The process runs under this boot of the kernel."""
        os.pwrite(self.handle, _sized(kernel.encode())[: _BEGIN - _KERNEL_AT], _KERNEL_AT)

    def delete(self) -> None:
        """Delete the file."""
        with contextlib.suppress(OSError):  # somebody has deleted it already
            self._path.unlink()
        os.close(self.handle)


class Ring:
    """The rows of one boot of one node. `put` belongs to the loop's thread, the rest to the writer's.

    Without a file the rows are in the memory of this process alone. `rescued`: what the last process of the node has
    left in the file.
    """

    def __init__(self, size: int, file: RingFile | None = None) -> None:
        self.rescued = None if file is None else file.rescued
        self.written = 0
        """Bytes of all rows so far; in `_numbers`, too, which take longer to read."""
        self.crowded = size // 4
        """Where a quarter of the ring is full: if `written` is larger, it is time to take rows."""
        self.reserve = size // 4
        """Bytes that rows of level `message` leave free."""
        self._file = file
        self._size = size
        self._at = _BEGIN
        self._end = _BEGIN + size
        self._limit = size
        self._pressed = False
        self._memory = mmap.mmap(-1 if file is None else file.handle, _BEGIN + size)
        self._numbers = memoryview(self._memory)[_NUMBERS].cast("Q")

    @property
    def used(self) -> int:
        """Bytes of rows that no file has yet."""
        return self.written - self.taken

    @property
    def taken(self) -> int:
        """Bytes of all rows so far that are in files, or given up."""
        return self._numbers[_TAKEN]

    def pressed(self) -> bool:
        """Returns whether the thread does not keep up: from when half of the ring is full, until an eighth is."""
        free = self._limit - self.written
        self._pressed = free < (self._size - self._size // 8 if self._pressed else self._size // 2)
        return self._pressed

    def put(self, line: bytes, room: int) -> bool:
        """Add a line. Returns False, without effect, if not `room` bytes would be free after it."""
        written = self.written + len(line)
        if written > self._limit - room:
            return False
        at = self._at
        end = at + len(line)
        if end > self._end:
            left = self._end - at
            self._memory[at : self._end] = line[:left]
            line = line[left:]
            at, end = _BEGIN, _BEGIN + len(line)
        self._memory[at:end] = line
        self._at = end
        self.written = self._numbers[_WRITTEN] = written
        return True

    def next(self, upto: int, most: int) -> bytes:
        """Returns the next whole lines up to this position, at most `most` bytes of them, but at least one."""
        at = self._numbers[_TAKEN]
        block = _part(self._memory, self._size, at, min(most, upto - at))
        if at + len(block) < upto:
            block = block[: block.rfind(b"\n") + 1]
            if not block:  # the next line alone is longer
                block = _part(self._memory, self._size, at, upto - at)
                block = block[: block.index(b"\n") + 1]
        return block

    def free(self, upto: int) -> None:
        """The rows up to this position need no place any more."""
        self._numbers[_TAKEN] = upto
        self._limit = upto + self._size
        self.crowded = upto + self._size // 4

    def belong_to(self, header: bytes) -> None:
        """This line, which is the next one in the ring, is the header line of the rows behind it."""
        text = _sized(header)
        self._memory[_HEADER_AT : _HEADER_AT + len(text)] = text

    def run_under(self, kernel: str) -> None:
        """Note the id of this boot of the kernel; call this before the first row. The next start can then tell a kill
        from a loss of power, which may have cost a part of a file on a disk."""
        if self._file is not None:
            self._file.run_under(kernel)

    def close(self) -> None:
        """Delete the file. Rows that are still there are lost, and so are later ones: the loop may add some while the
        thread ends, so the memory is freed with this object."""
        if self._file is not None:
            self._file.delete()


def open_ring(directory: Path, node: str, boot: int, header: bytes, size: int = SIZE, shared: Path = SHARED) -> Ring:
    """Open the ring of a node, in shared memory if possible. `header`: the header line of its first rows. Raises
    `OSError` if no place is usable."""
    directory = directory.absolute()
    name = hashlib.sha256(f"{directory}\0{node}".encode()).hexdigest()[:32]
    with contextlib.suppress(OSError):  # the disk may be full; a ring without its directory would be swept
        directory.mkdir(parents=True, exist_ok=True, mode=0o750)
    if shared.is_dir():
        _sweep(shared)
        with contextlib.suppress(OSError):
            return Ring(size, RingFile(shared / f"strogoff-{name}.ring", directory, boot, header, size))
    return Ring(size, RingFile(directory / f"{name}.ring", directory, boot, header, size))


def _sweep(shared: Path) -> None:
    """Delete the rings of this user's killed processes whose directory does not exist any more."""
    for path in shared.glob("strogoff-*.ring"):
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                _check_owner(handle)
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                head = os.pread(handle, _BEGIN, 0)
                name = head[_PATH_AT + 8 :][: int.from_bytes(head[_PATH_AT : _PATH_AT + 8], sys.byteorder)]
                if head.startswith(_MAGIC) and not os.path.exists(name):
                    path.unlink()
            finally:
                os.close(handle)


def _check_owner(handle: int) -> None:
    """Raise `PermissionError` unless the file is a plain one of this user: others may write into `/dev/shm`."""
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError("the ring of the event log is not a file of this user")


def _rescue(handle: int) -> Rescued | None:
    """Returns what is in the file of a killed process; None if there is nothing. A file on a disk may have lost a part
    of its pages with the power: the lines end at the first one that does not follow the one before it."""
    size = os.fstat(handle).st_size - _BEGIN
    if size <= 0:
        return None
    with mmap.mmap(handle, _BEGIN + size, access=mmap.ACCESS_READ) as memory:
        if memory[: len(_MAGIC)] != _MAGIC:
            return None
        boot, written, taken = struct.unpack("=3Q", memory[_NUMBERS])
        if not 0 <= written - taken <= size:
            return None
        text = _part(memory, size, taken, written - taken)
        front = _sized_at(memory, _HEADER_AT, _KERNEL_AT)
        kernel = _sized_at(memory, _KERNEL_AT, _BEGIN).decode("ascii", "replace")
        # rows stay in the memory when they are in files
        length = min(written, _LAST, size)
        end = _part(memory, size, written - length, length)
    lines = _whole_lines(text, front)
    last_seq, last_stamp = _last_row(end.splitlines() if written == taken else lines, front)
    crowded = written - taken > max(size - size // 4 - _LAST, size // 4)
    return Rescued(boot, front, lines, last_seq, last_stamp, kernel, crowded)


def _last_row(lines: list[bytes], front: bytes) -> tuple[int, int]:
    """`seq` and stamp of the last row; zeros if there is none, or if it cannot be read."""
    header = next((each for line in (*reversed(lines), front) if isinstance(each := read_header(line), Header)), None)
    for line in reversed(lines):
        if read_header(line) is None:
            row = decode(line, header)
            return (0, 0) if isinstance(row, Reject) else (row["seq"], row["hlc"])
    return 0, 0


def _whole_lines(text: bytes, front: bytes) -> list[bytes]:
    lines: list[bytes] = []
    header, last = read_header(front), 0
    for line in text.splitlines(keepends=True):
        found = read_header(line)
        if found is not None:
            header = found
        else:
            first, seq = numbers_of(line, header if isinstance(header, Header) else None)
            if not seq or (last and first != last + 1):
                break
            last = seq
        lines.append(line)
    return lines if last else []


def _sized_at(memory: mmap.mmap, at: int, end: int) -> bytes:
    length = int.from_bytes(memory[at : at + 8], sys.byteorder)
    return memory[at + 8 : min(at + 8 + length, end)]


def _sized(text: bytes) -> bytes:
    return len(text).to_bytes(8, sys.byteorder) + text


def _part(memory: mmap.mmap, size: int, position: int, length: int) -> bytes:
    at = position % size
    end = at + length
    if end <= size:
        return memory[_BEGIN + at : _BEGIN + end]
    return memory[_BEGIN + at : _BEGIN + size] + memory[_BEGIN : _BEGIN + end - size]
