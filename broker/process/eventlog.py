"""The event log: the event loop writes rows into shared memory, and a thread takes them to the files.

The loop never waits for a disk. A row is in the ring (`eventlog_ring.py`) when `EventLog` returns, before anything that
follows from it leaves the node: so it survives `kill -9`. The thread writes it to a file within `flush_ms`, or on
`flush`. The next start writes what a killed process has left in its ring.

When half of the ring is full, the log is `pressed`: no further message gets rows (`broker/reporting/choice.py`) until
only an eighth is full. The next quarter is for the rows of messages that are under way. When less than a quarter is
free, message-level rows are dropped until that is so again; session-level rows are dropped when nothing is free.
Dropped rows are counted, and a `log.gap` row with their numbers takes their place.
"""

from __future__ import annotations

import threading
import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ...analytics.event_lines import header_line, row_line
from ...analytics.schema import MESSAGE, MESSAGE_TYPES, SESSION
from .eventlog_files import Limits, LogFiles
from .eventlog_former import FormerLog, former_log
from .eventlog_packing import Packer
from .eventlog_ring import SIZE as RING_SIZE
from .eventlog_ring import Rescued, Ring, open_ring
from .eventlog_writer import Drain, Gap, rescue, widened

_GAP_ROOM = 1024
"""Bytes of the ring that only rows about dropped rows may use."""


class _Settings(Protocol):
    def __getitem__(self, key: str, /) -> Any: ...


