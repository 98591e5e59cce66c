"""What a job reads: a log, or the tables of an ingest."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strogoff.analytics.schema import SESSION

from .logs import LoggedNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


def test_a_log_is_ingested_and_tables_are_read(spark: SparkSession, tmp_path: Path) -> None:
    from strogoff.analytics.sources import is_tables, open_tables

    node = LoggedNode("n1", random.Random(3))
    node.live(2, SESSION, crash=False)
    node.write(tmp_path / "log")
    (tmp_path / "log" / "date=2026-03-01" / "stranger.txt").write_text("x")
    made = open_tables(spark, tmp_path / "log", tmp_path / "out")
    assert made.report is not None and len(made.report.strangers) == 1
    assert (made.events.count(), made.rejects.count()) == (len(node.rows), 0)
    assert is_tables(tmp_path / "out") and not is_tables(tmp_path / "log")
    again = open_tables(spark, tmp_path / "out", tmp_path / "unused")
    assert again.report is None and again.events.count() == len(node.rows)
    assert not (tmp_path / "unused").exists()
