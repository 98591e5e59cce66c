"""The rows of an event log in the order of their stamps, read file by file without Spark, and those that come later.

The rows of one writer (a node in one directory) rise, file by file, in the order of the first stamps of its files. The
names do not tell that order: a node with an empty disk begins with boot 1 again. So the rows of all nodes are merged
with one open file and one row of each in memory. A tail remembers for each file where it stopped, and goes on there: a
file that the broker completes or compresses meanwhile keeps its places (`log_sources.py`).
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from typing import Final

from ..event_lines import NEWER_VERSION, Header, Reject, Row, decode, read_header
from ..log_content import DAMAGED, open_content
from ..log_sources import Source, find
from ..schema import LOGICAL_BITS

Wanted = Callable[[bytes], bool]
"""Whether a line may be a row that is looked for. It may be wrong only with True."""
_Line = tuple[int, int, bytes, Header | None, str]
"""Stamp, number of the writer, line, and the header and name of its file."""

_HOUR: Final = re.compile(r"date=([0-9]{4}-[0-9]{2}-[0-9]{2})/hour=([0-9]{2})(?=/|$)")
_LAST: Final = 1 << 63
"""Later than all stamps."""


@dataclass
class _Place:
    """How far a file is read."""

    offset: int = 0
    header: Header | None = None
    ended: bool = False
    first: int | None = None
    """The stamp of its first row, once it is known."""


@dataclass
class LogTail:
    """Reads the rows with stamps from `since_ms` to `until_ms` (ms since 1970; None: no limit)."""

    logdir: Path
    since_ms: int | None = None
    until_ms: int | None = None
    skipped: int = 0
    """Files that have other hours: their names say so."""
    damaged: list[str] = field(default_factory=list)
    """Compressed files that break off."""
    newer: list[str] = field(default_factory=list)
    """Files of a newer version of Strogoff, whose rows this one does not know."""
    strangers: list[str] = field(default_factory=list)
    """Files whose names are not those of an event log."""
    rejects: Counter[str] = field(default_factory=Counter)
    """Lines that are no rows, by file."""
    _places: dict[str, _Place] = field(default_factory=dict)

    def rows(self, wanted: Wanted) -> Iterator[Row]:
        """The rows since the last call, each once, whose lines are `wanted`. It is asked in the order of the stamps.
        Raises OSError."""
        writers: dict[str, list[Source]] = {}
        self.skipped = 0
        found = find(self.logdir)
        self.strangers = [file for file in found.strangers if self._concerned(file)]
        for source in found.sources:
            if not self._concerned(source.file):
                self.skipped += 1
            elif not self._place(source).ended:
                writers.setdefault(_writer(source.file), []).append(source)
        chains = [self._chain(number, sorted(each, key=self._first)) for number, each in enumerate(writers.values())]
        return _once(self._decoded(heapq.merge(*chains), wanted))

    def _decoded(self, lines: Iterable[_Line], wanted: Wanted) -> Iterator[Row]:
        for _, _, line, header, file in lines:
            if wanted(line):
                row = decode(line, header)
                if isinstance(row, Reject):
                    self.rejects[file] += 1
                else:
                    yield row

    def _place(self, source: Source) -> _Place:
        return self._places.setdefault(source.file, _Place())

    def _first(self, source: Source) -> int:
        """The stamp of the first row of a file. A file that has none yet comes last."""
        place = self._place(source)
        if place.first is None:
            with suppress(FileNotFoundError, *DAMAGED), open_content(self.logdir, source.file) as content:
                place.first = next(_stamps(content), None)
        return _LAST if place.first is None else place.first

    def _concerned(self, file: str) -> bool:
        hour = _hour_of(PurePath(self.logdir.name, file))
        if hour is None:
            return True
        begin = int(hour.timestamp() * 1000)
        end = begin + int(timedelta(hours=1).total_seconds() * 1000)
        return (self.since_ms is None or end > self.since_ms) and (self.until_ms is None or begin <= self.until_ms)

    def _chain(self, number: int, sources: Iterable[Source]) -> Iterator[_Line]:
        for source in sources:
            place = self._place(source)
            try:
                yield from self._of_file(number, source, place)
            except FileNotFoundError:
                place.ended = True  # deleted with its day

    def _of_file(self, number: int, source: Source, place: _Place) -> Iterator[_Line]:
        for line in self._lines(source, place):
            header = read_header(line)
            if isinstance(header, Header):
                place.header = header
                continue
            if header is not None:
                place.header = None
                if header == Reject(NEWER_VERSION):
                    self.newer.append(source.file)
            stamp = _stamp(line, place.header)
            if stamp is None:
                if line.strip() and source.file not in self.newer:
                    self.rejects[source.file] += 1
            elif self._in_time(stamp >> LOGICAL_BITS):
                yield stamp, number, line, place.header, source.file

    def _lines(self, source: Source, place: _Place) -> Iterator[bytes]:
        """The lines that were not read before. Without the writer's word that the file is complete, a line counts only
        with its end."""
        with open_content(self.logdir, source.file) as content:
            try:
                content.seek(place.offset)
                while line := content.readline():
                    if not line.endswith(b"\n") and not source.complete:
                        return
                    place.offset += len(line)
                    yield line
                place.ended = source.complete
            except DAMAGED:
                self.damaged.append(source.file)
                place.ended = True

    def _in_time(self, at: int) -> bool:
        return (self.since_ms is None or at >= self.since_ms) and (self.until_ms is None or at <= self.until_ms)


def _stamp(line: bytes, header: Header | None) -> int | None:
    """The stamp of a row; None if the line is no row. Of an array it is found without decoding the rest: most lines are
    not wanted."""
    parts = line.split(b",", 3)
    if header is not None and line.startswith(b"[") and len(parts) > 3 and parts[2].isdigit():
        return int(parts[2])
    row = decode(line, header)
    return None if isinstance(row, Reject) else int(row["hlc"])


def _stamps(lines: Iterable[bytes]) -> Iterator[int]:
    """The stamps of the rows of one file."""
    header: Header | None = None
    for line in lines:
        found = read_header(line)
        if found is not None:
            header = found if isinstance(found, Header) else None
        elif (stamp := _stamp(line, header)) is not None:
            yield stamp


def _hour_of(path: PurePath) -> datetime | None:
    found = _HOUR.search(str(path))
    return datetime.strptime("-".join(found.groups()), "%Y-%m-%d-%H").replace(tzinfo=UTC) if found else None


def _writer(file: str) -> str:
    """Node and directory of a file, without its hour."""
    return str(PurePath(_HOUR.sub("", file)).parent)


def _once(rows: Iterable[Row]) -> Iterator[Row]:
    """Drop the copies of a row: the log may have a file twice. They have the same stamp."""
    stamp = -1
    seen: set[tuple[str, str, int, int]] = set()
    for row in rows:
        if row["hlc"] != stamp:
            stamp, seen = row["hlc"], set()
        key = row["run_id"], row["node"], row["boot"], row["seq"]
        if key not in seen:
            seen.add(key)
            yield row
