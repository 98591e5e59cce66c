"""What an ingest has to read, and what it says of its work. It needs no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from msgspec.structs import replace

from . import log_sources
from .event_lines import TORN
from .log_sources import Source
from .manifest import REJECTS, Entry, Manifest, Unusable, commit, load, locked, sweep


@dataclass(slots=True)
class Report:
    """What a run has done, and what of the log it has not understood."""

    new: int = 0
    continued: int = 0
    unchanged: int = 0
    rows: int = 0
    repeated: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    strangers: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    @property
    def understood(self) -> bool:
        """Whether the tables have everything. A line that a crash has cut is expected."""
        return not (self.strangers or self.changed or self.damaged or {*self.rejects} - {TORN})

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {**{each.name: getattr(self, each.name) for each in fields(self)}, "understood": self.understood}

    def end(self, out: Path, manifest: Manifest) -> None:
        """Add what the tables lack of the files that were read, and keep in the manifest which ones were not."""
        kept = replace(manifest, strangers=self.strangers, changed=self.changed)
        if kept != manifest:
            commit(out, kept)
            sweep(out, kept)
        self._take(out, manifest)

    def _take(self, out: Path, manifest: Manifest) -> None:
        self.damaged += [file for file, entry in sorted(manifest.sources.items()) if entry.damaged]
        self.rejects.update(_reasons(out, manifest))


def earlier(out: Path, manifest: Manifest) -> Report:
    """What earlier runs have not understood, as the manifest and the table `rejects` say."""
    report = Report(strangers=manifest.strangers, changed=manifest.changed)
    report._take(out, manifest)
    return report


def directories(logdir: Path, out: Path) -> tuple[Path, Path]:
    """The absolute paths of both. Raises `Unusable` if the tables would be in the log."""
    logdir, out = logdir.resolve(), out.resolve()
    if out.is_relative_to(logdir):
        raise Unusable(f"{out} is in the directory of the log; give another one")
    return logdir, out


def due(logdir: Path, manifest: Manifest, report: Report) -> list[Source]:
    """The files of the log that are not as the manifest names them. Counts the others in the report."""
    found = log_sources.find(logdir)
    report.strangers += found.strangers
    changed = [source for source in found.sources if not _is_read(source, manifest.sources)]
    report.unchanged = len(found.sources) - len(changed)
    return changed


def up_to_date(logdir: Path, out: Path) -> Report | None:
    """The report of a run that finds nothing new; None if there is something to read. Raises `Unusable` and OSError."""
    logdir, out = directories(logdir, out)
    with locked(out):
        manifest, report = load(out), Report()
        sweep(out, manifest)
        if due(logdir, manifest, report):
            return None
        report.end(out, manifest)
        return report


def _is_read(source: Source, entries: Mapping[str, Entry]) -> bool:
    entry = entries.get(source.file)
    known = entry and (entry.suffix, entry.disk_bytes, entry.mtime_ns)
    return known == (source.suffix, source.disk_bytes, source.mtime_ns)


def _reasons(out: Path, manifest: Manifest) -> Iterator[str]:
    for name in manifest.files(REJECTS):
        yield from pq.read_table(out / name, columns=["reason"]).column("reason").to_pylist()
