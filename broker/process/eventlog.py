"""The event log's writer: the event loop only appends rows to a queue, and a thread writes them.

The loop never waits. Its rows go into a bounded queue. When the queue is full, message-level rows are dropped until
half of it is free again, and session-level rows only when twice the bound is reached. If the disk cannot be written,
rows are dropped too, and each round tries again. Dropped rows are counted, and a `log.gap` row with their numbers takes
their place.

Rows are in the file (of the system, not of the disk: this survives `kill -9`, not power loss) `flush_ms` after they
were emitted, or on `flush`.
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
from .eventlog_files import LogFiles

QUEUE_LIMIT = 20_000
"""Limit of rows in the queue, above which message-level rows are dropped: some 20 MB, or a second of a fast loop."""

_ROUND = 1000
"""Rows that are encoded for one write."""

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

    Calls come from one thread, the event loop's; `log(level, text)` is called from the writer's. Files of at most
    `size` bytes and `age_s` seconds, kept for `keep_days` days (0 = for ever).
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
        queue_limit: int = QUEUE_LIMIT,
        flush_ms: int = 200,
    ) -> None:
        self.written = 0
        """Rows in the files, `log.gap` rows included."""
        self.failing = False
        """True while the disk cannot be written."""
        self._files = LogFiles(directory, node, boot, size=size, age_ms=age_s * 1000, keep_days=keep_days)
        self._log = log
        self._limit = queue_limit
        self._flush_s = flush_ms / 1000
        self._queue: deque[Row] = deque()
        self._overflow: _Gap | None = None  # this and the next two are the loop's thread's
        self._overflowing = False
        self._overflowed = 0
        self._unwritten: _Gap | None = None  # this and the next one are the writer's thread's
        self._failed = 0
        self._encode = msgspec.json.Encoder(enc_hook=str).encode
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
        )

    @property
    def lost(self) -> int:
        """Number of dropped rows."""
        return self._overflowed + self._failed

    def __call__(self, row: Row) -> None:
        """Take a row. Returns at once in every state of the disk."""
        waiting = len(self._queue)
        if self._overflowing or waiting >= self._limit:
            self._overflowing = waiting > self._limit // 2
            if waiting >= 2 * self._limit or (self._overflowing and row["type"] in MESSAGE_TYPES):
                self._overflow = _widen(self._overflow, row, "overflow")
                self._overflowed += 1
                return
        if self._overflow is not None:
            self._end_overflow()
        self._queue.append(row)
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
        self._end_overflow()
        self._closing = True
        self._hurry.set()
        self._wake.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._log("error", f"event log: the disk hangs: {len(self._queue)} events are not written")

    def _end_overflow(self) -> None:
        gap, self._overflow = self._overflow, None
        if gap is not None:
            self._queue.append(gap.row())

    # -- the writer's thread

    def _run(self) -> None:
        self._files.adopt_leftovers()
        closing = False
        while not closing:
            self._wake.wait()
            self._hurry.wait(self._flush_s)  # more may come; a write per row would be dear
            closing = self._closing
            # Cleared before the queue is read: what is appended from here on wakes the next round.
            self._hurry.clear()
            self._wake.clear()
            self._awake = False
            waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
            self._round(len(self._queue))
            for done in waiting:
                done.set()
        self._files.close()

    def _round(self, count: int) -> None:
        """Write the `count` oldest rows of the queue. After a failure the rest of the round is given up."""
        failed = False
        while count > 0:
            rows = [self._queue.popleft() for _ in range(min(count, _ROUND))]
            count -= len(rows)
            if failed:
                self._give_up(rows)
            else:
                failed = not self._write(rows)

    def _write(self, rows: list[Row]) -> bool:
        resuming = self._unwritten
        if resuming is not None:
            rows = [resuming.row(), *rows]
        done, error = self._files.write([self._line(row) for row in rows])
        self.written += done
        if resuming is not None and done:
            self._unwritten = None
            self.failing = False
            self._log(
                "warning",
                f"event log: it can be written again; events {resuming.first} to {rows[0]['last']} are missing",
            )
        if error is None:
            return True
        if not self.failing:
            self.failing = True
            self._log(
                "error", f"event log: {error}: events are dropped until it can be written; nothing else is affected"
            )
        self._give_up(rows[done:] if done or resuming is None else rows[1:])
        return False

    def _give_up(self, rows: list[Row]) -> None:
        for row in rows:
            self._unwritten = _widen(self._unwritten, row, "disk")
            self._failed += row["type"] != "log.gap"

    def _line(self, row: Row) -> tuple[int, bytes]:
        try:
            line = self._encode(row)
        except (ValueError, OverflowError) as error:  # lone surrogates, integers of more than 64 bits
            self._failed += 1
            self._log("error", f"event log: {row['type']} cannot be written: {error}")
            line = self._encode(_Gap(row["seq"], row, "unencodable").row())
        return row["hlc"] >> LOGICAL_BITS, line + b"\n"
