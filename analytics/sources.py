"""What a job reads: the tables of an ingest, or an event log that is ingested first."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from . import manifest, silver
from .event_lines import TORN
from .ingest import ingest
from .ingest_report import Report, earlier

MOST_NAMES: Final = 10
"""So many files of a kind are named."""


class Tables(NamedTuple):
    """The tables, and what their last ingest has not understood. If it was of this run, also what it has done."""

    events: DataFrame
    rejects: DataFrame
    report: Report


def is_tables(source: Path) -> bool:
    """Whether a directory has the tables of an ingest."""
    return (source / manifest.NAME).is_file()


def open_tables(spark: SparkSession, source: Path, out: Path) -> Tables:
    """Returns the tables in `source`, or those of the event log there, after an ingest to `out`."""
    made = None if is_tables(source) else ingest(spark, source, out)
    place = source if made is None else out
    read = manifest.load(place)
    report = earlier(place, read) if made is None else made
    return Tables(silver.read_events(spark, place, read), silver.read_rejects(spark, place, read), report)


def gaps(tables: Tables) -> list[str]:
    """What of the log is not in the tables, as texts; nothing if an audit can rely on them. A line that a crash has cut
    is expected."""
    return not_understood(tables.report, without=(TORN,))


def not_understood(report: Report, without: Collection[str] = ()) -> list[str]:
    """The parts of a log that an ingest has not understood, as texts; rejects for the reasons in `without` are left
    out."""
    rejects = sorted(report.rejects.items())
    texts = [f"{count} lines are no events: {reason}" for reason, count in rejects if reason not in without]
    texts += _named("not read, the name is not that of an event log", report.strangers)
    texts += _named("not read, the content is not what an earlier run has read", report.changed)
    return texts + _named("read in part, the compressed file is damaged", report.damaged)


def _named(trouble: str, files: list[str]) -> list[str]:
    more = len(files) - MOST_NAMES
    return [f"{trouble}: {name}" for name in files[:MOST_NAMES]] + [f"{trouble}: {more} more"] * (more > 0)
