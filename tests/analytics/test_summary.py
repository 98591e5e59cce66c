"""The summary job against planted totals and against a second implementation, on real files."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strogoff.analytics.schema import MESSAGE, SESSION
from strogoff.broker.process.eventlog_files import HOUR_MS

from .logs import LoggedNode, cluster
from .reference import Reference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


def spark_summary(spark: SparkSession, directory: Path) -> tuple[dict[Any, Any], dict[Any, Any], Counter[Any]]:
    """The job's three tables in the shape of the reference."""
    from strogoff.analytics.reading import parse, read_lines
    from strogoff.analytics.summary import compact, summarize

    tables = summarize(compact(parse(read_lines(spark, str(directory)))))
    hours = {}
    for row in tables.hours.selectExpr("*", f"unix_millis(hour) div {HOUR_MS} as number").collect():
        values = row.asDict()
        del values["hour"]
        hours[values.pop("run_id"), values.pop("node"), values.pop("number")] = values
    boots = {}
    for row in tables.boots.collect():
        values = row.asDict()
        boots[values.pop("run_id"), values.pop("node"), values.pop("boot")] = values
    rejects = Counter({(r["reason"], r["path"]): r["lines"] for r in tables.rejects.collect()})
    return hours, boots, rejects


def check(spark: SparkSession, directory: Path) -> tuple[dict[Any, Any], dict[Any, Any], Counter[Any]]:
    """Check that both implementations agree; returns their result."""
    hours, boots, rejects = spark_summary(spark, directory)
    reference = Reference(directory)
    assert hours == reference.hours()
    assert boots == reference.boots
    assert rejects == reference.rejects
    return hours, boots, rejects


def damage(directory: Path, rng: random.Random) -> None:
    """Lines lost, repeated, cut, overwritten, renumbered; whole files lost or copied; a file left open."""
    for path in sorted(directory.rglob("*.jsonl")):
        lines = path.read_text().splitlines()
        for _ in range(rng.randrange(4)):
            at = rng.randrange(1, len(lines))
            broken = rng.choice(
                [
                    "",
                    "hello",
                    "\0" * 40,
                    lines[at][: rng.randrange(1, 20)],
                    lines[at] + "\n" + lines[at],
                    re.sub(r'",([0-9]+)', r'","x\1"', lines[at], count=1),
                    '["node.stop",5]',
                    lines[at].replace('["', '["new.', 1),
                    "{}",
                    gap(lines[at]),
                ]
            )
            lines[at] = broken
        if rng.random() < 0.05:
            lines[0] = re.sub(":[0-9]+", ":99", lines[0], count=1)
        path.write_text("\n".join(lines) + rng.choice(["", "\n", '\n{"v":1,"run_id":"ru']))
        fate = rng.random()
        if fate < 0.1:
            path.unlink()
        elif fate < 0.2:
            path.with_name(path.name.replace(".jsonl", "9.jsonl")).write_text(path.read_text())
        elif fate < 0.4:
            path.rename(path.with_name(path.name + ".open"))


def gap(line: str) -> str:
    """Replace a row by the writer's record that it is missing."""
    try:
        kind, seq, hlc, mono_ns, *_ = json.loads(line)
    except ValueError:
        return line
    if kind == "log.gap" or not isinstance(seq, int) or seq == 1:
        return line
    return json.dumps(["log.gap", seq, hlc, mono_ns, seq, seq, 1, "disk"])


def test_planted_totals(spark: SparkSession, tmp_path: Path) -> None:
    """One cluster at level session, one at level message, one with both."""
    nodes = cluster(1, levels=(SESSION,)) + cluster(2, levels=(MESSAGE,)) + cluster(3)
    for node in nodes:
        node.write(tmp_path)
    hours, boots, rejects = check(spark, tmp_path)
    planted: Counter[Any] = Counter()
    for node in nodes:
        for (hour, kind, reason), value in node.totals.items():
            planted[node.name, hour, kind, reason if kind == "drops" else ""] += value
    found: Counter[Any] = Counter()
    for (_, name, hour), values in hours.items():
        for kind in ("connects", "publishes", "deliveries"):
            found[name, hour, kind, ""] += values[kind]
        for reason, value in values["drops_by_reason"].items():
            found[name, hour, "drops", reason] += value
    assert +found == +planted
    assert sum(planted.values()) > 1000
    assert not rejects
    assert {(values["holes"], values["given_up"], values["missing_before"]) for values in boots.values()} == {(0, 0, 0)}


@pytest.mark.by_hand
def test_both_implementations_agree_on_random_damage(spark: SparkSession, tmp_path: Path) -> None:
    for seed in range(10, 20):
        for node in cluster(seed, minutes=40):
            node.write(tmp_path, size=3000)
    damage(tmp_path, random.Random(10))
    _, boots, rejects = check(spark, tmp_path)
    reasons = {reason for reason, _ in rejects}
    reasons.update(
        name for values in boots.values() for name in ("holes", "given_up", "missing_before") if values[name]
    )
    # the damage must have been of every kind, or this test shows little
    assert len(reasons) == 10, reasons


def test_the_level_may_change_within_a_boot(spark: SparkSession, tmp_path: Path) -> None:
    node = LoggedNode("n1", random.Random(7))
    node.live(50, SESSION, crash=True)
    session_rows = len(node.rows)
    node.live(50, MESSAGE, crash=False)
    node.write(tmp_path)
    hours, boots, _ = check(spark, tmp_path)
    publishes = sum(n for (_, kind, _), n in node.totals.items() if kind == "publishes")
    assert sum(values["publishes"] for values in hours.values()) == publishes
    assert [boots["run", "n1", boot]["ending"] for boot in (1, 2)] == ["crashed", "stopped"]
    assert boots["run", "n1", 1]["events"] == session_rows


def test_totals_of_deleted_days_are_missing(spark: SparkSession, tmp_path: Path) -> None:
    """Without the first rows of a boot its first snapshot only gives the initial counters."""
    node = LoggedNode("n1", random.Random(8))
    node.live(200, SESSION, crash=False)
    node.write(tmp_path)
    first = sorted(tmp_path.rglob("*.jsonl"))[0]
    first.unlink()
    hours, boots, _ = check(spark, tmp_path)
    assert boots["run", "n1", 1]["missing_before"] > 0
    total = sum(n for (_, kind, _), n in node.totals.items() if kind == "publishes")
    assert 0 < sum(values["publishes"] for values in hours.values()) < total


def test_a_table_that_is_no_event_log_is_refused_by_name(spark: SparkSession) -> None:
    from strogoff.analytics.reading import SchemaError, parse
    from strogoff.analytics.summary import compact, hours

    table = spark.createDataFrame([("n1", "x")], "node string, seq string")
    with pytest.raises(SchemaError, match=r"event log: no column run_id; .*column seq is string, must be bigint"):
        hours(table)
    with pytest.raises(SchemaError, match="lines: no column line"):
        parse(table)
    with pytest.raises(SchemaError, match="event log: no column run_id"):
        compact(table)
