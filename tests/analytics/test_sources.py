"""What a job reads: a log, or the tables of an ingest."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strogoff.analytics.schema import SESSION

from .logs import LoggedNode
from .test_commands import spark_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strogoff.analytics.sources import Tables


@spark_tests
def test_a_log_is_ingested_and_tables_are_read(spark: SparkSession, tmp_path: Path) -> None:
    from strogoff.analytics.sources import is_tables, open_tables

    node = LoggedNode("n1", random.Random(3))
    node.live(2, SESSION, crash=False)
    node.write(tmp_path / "log")
    (tmp_path / "log" / "date=2026-03-01" / "stranger.txt").write_text("x")
    made = open_tables(spark, tmp_path / "log", tmp_path / "out")
    assert made.report.new == 1 and len(made.report.strangers) == 1
    assert (made.events.count(), made.rejects.count()) == (len(node.rows), 0)
    assert is_tables(tmp_path / "out") and not is_tables(tmp_path / "log")
    again = open_tables(spark, tmp_path / "out", tmp_path / "unused")
    assert again.events.count() == len(node.rows)
    assert again.report.new == 0 and again.report.strangers == made.report.strangers
    assert not (tmp_path / "unused").exists()


def after(**found: object) -> Tables:
    """Tables after an ingest that found this."""
    from strogoff.analytics.ingest_report import Report
    from strogoff.analytics.sources import Tables

    return Tables(None, None, Report(**found))  # type: ignore[arg-type]


def test_gaps_are_named_but_for_lines_that_a_crash_has_cut() -> None:
    pytest.importorskip("pyspark")
    from strogoff.analytics.sources import MOST_NAMES, gaps

    assert gaps(after(rejects=Counter(torn=3))) == []
    named = gaps(after(rejects=Counter(torn=3, not_json=2), changed=["b"], damaged=["c"]))
    assert named == [
        "2 lines are no events: not_json",
        "not read, the content is not what an earlier run has read: b",
        "read in part, the compressed file is damaged: c",
    ]
    many = gaps(after(strangers=[str(number) for number in range(MOST_NAMES + 5)]))
    assert len(many) == MOST_NAMES + 1 and many[-1].endswith(": 5 more")
