"""What a job reads: the tables of an ingest, or an event log that is ingested first."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from . import manifest, silver
from .ingest import Report, ingest


class Tables(NamedTuple):
    """The tables, and what the ingest of this run has done; None if they were there already."""

    events: DataFrame
    rejects: DataFrame
    report: Report | None


def is_tables(source: Path) -> bool:
    """Whether a directory has the tables of an ingest."""
    return (source / manifest.NAME).is_file()


def open_tables(spark: SparkSession, source: Path, out: Path) -> Tables:
    """Returns the tables in `source`, or those of the event log there, after an ingest to `out`."""
    report = None if is_tables(source) else ingest(spark, source, out)
    place = source if report is None else out
    read = manifest.load(place)
    return Tables(silver.read_events(spark, place, read), silver.read_rejects(spark, place, read), report)
