"""Domain events: emitted once by the cores, for the event log, metrics, `$SYS` and tests.

A core names an event and its facts (`events.emit("conn.close", client="c1", reason="keepalive")`); this class adds the
header of `analytics/schema.py` and hands the row to the writer of the event log and to every sink. The header is made
here and not in the sinks, so that all of them see the same `seq` and `hlc`.

    if events.messages:                 # the hot path: one attribute, False at level session
        events.emit("pub.recv", mid=message.mid, ...)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...analytics.schema import LOGICAL_BITS, MESSAGE, MESSAGE_TYPES, OFF, SESSION, VERSION
from ...cluster.identity import MARKED, left_out

AHEAD_MS = 86_400_000
"""The most that a stamp of another node may be ahead of this node's clock, in ms."""

ASK_NS = 100_000
"""Rows within so many nanoseconds ask the clock once: cluster time costs more than the rest of a row's header."""

Row = dict[str, Any]
Sink = Callable[[Row], None]
"""Takes a row, which it must not change, and returns at once. It runs inside the core that emits: it must neither raise
nor emit, and a sink that waits makes the broker wait."""


class Writer(Protocol):
    """Takes rows as a sink does, but in parts: no object is made for what is the same in all rows."""

    def write(self, kind: str, seq: int, hlc: int, mono_ns: int, fields: dict[str, Any], /) -> None:
        """Take a row."""

    def belong_to(self, run_id: str) -> None:
        """All later rows have this run id."""

    @property
    def pressed(self) -> bool:
        """True while it does not keep up: then no further messages should get rows."""
        ...


class Events:
    """The events of one boot of one node.

    `now_ms` and `mono_ns` are clocks: milliseconds since 1970, and nanoseconds of a clock that only goes forward.
    `run_id` distinguishes clusters and test runs. `level` is the wanted level (0 off, 1 session, 2 message).

    `level` and `messages` (level 2 is on) are plain attributes that callers test; both are 0 while there is neither a
    sink nor a writer.
    """

    __slots__ = (
        "_asked_ns",
        "_hlc",
        "_message_sinks",
        "_mono_ns",
        "_now_ms",
        "_sinks",
        "_wanted",
        "_write",
        "_writer",
        "boot",
        "level",
        "messages",
        "node",
        "run_id",
        "seq",
    )

    def __init__(
        self,
        node: str,
        boot: int,
        run_id: str,
        now_ms: Callable[[], int],
        mono_ns: Callable[[], int],
        level: int = SESSION,
    ) -> None:
        self.node = node
        self.boot = boot
        self.run_id = run_id
        self.seq = 0
        self._hlc = 0
        self._asked_ns = -ASK_NS
        self._now_ms = now_ms
        self._mono_ns = mono_ns
        self._sinks: tuple[Sink, ...] = ()
        self._message_sinks: tuple[Sink, ...] = ()
        self._writer: Writer | None = None
        self._write: Callable[[str, int, int, int, dict[str, Any]], None] | None = None
        self.level = OFF
        self.messages = False
        self.set_level(level)

    def stamp(self) -> int:
        """Return the last stamp that this node has made or received; 0 before the first. Each frame that it sends to
        another node carries this stamp."""
        return self._hlc

    def belong_to(self, run_id: str) -> None:
        """Give all later rows this run id. Their `seq` goes on without a gap."""
        self.run_id = run_id
        if self._writer is not None:
            self._writer.belong_to(run_id)

    def set_level(self, level: int) -> None:
        """Set the wanted level: `schema.OFF`, `SESSION` or `MESSAGE`."""
        assert OFF <= level <= MESSAGE, level
        self._wanted = level
        self._apply()

    def pressed(self) -> bool:
        """Returns whether the writer does not keep up."""
        return self._writer is not None and self._writer.pressed

    def write_to(self, writer: Writer) -> None:
        """Hand all later rows to this writer, before any sink."""
        self._writer = writer
        self._write = writer.write
        self._apply()

    def add(self, sink: Sink, level: int = MESSAGE) -> None:
        """Add a sink for all later rows of at most this level. Sinks get a row in the order of their adding."""
        self._sinks = (*self._sinks, sink)
        if level == MESSAGE:
            self._message_sinks = (*self._message_sinks, sink)
        self._apply()

    def remove(self, sink: Sink) -> None:
        """Remove a sink. Raises ValueError if it was never added."""
        sinks = list(self._sinks)
        sinks.remove(sink)
        self._sinks = tuple(sinks)
        self._message_sinks = tuple(each for each in self._message_sinks if each != sink)
        self._apply()

    def observe(self, hlc: int) -> None:
        """A stamp of another node came with its frame: later events of this node get larger stamps. A stamp that is
        more than `AHEAD_MS` ahead of this node's clock is no time, and has no effect."""
        if self._hlc < hlc < (self._now_ms() + AHEAD_MS) << LOGICAL_BITS:
            self._hlc = hlc

    def emit(self, type: str, /, **fields: Any) -> None:
        """Emit an event; `fields` are those of this type in the schema. No effect without a sink.

        Types of level `message` are emitted only where `messages` is true; that test is the caller's. No effect, too,
        for rows of level `message` about a message that event logs leave out (`choice.py`).
        """
        if not self.level:
            return
        mid = fields.get("mid")
        if mid is not None and mid[2] >= MARKED and left_out(mid[2]) and type in MESSAGE_TYPES:
            return
        self.seq = seq = self.seq + 1
        mono_ns = self._mono_ns()
        # a hybrid logical clock: never smaller than before, also when the wall clock goes back
        hlc = self._hlc + 1
        if not 0 < mono_ns - self._asked_ns < ASK_NS:
            self._asked_ns = mono_ns
            now = self._now_ms() << LOGICAL_BITS
            if now > hlc:
                hlc = now
        self._hlc = hlc
        if self._write is not None:
            self._write(type, seq, hlc, mono_ns, fields)
        sinks = self._message_sinks if type in MESSAGE_TYPES else self._sinks
        if sinks:
            row: Row = {
                "v": VERSION,
                "run_id": self.run_id,
                "node": self.node,
                "boot": self.boot,
                "seq": seq,
                "hlc": hlc,
                "mono_ns": mono_ns,
                "type": type,
                **fields,
            }
            for sink in sinks:
                sink(row)

    def _apply(self) -> None:
        self.level = self._wanted if self._sinks or self._writer is not None else OFF
        self.messages = self.level == MESSAGE
