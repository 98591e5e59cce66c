"""The files of the event log: where a line goes, when a new file begins, what is deleted.

    <dir>/date=YYYY-MM-DD/hour=HH/node=<name>/boot=<n>-<part>.jsonl         complete, never touched again
    <dir>/date=YYYY-MM-DD/hour=HH/node=<name>/boot=<n>-<part>.jsonl.open    being written, or left by a crash

Date and hour are UTC and those of the events, never of the moment of writing, so all times here come with the lines and
nothing reads a clock. A file gets its final name in one step, when it is complete: a reader that wants only whole lines
takes `*.jsonl`, one that wants everything takes `*.jsonl.open` too and expects a torn last line in it. Every write ends
at the end of a line; one that failed half way is cut back to there.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

OPEN = ".open"
"""Suffix of a file that is not complete."""

HOUR_MS = 3_600_000
_LONGEST_LINE = 1 << 20
"""How many bytes at the end of a killed process's file are searched for its last whole line."""
_DATE = re.compile(r"date=([0-9]{4}-[0-9]{2}-[0-9]{2})")


def node_folder(node: str) -> str:
    """`node=<name>` with every character that is special in a path, a glob or a URL as %XX."""
    return f"node={quote(node, safe='@')}"


class LogFiles:
    """The files that one boot of one node writes. Used by one thread; no method raises for what a disk can do.

    A file is at most `size` bytes (one longer line is a file of its own), spans at most `age_ms` of event time and one
    hour of the clock. Files of this node older than `keep_days` whole days are deleted, 0 keeps them for ever.
    """

    def __init__(self, directory: Path, node: str, boot: int, *, size: int, age_ms: int, keep_days: int) -> None:
        self.directory = Path(directory)
        self.boot = boot
        self.size = size
        self.age_ms = age_ms
        self.keep_days = keep_days
        self._folder = node_folder(node)
        self._part = 0
        self._handle = -1
        self._path = Path()
        self._bytes = 0
        self._opened_ms = 0
        self._cleaned = ""

    def adopt_leftovers(self) -> int:
        """Give files that earlier boots left open at a crash their final names; returns how many."""
        adopted = 0
        for path in self._ours("date=*", f"boot=*-*.jsonl{OPEN}"):
            if path != self._path and not path.name.startswith(f"boot={self.boot}-"):
                with contextlib.suppress(OSError):  # gone meanwhile, or read-only: it is readable as it is
                    path.rename(path.with_name(path.name.removesuffix(OPEN)))
                    adopted += 1
        return adopted

    def rescue(self, lines: Sequence[tuple[int, bytes]]) -> tuple[int, OSError | None]:
        """Write the last lines of this boot, which was killed, except those that its newest file has already, and
        complete the files. Returns how many lines were written, and the error that stopped the others.
        """
        try:
            written = list(self._ours("date=*", f"boot={self.boot}-*.jsonl*"))
            known = self._last_seq(written[-1]) if written else 0
        except OSError as error:
            return 0, error
        result = self.write([each for each in lines if numbers_of(each[1], self.boot)[1] > known])
        self.close()
        return result

    def _last_seq(self, path: Path) -> int:
        """Cut off the torn last line of a file. Returns the `seq` of the last whole one; 0 if it has none."""
        with path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            begin = file.seek(max(0, size - _LONGEST_LINE))
            rest = file.read()
            end = rest.rfind(b"\n") + 1
            file.truncate(begin + end)
        return numbers_of(rest[rest.rfind(b"\n", 0, end - 1) + 1 : end], self.boot)[1]

    def write(self, lines: Sequence[tuple[int, bytes]]) -> tuple[int, OSError | None]:
        """Append lines, each with its event's time in ms since 1970 and ending in a newline.

        Returns how many are in the files, counted from the first one, and the error that stopped the others.
        """
        done = start = 0
        pending = 0
        try:
            self._reopen_if_deleted()
            for index, (when_ms, line) in enumerate(lines):
                if self._handle < 0 or self._full(when_ms, pending + len(line)):
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
            if self._bytes:
                self._path.rename(self._path.with_name(self._path.name.removesuffix(OPEN)))
            else:
                self._path.unlink()

    def _full(self, when_ms: int, more: int) -> bool:
        other_hour = when_ms // HOUR_MS != self._opened_ms // HOUR_MS
        return other_hour or when_ms - self._opened_ms >= self.age_ms or self._bytes + more > self.size

    def _open(self, when_ms: int) -> None:
        when = datetime.fromtimestamp(when_ms // 1000, UTC)
        folder = self.directory / f"{when:date=%Y-%m-%d}" / f"{when:hour=%H}" / self._folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        self._delete_old(when)
        while True:
            self._part += 1
            final = folder / f"boot={self.boot}-{self._part:06d}.jsonl"
            if final.exists():  # a wiped data directory begins with boot 1 again, its old log may still be here
                continue
            self._path = final.with_name(final.name + OPEN)
            with contextlib.suppress(FileExistsError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                self._handle = os.open(self._path, flags, 0o640)
                self._bytes = 0
                self._opened_ms = when_ms
                return

    def _append(self, lines: Sequence[tuple[int, bytes]]) -> int:
        """Write lines to the open file; raises `_Short` when not all of them fitted."""
        if not lines:
            return 0
        content = b"".join([line for _, line in lines])
        written = 0
        try:
            while written < len(content):
                written += os.write(self._handle, memoryview(content)[written:])
        except OSError as error:
            whole = content.rfind(b"\n", 0, written) + 1
            self._bytes += whole
            with contextlib.suppress(OSError):  # then a torn line stays, and readers know those
                os.ftruncate(self._handle, self._bytes)
            raise _Short(content.count(b"\n", 0, whole), error) from error
        self._bytes += written
        return len(lines)

    def _reopen_if_deleted(self) -> None:
        """Open a new file if the folder was deleted: an operator who deletes it wants to remove only old events."""
        if self._handle >= 0 and os.fstat(self._handle).st_nlink == 0:
            os.close(self._handle)
            self._handle = -1

    def _delete_old(self, now: datetime) -> None:
        today = f"{now:%Y-%m-%d}"
        if not self.keep_days or today == self._cleaned:
            return
        self._cleaned = today
        oldest = f"{now - timedelta(days=self.keep_days):%Y-%m-%d}"
        for day in sorted(self.directory.glob("date=*")):
            match = _DATE.fullmatch(day.name)
            if match is not None and match[1] < oldest:
                self._delete(day.name)

    def _delete(self, day: str) -> None:
        """This node's files of a day, and the folders that are empty then. Other nodes may share the directory."""
        for path in self._ours(day, "boot=*-*.jsonl*"):
            with contextlib.suppress(OSError):  # not empty, or not ours to delete: tried again tomorrow
                path.unlink()
                for folder in list(path.parents)[:3]:
                    folder.rmdir()

    def _ours(self, day: str, names: str) -> Iterator[Path]:
        for hour in sorted(self.directory.glob(f"{day}/hour=*")):
            yield from sorted((hour / self._folder).glob(names))


def numbers_of(line: bytes, boot: int) -> tuple[int, int]:
    """Return the first and the last `seq` that a line of this boot stands for; (0, 0) if it is no such line."""
    try:
        row: Any = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0, 0
    if not isinstance(row, dict) or row.get("boot") != boot or not isinstance(row.get("seq"), int):
        return 0, 0
    return (row["first"] if row.get("type") == "log.gap" else row["seq"]), row["seq"]


class _Short(Exception):
    """A write ended early: `lines` whole lines of it are in the file."""

    def __init__(self, lines: int, error: OSError) -> None:
        super().__init__(lines, error)
        self.lines = lines
        self.error = error
