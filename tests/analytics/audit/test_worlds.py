"""Worlds that Spark and the driver build together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strogoff.analytics.trouble import Trouble
from strogoff.judge.planted.generate import PlantedLog
from strogoff.judge.run import Grouped
from strogoff.testing.log_audit.log_files import write_log

from ..test_commands import spark_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@spark_tests
def test_worlds_are_those_of_memory_and_have_a_limit(spark: SparkSession, tmp_path: Path) -> None:
    """A world that would be too large is refused with the reason."""
    from strogoff.analytics.audit import stretches, worlds
    from strogoff.analytics.audit.auditing import not_of_messages
    from strogoff.analytics.sources import open_tables

    rows = [dict(row) for row in PlantedLog(5, 300).rows()]
    events = open_tables(spark, write_log(rows, tmp_path / "log"), tmp_path / "out").events
    words = stretches.words(events)
    boots = worlds.collect_boots(stretches.boots(words, stretches.stretches(events, words)))
    others = not_of_messages(events)
    (world,) = worlds.build(events, others, boots).values()
    grouped = Grouped(rows)
    whole = grouped.world(complete=False)
    for name in ("lives", "partitions", "incidents", "settings", "sessions", "safe_wills", "connections", "moved"):
        ours, theirs = getattr(world, name), getattr(whole, name)
        plain = name in ("lives", "partitions", "incidents")
        assert (vars(ours) == vars(theirs)) if plain else (ours == theirs), name
    number = worlds.rows_of_worlds(events, others).count()
    assert number > len(grouped.others)
    assert worlds.build(events, others, boots, number)
    with pytest.raises(Trouble, match=f"more than {number - 1} rows"):
        worlds.build(events, others, boots, number - 1)
