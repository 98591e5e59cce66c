"""The files of the event log: where a line goes, when a new file begins, what is deleted.

    <dir>/date=YYYY-MM-DD/hour=HH/node=<name>/boot=<n>-<part>.jsonl.gz      complete, compressed (eventlog_packing.py)
    <dir>/date=YYYY-MM-DD/hour=HH/node=<name>/boot=<n>-<part>.jsonl         complete, will be compressed
    <dir>/date=YYYY-MM-DD/hour=HH/node=<name>/boot=<n>-<part>.jsonl.open    being written, or left by a crash

Each file begins with its header line, and explains itself (`analytics/event_lines.py`).

Date and hour are UTC and those of the events, never of the moment of writing, so all times here come with the lines and
nothing reads a clock. A file gets its final name in one step, when it is complete: a reader that wants only whole lines
takes `*.jsonl` and `*.jsonl.gz`, one that wants everything takes `*.jsonl.open` too and expects a torn last line in it.
Every write ends at the end of a line; one that failed half way is cut back to there.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ...analytics.event_lines import Header, numbers_of, read_header
from .eventlog_packing import PACKED, PART

OPEN = ".open"
"""Suffix of a file that is not complete."""

HOUR_MS = 3_600_000
_NUMBERS = re.compile(r"boot=([0-9]+)-([0-9]+)\.")
_DATE = re.compile(r"date=([0-9]{4}-[0-9]{2}-[0-9]{2})")


def node_folder(node: str) -> str:
    """`node=<name>` with every character that is special in a path, a glob or a URL as %XX."""
    return f"node={quote(node, safe='@')}"


class Limits(NamedTuple):
    """When a new file begins, and how long files are kept.

    A file is at most `size` bytes (header line and one longer line are a file of their own), spans at most `age_ms` of
    event time and one hour of the clock. Files older than `keep_days` whole days are deleted, and the oldest complete
    files while all have more than `keep_size` bytes; 0 = no limit.
    """

    size: int = 64 << 20
    age_ms: int = HOUR_MS
    keep_days: int = 7
    keep_size: int = 0

    def for_ever(self) -> Limits:
        """The same without any deletion."""
        return self._replace(keep_days=0, keep_size=0)


class LogFiles:
    """The files that one boot of one node writes. Used by one thread; no method raises for what a disk can do.

    `begin` gives the header line before the first `write`. `completed(path)` is called for each file that is complete.
    Only files of this node are deleted.
    """

    def __init__(
        self,
        directory: Path,
        node: str,
        boot: int,
        limits: Limits,
        completed: Callable[[Path], None] = lambda path: None,
        log: Callable[[str, str], None] = lambda level, text: None,
    ) -> None:
        self.bytes = 0
        """Bytes written to files, header lines included."""
        self._directory = Path(directory)
        self._boot = boot
        self._limits = limits
        self._completed = completed
        self._folder = node_folder(node)
        self._header = b""
        self._part = 0
        self._handle = -1
        self._path = Path()
        self._bytes = 0
        self._opened_ms = 0
        self._cleaned = ""
        self._deletions = _Deletions(log)

    def begin(self, header: bytes) -> None:
        """The rows that follow have this header line: they begin a new file."""
        self.close()
        self._header = header

    def adopt_leftovers(self) -> int:
        """Give files that earlier boots left open at a crash their final names, and hand all complete files that are
        not compressed to `completed`. Returns how many got their names."""
        adopted = 0
        with contextlib.suppress(OSError):  # somebody deletes the directory meanwhile
            for path in self._ours("date=*", f"boot=*-*.jsonl{OPEN}"):
                if path != self._path and not path.name.startswith(f"boot={self._boot}-"):
                    with contextlib.suppress(OSError):  # gone meanwhile, or read-only: it is readable as it is
                        path.rename(path.with_name(path.name.removesuffix(OPEN)))
                        adopted += 1
            for path in self._ours("date=*", "boot=*-*.jsonl"):
                self._completed(path)
        return adopted

    def former(self) -> list[Path]:
        """Returns the files of the newest boot before this one that has any, newest first. The directory may have
        files of a data directory that was wiped, with larger numbers of boots."""
        paths = [each for each in self._ours("date=*", "boot=*-*.jsonl*") if not each.name.endswith(PART)]
        before = sorted((each for each in paths if boot_of(each) < self._boot), key=_when, reverse=True)
        return [each for each in before if boot_of(each) == boot_of(before[0])]

    def last_seq(self) -> int:
        """Cut off the torn last line of the newest file of this boot. Returns the `seq` of its last whole line; 0 if
        there is none. Raises OSError."""
        paths = [each for each in self._ours("date=*", f"boot={self._boot}-*.jsonl*") if not each.name.endswith(PART)]
        if not paths:
            return 0
        path = max(paths, key=lambda path: _order(path))
        if path.name.endswith(PACKED):
            try:
                with gzip.open(path) as packed:
                    return _last_seq(packed.readlines())
            except (OSError, EOFError, zlib.error) as error:
                raise OSError(f"{path}: {error}") from error
        with path.open("r+b") as file:
            lines = file.readlines()
            if lines and not lines[-1].endswith(b"\n"):
                file.truncate(file.tell() - len(lines.pop()))
        return _last_seq(lines)

    def append(self, when_ms: int, rows: bytes) -> int:
        """Append rows to the open file if they belong there; all are of one hour, and the first one has this time in ms
        since 1970. Returns how many bytes of whole rows are in it: all, none, or some if the disk fails."""
        try:
            self._reopen_if_deleted()
            if self._handle < 0 or self._full(when_ms, 0, len(rows)):
                return 0
            self._append_bytes(rows)
        except _Short as short:
            self.close()
            return short.size
        except OSError:
            self.close()
            return 0
        return len(rows)

    def write(self, lines: Sequence[tuple[int, bytes]]) -> tuple[int, OSError | None]:
        """Append lines, each with its event's time in ms since 1970 and ending in a newline.

        Returns how many are in the files, counted from the first one, and the error that stopped the others.
        """
        done = start = 0
        pending = 0
        try:
            self._reopen_if_deleted()
            for index, (when_ms, line) in enumerate(lines):
                if self._handle < 0 or self._full(when_ms, pending, len(line)):
                    done += self._append(lines[start:index])
                    self.close()
                    start, pending = index, 0
                    self._open(when_ms)
                pending += len(line)
            done += self._append(lines[start:])
        except _Short as short:
            done += short.lines
            self.close()
            return done, short.error
        except OSError as error:
            self.close()
            return done, error
        return done, None

    def close(self) -> None:
        """Complete the file that is being written, if there is one; the next line begins another."""
        if self._handle < 0:
            return
        handle, self._handle = self._handle, -1
        with contextlib.suppress(OSError):  # a deferred write error of a network disk, or the folder was deleted
            os.close(handle)
            if self._bytes > len(self._header):
                final = self._path.with_name(self._path.name.removesuffix(OPEN))
                self._path.rename(final)
                self._completed(final)
            else:
                self._path.unlink()

    def _full(self, when_ms: int, pending: int, more: int) -> bool:
        size = self._bytes + pending
        too_long = size > len(self._header) and size + more > self._limits.size
        other_hour = when_ms // HOUR_MS != self._opened_ms // HOUR_MS
        return other_hour or when_ms - self._opened_ms >= self._limits.age_ms or too_long

    def _open(self, when_ms: int) -> None:
        when = datetime.fromtimestamp(when_ms // 1000, UTC)
        folder = self._directory / f"{when:date=%Y-%m-%d}" / f"{when:hour=%H}" / self._folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        self._delete_old(when)
        self._delete_beyond_size(when_ms)
        while True:
            self._part += 1
            final = folder / f"boot={self._boot}-{self._part:06d}.jsonl"
            # a wiped data directory begins with boot 1 again, and its old log may still be here
            if final.exists() or final.with_name(final.name + PACKED).exists():
                continue
            self._path = final.with_name(final.name + OPEN)
            with contextlib.suppress(FileExistsError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                self._handle = os.open(self._path, flags, 0o640)
                self._bytes = 0
                self._opened_ms = when_ms
                self._append_bytes(self._header)
                return

    def _append(self, lines: Sequence[tuple[int, bytes]]) -> int:
        """Write lines to the open file; raises `_Short` when not all of them fitted."""
        if lines:
            self._append_bytes(b"".join([line for _, line in lines]))
        return len(lines)

    def _append_bytes(self, content: bytes) -> None:
        written = 0
        try:
            while written < len(content):
                written += os.write(self._handle, memoryview(content)[written:])
        except OSError as error:
            whole = content.rfind(b"\n", 0, written) + 1
            self._bytes += whole
            with contextlib.suppress(OSError):  # then a torn line stays, and readers know those
                os.ftruncate(self._handle, self._bytes)
            raise _Short(content.count(b"\n", 0, whole), whole, error) from error
        finally:
            self.bytes += written
        self._bytes += written

    def _reopen_if_deleted(self) -> None:
        """Open a new file if the folder was deleted: an operator who deletes it wants to remove only old events."""
        if self._handle >= 0 and os.fstat(self._handle).st_nlink == 0:
            os.close(self._handle)
            self._handle = -1

    def _delete_old(self, now: datetime) -> None:
        today = f"{now:%Y-%m-%d}"
        if not self._limits.keep_days or today == self._cleaned:
            return
        self._cleaned = today
        oldest = date.fromordinal(max(1, now.toordinal() - self._limits.keep_days)).isoformat()
        for day in sorted(self._directory.glob("date=*")):
            match = _DATE.fullmatch(day.name)
            if match is not None and match[1] < oldest:
                self._delete(day.name)

    def _delete(self, day: str) -> None:
        """This node's files of a day, and the folders that are empty then. Other nodes may share the directory."""
        for path in self._ours(day, "boot=*-*.jsonl*"):
            _delete_file(path)

    def _delete_beyond_size(self, now_ms: int) -> None:
        """Delete the oldest complete files until the rest, and a file as long as the next may get, is small enough."""
        most = self._limits.keep_size
        if not most:
            return
        sizes: list[tuple[Path, int]] = []
        for path in sorted(self._ours("date=*", "boot=*-*.jsonl*"), key=_when):
            with contextlib.suppress(OSError):  # compressed or deleted meanwhile
                sizes.append((path, path.stat().st_size))
        beyond = sum(size for _, size in sizes) + self._limits.size - most
        for path, size in sizes:
            if beyond <= 0:
                break
            if not path.name.endswith((OPEN, PART)):
                _delete_file(path)
                beyond -= size
                self._deletions.add(path, size)
        self._deletions.say(now_ms)

    def _ours(self, day: str, names: str) -> Iterator[Path]:
        for hour in sorted(self._directory.glob(f"{day}/hour=*")):
            yield from sorted((hour / self._folder).glob(names))


