"""The small tables of the report, from logs written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ..test_silver import event_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGIN_MS = 1_772_366_400_000
MID = "n1/000001/{:012d}"


def events(spark: SparkSession) -> DataFrame:
    """Two runs. In `r`, node n1 has a lane and n2 has none; intervals are 100 ms long."""
    rows: list[dict[str, Any]] = [
        {"at": 0, "type": "pub.recv", "mid": 1, "us": 1_000},
        {"at": 10, "type": "pub.recv", "mid": 2, "us": 2_000},
        {"at": 20, "type": "pub.recv", "mid": 3, "us": 3_000},
        {"at": 30, "type": "pub.ack", "mid": 1, "us": 1_700, "code": 0},
        {"at": 130, "type": "pub.ack", "mid": 2, "us": 102_000},
        {"at": 140, "type": "pub.ack", "mid": 3, "us": 9_000, "code": 0x97},
        {"at": 150, "type": "dlv.send", "mid": 1, "client": "a"},
        {"at": 199, "type": "dlv.send", "mid": 1, "client": "b"},
        {"at": 150, "type": "q.drop", "mid": 2, "client": "a", "reason": "queue_full"},
        {"at": 160, "type": "q.expire", "mid": 2, "client": "b"},
        {"at": 170, "type": "policy.deny", "client": "c", "operation": "publish", "reason": "netsplit"},
        {"at": 250, "type": "conn.refuse", "client": "c", "reason": "bad_password"},
        {"at": 260, "type": "ret.refuse", "client": "c"},
        {"at": 270, "type": "node.stop"},
        {"at": 5, "type": "pub.recv", "mid": 8, "us": 1_000, "node": "n2"},
        {"at": 6, "type": "pub.ack", "mid": 8, "us": 5_000, "node": "n2", "code": 16},
        {"at": 150, "type": "fwd.drop", "mid": 8, "node": "n2", "reason": "absent"},
        {"at": 160, "type": "q.drop", "mid": 8, "node": "n2", "reason": "queue_full"},
        {"at": 5, "type": "pub.recv", "mid": 9, "us": 1_000, "run_id": "s"},
        {"at": 7, "type": "pub.ack", "mid": 9, "us": 500, "run_id": "s", "boot": 2},
    ]
    made = []
    for seq, row in enumerate(rows, 1):
        at, us, mid = row.pop("at"), row.pop("us", 0), row.pop("mid", None)
        given = {
            "seq": seq,
            "hlc": (BEGIN_MS + at) << 16,
            "mono_ns": us * 1_000,
            "mid": MID.format(mid) if mid else None,
        }
        made.append({**given, **row})
    return event_table(spark, made)


def axes() -> dict[str, Any]:
    from strogoff.analytics.report.timeline import Axis

    return {"r": Axis(100, ("n1",)), "s": Axis(1000, ("n1",))}


def plain(found: DataFrame, *order: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in found.orderBy(*order).collect()]


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
class TestTables:
    def test_activity_by_interval_and_lane(self, spark: SparkSession) -> None:
        from strogoff.analytics.report.timeline import activity

        assert plain(activity(events(spark), axes()), "run_id", "at_ms", "node") == [
            ("r", BEGIN_MS, "", 1, 1, 0, 0, 0),
            ("r", BEGIN_MS, "n1", 3, 1, 0, 0, 0),
            ("r", BEGIN_MS + 100, "", 0, 0, 0, 2, 0),
            ("r", BEGIN_MS + 100, "n1", 0, 1, 2, 2, 2),
            ("r", BEGIN_MS + 200, "n1", 0, 0, 0, 0, 2),
            ("s", BEGIN_MS, "n1", 1, 1, 0, 0, 0),
        ]

    def test_only_runs_with_an_axis_are_counted(self, spark: SparkSession) -> None:
        from strogoff.analytics.report.timeline import activity, times

        only = {"s": axes()["s"]}
        assert [row["run_id"] for row in activity(events(spark), only).collect()] == ["s"]
        assert times(events(spark), only).collect() == []

    def test_times_are_those_of_the_interval_of_the_publish(self, spark: SparkSession) -> None:
        """A refused message, and one that another boot answered, have none."""
        from strogoff.analytics.report.timeline import times

        assert plain(times(events(spark), axes()), "node") == [
            ("r", BEGIN_MS, "", 4_000, 4_000),
            ("r", BEGIN_MS, "n1", 700, 100_000),
        ]

    def test_drops_and_refusals_by_reason(self, spark: SparkSession) -> None:
        from strogoff.analytics.report.timeline import counts

        assert plain(counts(events(spark)), "type", "reason") == [
            ("r", "conn.refuse", "bad_password", 1, BEGIN_MS + 250, BEGIN_MS + 250, ["n1"]),
            ("r", "fwd.drop", "absent", 1, BEGIN_MS + 150, BEGIN_MS + 150, ["n2"]),
            ("r", "policy.deny", "publish: netsplit", 1, BEGIN_MS + 170, BEGIN_MS + 170, ["n1"]),
            ("r", "pub.ack", "reason code 0x97", 1, BEGIN_MS + 140, BEGIN_MS + 140, ["n1"]),
            ("r", "q.drop", "queue_full", 2, BEGIN_MS + 150, BEGIN_MS + 160, ["n1", "n2"]),
            ("r", "q.expire", "expired", 1, BEGIN_MS + 160, BEGIN_MS + 160, ["n1"]),
            ("r", "ret.refuse", "unknown", 1, BEGIN_MS + 260, BEGIN_MS + 260, ["n1"]),
        ]

    def test_boots_have_their_first_and_last_rows(self, spark: SparkSession) -> None:
        from strogoff.analytics.report.timeline import boots

        found = plain(boots(events(spark)), "run_id", "node", "boot")
        assert found[0] == ("r", "n1", 1, 14, 1, BEGIN_MS << 16, 14, (BEGIN_MS + 270) << 16, True)
        assert [each[:4] + each[-1:] for each in found[1:]] == [
            ("r", "n2", 1, 4, False),
            ("s", "n1", 1, 1, False),
            ("s", "n1", 2, 1, False),
        ]

    def test_rows_are_found_by_their_names(self, spark: SparkSession) -> None:
        from strogoff.analytics.report.timeline import rows_of

        found = rows_of(events(spark), [("r", ("n1", 1, 7)), ("s", ("n1", 2, 20)), ("s", ("n1", 1, 7))])
        assert [(row["run_id"], row["type"]) for row in found.orderBy("seq").collect()] == [
            ("r", "dlv.send"),
            ("s", "pub.ack"),
        ]

    def test_facts_are_about_nodes(self, spark: SparkSession) -> None:
        from strogoff.analytics.report.timeline import FACTS, facts

        given = [{"seq": at, "hlc": at, "type": kind} for at, kind in enumerate((*FACTS, "pub.recv", "mem.up"))]
        assert {row["type"] for row in facts(event_table(spark, given)).collect()} == set(FACTS)
        assert {"node.start", "split.heal", "fault.kill", "config.change"} < set(FACTS)

    def test_a_table_that_is_none_of_events_is_refused(self, spark: SparkSession) -> None:
        from strogoff.analytics.reading import SchemaError
        from strogoff.analytics.report import timeline

        wrong = spark.createDataFrame([("m",)], "mid string")
        for made in (timeline.boots, timeline.counts, timeline.facts):
            with pytest.raises(SchemaError, match="events: no column"):
                made(wrong)
