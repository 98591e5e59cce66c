"""The event log's writer: the event loop writes rows into shared memory, and a thread takes them to the files.

The loop never waits for a disk. A row is in the ring (`eventlog_ring.py`) when `EventLog` returns, before anything that
follows from it leaves the node: so it survives `kill -9`. The thread writes it to a file within `flush_ms`, or on
`flush`. The next start writes what a killed process has left in its ring.

When less than half of the ring is free, message-level rows are dropped until that is so again; session-level rows are
dropped when nothing is free. If the disk cannot be written, rows are dropped too, and each round tries again. Dropped
rows are counted, and a `log.gap` row with their numbers takes their place.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ...analytics.schema import HEADER, LOGICAL_BITS, MESSAGE_TYPES
from ..reporting.events import Row
from .eventlog_files import HOUR_MS, LogFiles
from .eventlog_ring import SIZE as RING_SIZE
from .eventlog_ring import Rescued, Ring, open_ring

_GAP_ROOM = 1024
"""Bytes of the ring that only rows about dropped rows may use."""

_ROUND = 256 << 10
"""About the most bytes for one write."""

_HEADER = [each.name for each in HEADER]


class _Settings(Protocol):
    def __getitem__(self, key: str, /) -> Any: ...


@dataclass(slots=True)
class _Gap:
    """Consecutive dropped rows, `first` to `last`; `like` is the last of them."""

    first: int
    like: Row
    reason: str

    def row(self) -> Row:
        """Return the `log.gap` row that replaces the dropped rows."""
        last = self.like["seq"]
        header = {name: self.like[name] for name in _HEADER}
        rows = last - self.first + 1
        return header | {"type": "log.gap", "first": self.first, "last": last, "rows": rows, "reason": self.reason}


def _widen(gap: _Gap | None, row: Row, reason: str) -> _Gap:
    if gap is None:
        return _Gap(row["first"] if row["type"] == "log.gap" else row["seq"], row, reason)
    gap.like = row
    return gap


class EventLog:
    """A sink for `Events` that writes JSON lines below `directory`. Its thread runs from construction to `close`.

    Calls come from one thread, the event loop's; `log(level, text)` is called from the writer's, too. Files of at most
    `size` bytes and `age_s` seconds, kept for `keep_days` days (0 = for ever). `ring_size`: bytes of the ring.
    """

    def __init__(
        self,
        directory: Path,
        node: str,
        boot: int,
        log: Callable[[str, str], None],
        *,
        size: int = 64 << 20,
        age_s: int = 3600,
        keep_days: int = 7,
        ring_size: int = RING_SIZE,
        flush_ms: int = 200,
    ) -> None:
        self.written = 0
        """Rows in the files, `log.gap` rows included."""
        self.failing = False
        """True while the disk cannot be written."""
        self._files = LogFiles(directory, node, boot, size=size, age_ms=age_s * 1000, keep_days=keep_days)
        self._log = log
        self._flush_s = flush_ms / 1000
        self._half = ring_size // 2
        self._overflow: _Gap | None = None  # this and the next two are the loop's thread's
        self._overflowed = 0
        self._unencodable = 0
        self._unwritten: _Gap | None = None  # this and the next one are the writer's thread's
        self._failed = 0
        self._encode = msgspec.json.Encoder(enc_hook=str).encode
        self._ring = self._open_ring(directory, node, boot, ring_size)
        self._awake = False
        self._closing = False
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._waiting: deque[threading.Event] = deque()
        self._thread = threading.Thread(target=self._run, name="eventlog", daemon=True)
        self._thread.start()

    @classmethod
    def from_settings(cls, settings: _Settings, node: str, boot: int, log: Callable[[str, str], None]) -> EventLog:
        """The event log as `eventlog.*` in vernemq.conf says."""
        return cls(
            Path(str(settings["eventlog.dir"])),
            node,
            boot,
            log,
            size=int(settings["eventlog.rotation.size"]),
            age_s=int(settings["eventlog.rotation.age"]),
            keep_days=int(settings["eventlog.keep_days"]),
            ring_size=RING_SIZE if settings["eventlog.level"] == "message" else RING_SIZE // 4,
        )

    def _open_ring(self, directory: Path, node: str, boot: int, size: int) -> Ring:
        try:
            ring = open_ring(directory, node, boot, size)
        except OSError as error:
            self._log("warning", f"event log: {error}: a kill of the node loses the last {self._flush_s:g} s of it")
            return Ring(size)
        if ring.rescued is not None:
            self._rescue(directory, node, ring.rescued)
        return ring

    def _rescue(self, directory: Path, node: str, rescued: Rescued) -> None:
        """Write the rows that a killed process has left in its ring to a file of its boot. Its open file gets its final
        name later, from the writer's thread (`LogFiles.adopt_leftovers`)."""
        own = self._files
        files = LogFiles(directory, node, rescued.boot, size=own.size, age_ms=own.age_ms, keep_days=0)
        saved, error = files.rescue(_timed(rescued.lines))
        if error is not None:
            self._log("error", f"event log: {error}: the last events of start {rescued.boot} are lost")
        else:
            self._log(
                "info", f"event log: {saved} events of start {rescued.boot}, which was killed, are in the files now"
            )

    @property
    def lost(self) -> int:
        """Number of dropped rows."""
        return self._overflowed + self._unencodable + self._failed

    def __call__(self, row: Row) -> None:
        """Take a row. Returns at once in every state of the disk, and then the row survives `kill -9`."""
        try:
            line = self._encode(row) + b"\n"
        except (ValueError, OverflowError) as error:  # lone surrogates, integers of more than 64 bits
            self._unencodable += 1
            self._log("error", f"event log: {row['type']} cannot be written: {error}")
            line = self._gap_line(_Gap(row["seq"], row, "unencodable"))
        room = self._half if row["type"] in MESSAGE_TYPES else _GAP_ROOM
        used = 0
        if self._overflow is None or self._end_overflow(room + len(line)):
            used = self._ring.put(line, room)
        if not used:
            self._overflow = _widen(self._overflow, row, "overflow")
            self._overflowed += 1
        elif used > self._half // 2 and not self._hurry.is_set():
            self._hurry.set()
        if not self._awake:
            self._awake = True
            self._wake.set()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything emitted so far was written or given up; False if that took longer than `timeout_s`."""
        done = threading.Event()
        self._end_overflow()
        self._waiting.append(done)
        self._hurry.set()
        self._wake.set()
        return done.wait(timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is left, complete the file, end the thread. A disk that hangs longer than `timeout_s` is left."""
        if self._closing:
            return
        self._end_overflow()
        self._closing = True
        self._hurry.set()
        self._wake.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._log("error", f"event log: the disk hangs: {self._ring.used} bytes of events are not written")

    def _end_overflow(self, room: int = 0) -> bool:
        """Put a row into the ring for the rows that were dropped, if so many bytes are free after it. Returns whether
        no dropped row is without such a row any more."""
        gap = self._overflow
        if gap is not None and self._ring.put(self._gap_line(gap), room):
            self._overflow = None
        return self._overflow is None

    def _gap_line(self, gap: _Gap) -> bytes:
        return self._encode(gap.row()) + b"\n"

    # -- the writer's thread

    def _run(self) -> None:
        self._files.adopt_leftovers()
        closing = False
        while not closing:
            self._wake.wait()
            self._hurry.wait(self._flush_s)  # more may come; a write per row would be dear
            closing = self._closing
            # Cleared before the ring is read: what is added from here on wakes the next round.
            self._hurry.clear()
            self._wake.clear()
            self._awake = False
            waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
            self._round(self._ring.written)
            for done in waiting:
                done.set()
        self._files.close()
        self._ring.close()

    def _round(self, upto: int) -> None:
        """Write the rows of the ring up to this position. After a failure the rest of the round is given up."""
        failed = False
        while self._ring.taken < upto:
            lines = self._ring.next(upto, _ROUND)
            if failed:
                self._give_up(lines)
            else:
                failed = not self._write(lines)
            self._ring.free(self._ring.taken + sum(map(len, lines)))

    def _write(self, lines: list[bytes]) -> bool:
        resuming = self._unwritten
        if resuming is not None:
            lines = [self._gap_line(resuming), *lines]
        done, error = self._files.write(_timed(lines))
        self.written += done
        if resuming is not None and done:
            self._unwritten = None
            self.failing = False
            self._log(
                "warning",
                f"event log: it can be written again; events {resuming.first} to {resuming.like['seq']} are missing",
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
            row = msgspec.json.decode(line)
            self._unwritten = _widen(self._unwritten, row, "disk")
            self._failed += row["type"] != "log.gap"


class _Stamp(msgspec.Struct):
    hlc: int


_stamp = msgspec.json.Decoder(_Stamp).decode


def _timed(lines: list[bytes]) -> list[tuple[int, bytes]]:
    """Returns each line with a time of its hour, in ms since 1970: its own, or that of an earlier line."""
    first, last = [_stamp(line).hlc >> LOGICAL_BITS for line in (lines[0], lines[-1])]
    if first // HOUR_MS == last // HOUR_MS:
        return [(first, line) for line in lines]
    return [(_stamp(line).hlc >> LOGICAL_BITS, line) for line in lines]
