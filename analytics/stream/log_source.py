"""The event log as a source of Structured Streaming. Its offsets say how far each file is read.

An offset names each file (`log_sources.Source.file`, whatever its name on the disk is) with the bytes before
compression that were read, or `WHOLE`. Spark keeps the offsets of each batch in the checkpoint, so a batch that is
repeated after a kill reads the same bytes again. A file that is being written is read up to its last whole line.

A backlog is read hour by hour, by the folders of the log: all nodes advance together, and no row becomes late because
another node was read first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ...judge.alerts import Limits
from ..event_lines import Reject
from ..log_content import measure, open_content, rows_from
from ..log_sources import Source, find
from .items import SQL, Item, ReadBoots, items_of

NAME: Final = "strogoff_eventlog"
WHOLE: Final = -1
"""The offset of a complete file that is read."""

TASKS: Final = 8
"""Most tasks of a batch that read."""

_BLOCK: Final = 1 << 16
_ITEMS: Final = 20_000
_HOUR: Final = re.compile(r"date=[^/]+/hour=[^/]+")
_SCHEMA: Final = pa.schema(
    [(name, pa.int64() if kind == "bigint" else pa.string()) for name, kind in map(str.split, SQL.split(", "))]
)

Offsets = Mapping[str, int]
Piece = tuple[str, int, int]
"""A file, from which offset to which one it is read."""


class EventLogSource(DataSource):
    """Options: `path` of the log, `parts`, `late_ms`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def schema(self) -> str:
        """The columns of an item."""
        return SQL

    def streamReader(self, schema: StructType) -> LogReader:  # noqa: ARG002, N802
        """A reader of the log."""
        limits = Limits(late_ms=int(self.options["late_ms"]))
        return LogReader(self.options["path"], limits, int(self.options["parts"]))


class LogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a log from offsets to offsets. Spark calls its methods."""

    def __init__(self, logdir: str, limits: Limits, parts: int) -> None:
        self._logdir = logdir
        self._limits = limits
        self._parts = parts
        self._last: Offsets | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Nothing is read yet."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """A limit, so that Spark does not ask for everything. How much a batch reads is said above."""
        return ReadMaxBytes(1 << 30)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what is there now, and nothing that comes later."""
        self._last = ends(Path(self._logdir))

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        """How far the next batch reads."""
        return advance(start, ends(Path(self._logdir)) if self._last is None else self._last)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """What the tasks of a batch read."""
        pieces = [(file, start.get(file, 0), to) for file, to in end.items() if start.get(file, 0) not in (to, WHOLE)]
        return [InputPartition(some) for first in range(TASKS) if (some := pieces[first::TASKS])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The items of a task."""
        found = (item for piece in partition.value for item in self._items(piece))
        while some := [*islice(found, _ITEMS)]:
            columns = zip(*some, strict=True)
            arrays = [pa.array(column, each.type) for column, each in zip(columns, _SCHEMA, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)

    def _items(self, piece: Piece) -> Iterator[Item]:
        file, begin, end = piece
        boots = ReadBoots()
        try:
            if end == WHOLE:
                with open_content(Path(self._logdir), file) as content:
                    end = measure(content, complete=True).size
            with open_content(Path(self._logdir), file) as content:
                for _, row in rows_from(content, begin, end):
                    if not isinstance(row, Reject):
                        boots.note(row)
                        yield from items_of(row, self._limits, self._parts)
        except FileNotFoundError:
            return  # deleted with its day, before it was read
        yield from boots.items()


def ends(logdir: Path) -> dict[str, int]:
    """How far each file can be read now. Raises OSError."""
    found = {}
    for source in find(logdir).sources:
        try:
            found[source.file] = WHOLE if source.complete else _last_line(logdir, source)
        except FileNotFoundError:
            found[source.file] = WHOLE  # completed meanwhile, or deleted
    return found


def advance(start: Offsets, ends: Offsets) -> dict[str, int]:
    """The offsets behind the oldest hour that has something to read."""
    due = {file: end for file, end in ends.items() if _is_ahead(end, start.get(file, 0))}
    oldest = min(map(_hour, due), default="")
    now = {file: start[file] for file in start if file in ends}
    now |= {file: end for file, end in due.items() if _hour(file) <= oldest}
    return dict(sorted(now.items()))


def _is_ahead(end: int, start: int) -> bool:
    return start != WHOLE and (end == WHOLE or end > start)


def _hour(file: str) -> str:
    found = _HOUR.search(file)
    return found[0] if found else ""


def _last_line(logdir: Path, source: Source) -> int:
    """The offset behind the last line end of a file that is being written."""
    with (logdir / (source.file + source.suffix)).open("rb") as file:
        end = source.disk_bytes
        while end:
            begin = max(end - _BLOCK, 0)
            file.seek(begin)
            at = file.read(end - begin).rfind(b"\n")
            if at >= 0:
                return begin + at + 1
            end = begin
    return 0