class EventLog:
    """A writer for `Events` that writes the files below `directory`. Its thread runs from construction to `close`.

    Calls come from one thread, the event loop's; `log(level, text)` is called from the writer's, too. `ring_size`:
    bytes of the ring. `kernel`: id of this boot of the kernel, "" if there is none. `former`: what is known of the log
    of the boot before; None without one.
    """

    def __init__(
        self,
        directory: Path,
        run_id: str,
        node: str,
        boot: int,
        log: Callable[[str, str], None],
        *,
        limits: Limits | None = None,
        ring_size: int = RING_SIZE,
        flush_ms: int = 200,
        kernel: str = "",
    ) -> None:
        self._whose = (node, boot)
        self._log = log
        self._flush_s = flush_ms / 1000
        self._new_run: bytes | None = None  # this and the next three are the loop's thread's
        self._overflow: Gap | None = None
        self._behind = False
        self._lost = 0
        header = header_line(run_id, node, boot)
        limits = limits or Limits()
        self._ring = self._open_ring(directory, header, ring_size, limits)
        self._packer = Packer()
        self._files = LogFiles(directory, node, boot, limits, self._packer.add, log)
        self._files.begin(header)
        self._ring.run_under(kernel)
        self.former = self._look_back(kernel)
        self._drain = Drain(self._ring, self._files, log)
        self._awake = False
        self._closing = False
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._waiting: deque[threading.Event] = deque()
        self._thread = threading.Thread(target=self._run, name="eventlog", daemon=True)
        self._thread.start()

    @classmethod
    def from_settings(
        cls,
        settings: _Settings,
        run_id: str,
        node: str,
        boot: int,
        log: Callable[[str, str], None],
        kernel: str = "",
        level: int = SESSION,
    ) -> EventLog:
        """The event log as `eventlog.*` in vernemq.conf says; `level` is that of the start. `kernel` as in the
        constructor."""
        limits = Limits(
            size=int(settings["eventlog.rotation.size"]),
            age_ms=int(settings["eventlog.rotation.age"]) * 1000,
            keep_days=int(settings["eventlog.keep_days"]),
            keep_size=int(settings["eventlog.keep_size"]),
        )
        directory = Path(str(settings["eventlog.dir"]))
        ring_size = RING_SIZE if level == MESSAGE else RING_SIZE // 4
        return cls(directory, run_id, node, boot, log, limits=limits, ring_size=ring_size, kernel=kernel)

    def _open_ring(self, directory: Path, header: bytes, size: int, limits: Limits) -> Ring:
        node, boot = self._whose
        try:
            ring = open_ring(directory, node, boot, header, size)
        except OSError as error:
            self._log("warning", f"event log: {error}: a kill of the node loses the last {self._flush_s:g} s of it")
            return Ring(size)
        if ring.rescued is not None and ring.rescued.lines:
            self._rescue(directory, ring.rescued, limits)
        return ring

    def _look_back(self, kernel: str) -> FormerLog | None:
        try:
            return former_log(self._files.former(), self._ring.rescued, kernel)
        except (OSError, EOFError, zlib.error) as error:
            self._log("warning", f"event log: {error}: the end of the start before is not known")
            return FormerLog(0, True)

    def _rescue(self, directory: Path, rescued: Rescued, limits: Limits) -> None:
        """Write the rows that a killed process has left in its ring to a file of its boot. Its open file gets its final
        name later, from the writer's thread (`LogFiles.adopt_leftovers`)."""
        saved, error = rescue(LogFiles(directory, self._whose[0], rescued.boot, limits.for_ever()), rescued)
        if error is not None:
            self._log("error", f"event log: {error}: the last events of start {rescued.boot} are lost")
        else:
            self._log(
                "info", f"event log: {saved} events of start {rescued.boot}, which was killed, are in the files now"
            )

    @property
    def written(self) -> int:
        """Rows in the files, `log.gap` rows included."""
        return self._drain.written

    @property
    def bytes(self) -> int:
        """Bytes written to the files, before they are compressed."""
        return self._files.bytes

    @property
    def lost(self) -> int:
        """Number of dropped rows."""
        return self._lost + self._drain.lost

    @property
    def pressed(self) -> bool:
        """True while the thread does not keep up: from when half of the ring is full until an eighth is."""
        return self._ring.pressed()

    @property
    def failing(self) -> bool:
        """True while the disk cannot be written."""
        return self._drain.failing

    def write(self, kind: str, seq: int, hlc: int, mono_ns: int, fields: dict[str, Any], /) -> None:
        """Take a row. Returns at once in every state of the disk, and then the row survives `kill -9`."""
        try:
            line = row_line(kind, seq, hlc, mono_ns, fields)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            self._lost += 1
            self._log("error", f"event log: {kind} cannot be written: {error}")
            line = Gap(seq, seq, hlc, mono_ns, "unencodable").line()
        ring = self._ring
        room = ring.reserve if kind in MESSAGE_TYPES else _GAP_ROOM
        if (self._behind and not self._catch_up(room + len(line))) or not ring.put(line, room):
            self._behind = True
            self._overflow = widened(self._overflow, Gap(seq, seq, hlc, mono_ns, "overflow"))
            self._lost += 1
        elif ring.written > ring.crowded and not self._hurry.is_set():
            self._hurry.set()
        if not self._awake:
            self._awake = True
            self._wake.set()

    def belong_to(self, run_id: str) -> None:
        """All later rows have this run id: they are in a file with another header line."""
        self._catch_up()
        self._new_run = header_line(run_id, *self._whose)
        self._catch_up()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything emitted so far was written or given up; False if that took longer than `timeout_s`."""
        done = threading.Event()
        self._catch_up()
        self._waiting.append(done)
        self._hurry.set()
        self._wake.set()
        return done.wait(timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is left, complete the file, end the thread. A disk that hangs longer than `timeout_s` is left."""
        if self._closing:
            return
        self._catch_up()
        self._closing = True
        self._hurry.set()
        self._wake.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._log("error", f"event log: the disk hangs: {self._ring.used} bytes of events are not written")

    def _catch_up(self, room: int = 0) -> bool:
        """Put the header line of another run, and a row for the rows that were dropped, into the ring, if so many bytes
        are free after each. Returns whether none of them waits any more."""
        if self._new_run is not None and self._ring.put(self._new_run, room):
            self._new_run = None
        if self._new_run is None and self._overflow is not None and self._ring.put(self._overflow.line(), room):
            self._overflow = None
        self._behind = self._new_run is not None or self._overflow is not None
        return not self._behind

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
            self._drain.round(self._ring.written)
            for done in waiting:
                done.set()
        self._packer.close()
        self._files.close()
        self._ring.close()
