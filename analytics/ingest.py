"""The job `ingest`: event logs become typed tables. It reads only what it has not read before.

One run works in batches. A batch is written beside the tables, moved to its place, and then named by the next manifest.
Until then a kill leaves the former manifest in force, and the next run deletes what it does not name. An hour that gets
more rows later is written again as a whole. So late rows, repeated rows and small files have one remedy.

Each batch has a scratch directory of its own. The Java process of a killed run may live for some seconds, and goes on
writing to the old one, which nobody reads.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from msgspec.structs import replace
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from . import decoding, silver
from .ingest_report import Report, directories, due
from .log_content import Extent
from .log_sources import PACKED, Source
from .manifest import EVENTS, REJECTS, SCRATCH, Entry, commit, load, locked, place, sweep

BATCH_BYTES: Final = 4 << 30
"""About how many bytes of lines one batch has."""

FILE_BYTES: Final = 64 << 20
"""About how many bytes of lines one file of `events` has. Its Parquet is smaller. Each core sorts the rows of one
file at a time, in memory."""

_PACKED: Final = 8
"""About how many bytes of lines a byte of gzip or Parquet has. It only decides on the number of tasks and files."""

_TASKS: Final = 64 << 20
_HOUR: Final = re.compile(r"date=[^/]+/hour=[^/]+")


@dataclass(frozen=True, slots=True)
class _Piece:
    source: Source
    begin: int
    extent: Extent

    @property
    def size(self) -> int:
        return self.extent.size - self.begin


def ingest(spark: SparkSession, logdir: Path, out: Path, batch_bytes: int = BATCH_BYTES) -> Report:
    """Bring the tables in `out` up to date with the log. Raises `Unusable`, OSError, and what Spark raises."""
    logdir, out = directories(logdir, out)
    with locked(out):
        return _Ingest(spark, logdir, out).run(batch_bytes)


class _Ingest:
    """One run, while it holds the lock."""

    def __init__(self, spark: SparkSession, logdir: Path, out: Path) -> None:
        self.spark = spark
        self.logdir = logdir
        self.out = out
        self.scratch = out
        self.report = Report()
        self.manifest = load(out)

    def run(self, batch_bytes: int) -> Report:
        sweep(self.out, self.manifest)
        changed = due(self.logdir, self.manifest, self.report)
        for batch in _batches(changed, batch_bytes):
            self._read(batch)
        self.report.end(self.out, self.manifest)
        return self.report

    def _read(self, sources: Sequence[Source]) -> None:
        (self.out / SCRATCH).mkdir(exist_ok=True)
        self.scratch = Path(tempfile.mkdtemp(dir=self.out / SCRATCH))
        pieces = [*self._pieces(sources)]
        tables = dict(self.manifest.tables)
        generation = self.manifest.generation + 1
        pieces_due = [piece for piece in pieces if piece.size]
        if pieces_due:
            rows = Observation()
            decoded = self._decoded(pieces_due, rejects_only=False)
            counted = decoded.observe(
                rows,
                F.count(F.when(F.col("reject").isNull(), 1)).alias("rows"),
                F.collect_set(F.when(F.col("reject").isNotNull(), F.col("file"))).alias("bad"),
            )
            hours = {found[0] for piece in pieces_due if (found := _HOUR.search(piece.source.file))}
            written = self._write(
                silver.rows(counted), sum(piece.size for piece in pieces_due), max(len(hours), 1), "new"
            )
            tables[EVENTS] = self._merge(written, generation)
            self.report.rows += rows.get["rows"]
            self.report.repeated += rows.get["rows"] + _count(self._known(EVENTS)) - _count(self._in(tables[EVENTS]))
            bad = {*rows.get["bad"]}
            if bad:
                tables[REJECTS] = self._more_rejects(
                    [each for each in pieces_due if each.source.file in bad], generation
                )
        entries = {piece.source.file: _entry(piece) for piece in pieces}
        sources_read = {**self.manifest.sources, **entries}
        self.manifest = replace(self.manifest, generation=generation, sources=sources_read, tables=tables)
        commit(self.out, self.manifest)
        sweep(self.out, self.manifest)

    def _pieces(self, sources: Sequence[Source]) -> Iterator[_Piece]:
        """The parts of these files that were not read before. Files with another content than before are none."""
        before = {file: entry.size for file, entry in self.manifest.sources.items()}
        asked = [(each.file, each.complete, before.get(each.file, 0), 0) for each in sources]
        extents = self._spread(asked, sum(map(_lines_bytes, sources))).mapInArrow(
            decoding.extents(str(self.logdir)), decoding.EXTENT
        )
        by_file = {row["file"]: Extent(*row[1:]) for row in extents.collect()}
        for source in sources:
            extent = by_file[source.file]
            entry = self.manifest.sources.get(source.file)
            if entry is None:
                self.report.new += 1
                yield _Piece(source, 0, extent)
            elif entry.digest == extent.earlier or not entry.size:
                self.report.continued += 1
                yield _Piece(source, entry.size, extent)
            else:
                self.report.changed.append(source.file)

    def _spread(self, rows: Sequence[tuple[Any, ...]], lines_bytes: int) -> DataFrame:
        """A table of pieces, in as many tasks as their size demands."""
        cores = self.spark.sparkContext.defaultParallelism
        tasks = max(min(len(rows), max(lines_bytes // _TASKS, cores)), 1)
        dealt = [row for first in range(tasks) for row in rows[first::tasks]]
        return self.spark.createDataFrame(self.spark.sparkContext.parallelize(dealt, tasks), decoding.PIECE)

    def _decoded(self, pieces: Sequence[_Piece], rejects_only: bool) -> DataFrame:
        asked = [(each.source.file, each.source.complete, each.begin, each.extent.size) for each in pieces]
        table = self._spread(asked, sum(piece.size for piece in pieces))
        return table.mapInArrow(decoding.decoded(str(self.logdir), rejects_only), silver.decoded_type())

    def _write(self, events: DataFrame, lines_bytes: int, hours: int, name: str) -> list[Path]:
        """Write events below the scratch directory. Returns the files."""
        files_an_hour = max(round(lines_bytes / hours / FILE_BYTES), 1)
        silver.write(silver.arrange(events, files_an_hour, hours), self.scratch / name)
        return sorted((self.scratch / name).rglob("*.parquet"))

    def _merge(self, written: Sequence[Path], generation: int) -> list[str]:
        """Give written files of `events` their places; hours that had files before are written again with both.
        Returns the files of the table."""
        known = self._known(EVENTS)
        touched = {_hour(path) for path in written} & {_hour(path) for path in known}
        old = {path for path in known if _hour(path) in touched}
        again = [path for path in written if _hour(path) in touched]
        final = [path for path in written if _hour(path) not in touched]
        if touched:
            before = silver.read_files(self.spark, self.out / EVENTS, sorted(old))
            both = before.unionByName(silver.read_files(self.spark, self.scratch / "new", again))
            size = _PACKED * sum(path.stat().st_size for path in (*old, *again))
            final += self._write(silver.narrow(both), size, len(touched), "merged")
        numbers: Counter[str] = Counter()
        names = [str(path.relative_to(self.out)) for path in known if path not in old]
        for path in final:
            numbers[_hour(path)] += 1
            names.append(f"{EVENTS}/{_hour(path)}/{generation:06d}-{numbers[_hour(path)]:04d}.parquet")
            place(self.out, path, names[-1])
        return sorted(names)

    def _more_rejects(self, pieces: Sequence[_Piece], generation: int) -> list[str]:
        """Write the rejects so far and those of these pieces. Returns the files of the table."""
        new = silver.rejects(self._decoded(pieces, rejects_only=True))
        both = silver.read_rejects(self.spark, self.out, self.manifest).unionByName(new)
        both.coalesce(1).sortWithinPartitions("file", "line").write.option("compression", "zstd").parquet(
            str(self.scratch / REJECTS)
        )
        names = []
        for number, path in enumerate(sorted((self.scratch / REJECTS).glob("*.parquet")), 1):
            names.append(f"{REJECTS}/{generation:06d}-{number:04d}.parquet")
            place(self.out, path, names[-1])
        return names

    def _known(self, table: str) -> list[Path]:
        return self._in(self.manifest.files(table))

    def _in(self, names: Iterable[str]) -> list[Path]:
        return [self.out / name for name in names]


def _batches(sources: Sequence[Source], most: int) -> Iterator[list[Source]]:
    """The sources in their order, in batches of about `most` bytes of lines."""
    batch: list[Source] = []
    size = 0
    for source in sources:
        if batch and size + _lines_bytes(source) > most:
            yield batch
            batch, size = [], 0
        batch.append(source)
        size += _lines_bytes(source)
    if batch:
        yield batch


def _lines_bytes(source: Source) -> int:
    return source.disk_bytes * (_PACKED if source.suffix == PACKED else 1)


def _entry(piece: _Piece) -> Entry:
    source, extent = piece.source, piece.extent
    stat = (source.suffix, source.disk_bytes, source.mtime_ns)
    return Entry(*stat, extent.size, extent.lines, extent.digest, extent.damaged)


def _hour(path: Path) -> str:
    return "/".join(path.parts[-3:-1])


def _count(files: Iterable[Path]) -> int:
    return sum(pq.read_metadata(path).num_rows for path in files)
