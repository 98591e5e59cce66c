"""Rows of boots that follow each other without a gap."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from strogoff.testing.log_audit.log_files import write_log

from ...testing.log_audit.log_builder import NODE, Log
from ..test_commands import spark_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@spark_tests
def test_full_words_are_one_stretch_and_other_rows_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Words 1 and 4 are full; word 2 lacks a row, word 3 has a row that says more; 0 and 5 are the ends."""
    from strogoff.analytics.audit.stretches import boots, stretches, words
    from strogoff.analytics.sources import open_tables

    log = Log()
    while log.rows[-1]["seq"] < 350:
        if log.rows[-1]["seq"] == 199:
            log.say("log.gap", first=200, last=200, rows=1, reason="overflow")
        else:
            log.say("mem.up", target="n2")
    rows = {row["seq"]: row for row in log.rows if row["seq"] != 150}
    events = open_tables(spark, write_log(rows.values(), tmp_path / "log"), tmp_path / "out").events
    of_words = words(events)
    assert {row["word"] for row in of_words.where("full").collect()} == {1, 4} and of_words.count() == 6
    found = stretches(events, of_words).collect()
    alone = {*range(1, 64), *range(128, 256), *range(320, 351)} - {150}
    assert {(row["first"]["seq"], row["last"]["seq"]) for row in found} == {(64, 127), (256, 319)} | {
        (seq, seq) for seq in alone
    }
    for row in found:
        for end in (row["first"], row["last"]):
            there = rows[end["seq"]]
            assert end["hlc"] == there["hlc"]
            wanted = {name: there.get(name) for name in ("type", "first", "rows", "reason")}
            if row["first"] == row["last"]:
                assert {name: end[name] for name in wanted} == wanted
    (boot,) = boots(of_words, stretches(events, of_words)).collect()
    assert (boot["node"], boot["boot"], boot["events"]) == (NODE, 1, 349)
    assert (boot["first"]["type"], boot["last"]["seq"]) == ("node.start", 350)


@spark_tests
def test_a_word_that_two_processes_have_written_is_not_full(spark: SparkSession, tmp_path: Path) -> None:
    from strogoff.analytics.audit.stretches import stretches, words
    from strogoff.analytics.sources import open_tables

    log, restored = Log(), Log()
    restored.pass_s(3600)
    for each in (log, restored):
        while each.rows[-1]["seq"] < 128:
            each.say("mem.up", target="n2")
    rows = [*log.rows, restored.rows[80]]
    events = open_tables(spark, write_log(rows, tmp_path / "log"), tmp_path / "out").events
    found = sorted(row["first"]["seq"] for row in stretches(events, words(events)).collect())
    assert found == sorted([*range(1, 129), 81])