class _Deletions:
    """Says which files were deleted for `eventlog.keep_size`, at most once in an hour of event time."""

    def __init__(self, log: Callable[[str, str], None]) -> None:
        self._log = log
        self._files = self._size = 0
        self._newest = ""
        self._said_ms = -HOUR_MS

    def add(self, path: Path, size: int) -> None:
        """This file was deleted."""
        self._files += 1
        self._size += size
        self._newest = "/".join(path.parts[-4:])

    def say(self, now_ms: int) -> None:
        """Say what is not said yet."""
        if self._files and now_ms - self._said_ms >= HOUR_MS:
            self._log(
                "warning",
                f"event log: eventlog.keep_size is reached: {self._files} files with {self._size} bytes were deleted,"
                f" the last is {self._newest}",
            )
            self._files = self._size = 0
            self._said_ms = now_ms


def _delete_file(path: Path) -> None:
    with contextlib.suppress(OSError):  # a folder is not empty, or not ours to delete: tried again later
        path.unlink()
        for folder in list(path.parents)[:3]:
            folder.rmdir()


def _order(path: Path) -> tuple[int, int]:
    match = _NUMBERS.match(path.name)
    return (int(match[1]), int(match[2])) if match is not None else (0, 0)


def _when(path: Path) -> tuple[tuple[str, ...], tuple[int, int]]:
    """Orders the files of a node by time: those of one hour by boot and part."""
    return path.parts[-4:-2], _order(path)


def boot_of(path: Path) -> int:
    """Returns the boot that wrote a file."""
    return _order(path)[0]


def _last_seq(lines: Sequence[bytes]) -> int:
    header = read_header(lines[0]) if lines else None
    return numbers_of(lines[-1], header if isinstance(header, Header) else None)[1] if lines else 0


class _Short(Exception):
    """A write ended early: `lines` whole lines of it, which have `size` bytes, are in the file."""

    def __init__(self, lines: int, size: int, error: OSError) -> None:
        super().__init__(lines, size, error)
        self.lines = lines
        self.size = size
        self.error = error
