"""The writer's side of the event log: rows from the ring to the files. Used by the writer's thread alone.

If the disk cannot be written, rows are given up, and each round tries again. A `log.gap` row takes their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import msgspec

from ...analytics.event_lines import HEADER_BEGIN, row_line
from ...analytics.schema import LOGICAL_BITS
from .eventlog_files import HOUR_MS, LogFiles
from .eventlog_ring import Rescued, Ring

_ROUND = 256 << 10
"""About the most bytes for one write."""

_HEADER_BEGIN = HEADER_BEGIN.encode()


@dataclass(slots=True)
class Gap:
    """Consecutive rows that are missing, `first` to `last`, with the times of the last one."""

    first: int
    last: int
    hlc: int
    mono_ns: int
    reason: str

    def line(self) -> bytes:
        """Return the line of the `log.gap` row that replaces the rows."""
        fields = {"first": self.first, "last": self.last, "rows": self.last - self.first + 1, "reason": self.reason}
        return row_line("log.gap", self.last, self.hlc, self.mono_ns, fields)


def widened(gap: Gap | None, more: Gap) -> Gap:
    """One gap for both; `more` follows `gap`, if there is one."""
    return more if gap is None else Gap(gap.first, more.last, more.hlc, more.mono_ns, gap.reason)


class Drain:
    """Takes the rows of a ring to files, and counts them. `log(level, text)` writes to the log for operators."""

    def __init__(self, ring: Ring, files: LogFiles, log: Callable[[str, str], None]) -> None:
        self.written = 0
        """Rows in the files, `log.gap` rows included."""
        self.lost = 0
        """Rows that were given up."""
        self.failing = False
        """True while the disk cannot be written."""
        self._ring = ring
        self._files = files
        self._log = log
        self._unwritten: Gap | None = None

    def round(self, upto: int) -> None:
        """Write the rows of the ring up to this position. After a failure the rest of the round is given up."""
        failed = False
        while self._ring.taken < upto:
            block = self._ring.next(upto, _ROUND)
            size = 0 if failed else self._write_at_once(block)
            self._ring.free(self._ring.taken + size)
            lines = block[size:].splitlines(keepends=True)
            for is_header, some in grouped(lines):
                size = sum(map(len, some))
                if is_header:
                    self._files.begin(some[-1])
                    self._ring.belong_to(some[-1])
                elif failed:
                    self._give_up(some)
                else:
                    failed = not self._write(some)
                self._ring.free(self._ring.taken + size)

    def _write_at_once(self, block: bytes) -> int:
        """Write rows as they are, if they are of one hour and belong to the open file: to look at each of them takes
        longer than all the rest. Returns how many bytes are written; `_write` takes care of the others."""
        if self._unwritten is not None or _HEADER_BEGIN in block:
            return 0
        last = block.rfind(b"\n", 0, -1) + 1
        begin, end = [_envelope(line).hlc >> LOGICAL_BITS for line in (block[: block.index(b"\n")], block[last:])]
        if begin // HOUR_MS != end // HOUR_MS:
            return 0
        size = self._files.append(begin, block)
        self.written += block.count(b"\n", 0, size)
        return size

    def _write(self, lines: list[bytes]) -> bool:
        resuming = self._unwritten
        if resuming is not None:
            lines = [resuming.line(), *lines]
        done, error = self._files.write(timed(lines))
        self.written += done
        if resuming is not None and done:
            self._unwritten = None
            self.failing = False
            self._log(
                "warning",
                f"event log: it can be written again; events {resuming.first} to {resuming.last} are missing",
            )
        if error is None:
            return True
        if not self.failing:
            self.failing = True
            self._log(
                "error", f"event log: {error}: events are dropped until it can be written; nothing else is affected"
            )
        self._give_up(lines[done:] if done or resuming is None else lines[1:])
        return False

    def _give_up(self, lines: list[bytes]) -> None:
        for line in lines:
            row = _envelope(line)
            if row.kind == "log.gap":
                first = msgspec.json.decode(line, type=_GapRow).first
            else:
                first = row.seq
                self.lost += 1
            self._unwritten = widened(self._unwritten, Gap(first, row.seq, row.hlc, row.mono_ns, "disk"))


def rescue(files: LogFiles, rescued: Rescued) -> tuple[int, OSError | None]:
    """Write the rows of a killed boot, except those that its newest file has already, and complete its files. Returns
    how many rows were written, and the error that stopped the others."""
    saved = 0
    files.begin(rescued.header)
    try:
        known = files.last_seq()
        for is_header, lines in grouped(rescued.lines):
            if is_header:
                files.begin(lines[-1])
                continue
            done, error = files.write(timed([line for line in lines if _envelope(line).seq > known]))
            saved += done
            if error is not None:
                return saved, error
    except OSError as error:
        return saved, error
    finally:
        files.close()
    return saved, None


def grouped(lines: Iterable[bytes]) -> Iterator[tuple[bool, list[bytes]]]:
    """Runs of header lines and runs of rows, in their order; True for the former."""
    for is_header, some in groupby(lines, lambda line: line.startswith(_HEADER_BEGIN)):
        yield is_header, list(some)


def timed(lines: list[bytes]) -> list[tuple[int, bytes]]:
    """Returns each line with a time of its hour, in ms since 1970: its own, or that of an earlier line."""
    if not lines:
        return []
    first, last = [_envelope(line).hlc >> LOGICAL_BITS for line in (lines[0], lines[-1])]
    if first // HOUR_MS == last // HOUR_MS:
        return [(first, line) for line in lines]
    return [(_envelope(line).hlc >> LOGICAL_BITS, line) for line in lines]


class _Envelope(msgspec.Struct, array_like=True):
    kind: str
    seq: int
    hlc: int
    mono_ns: int


class _GapRow(_Envelope, array_like=True):
    first: int


_envelope = msgspec.json.Decoder(_Envelope).decode
