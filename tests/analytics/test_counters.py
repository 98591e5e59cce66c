"""Intervals between snapshots of counters, and the rows in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .test_silver import event_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

MINUTE = 60_000 << 16


def stats(seq: int, minute: int, connects: int, **drops: int) -> dict[str, Any]:
    given = {"connects": connects, "publishes": 0, "deliveries": 0, "drops": drops}
    return {"type": "node.stats", "seq": seq, "hlc": minute * MINUTE, **given}


def test_what_was_counted_between_two_snapshots(spark: SparkSession) -> None:
    """Boot 1 begins in the log, boot 2 does not: there the first snapshot is a starting point."""
    from strogoff.analytics.counters import intervals

    rows = [{"type": "node.start", "seq": 1, "hlc": 5}, stats(4, 1, 3, full=2), stats(9, 2, 3, full=2, absent=7)]
    rows += [{**stats(seq, minute, 10 * minute), "boot": 2} for seq, minute in ((100, 1), (200, 2))]
    found = intervals(event_table(spark, rows)).orderBy("boot", "low").collect()
    assert [(row["boot"], row["low"], row["high"], row["low_hlc"], row["high_hlc"]) for row in found] == [
        (1, 0, 4, 5, MINUTE),
        (1, 4, 9, MINUTE, 2 * MINUTE),
        (2, 100, 200, MINUTE, 2 * MINUTE),
    ]
    totals = [
        {(each["kind"], each["reason"]): each["total"] for each in row["totals"] if each["total"]} for row in found
    ]
    assert totals == [{("connects", ""): 3, ("drops", "full"): 2}, {("drops", "absent"): 7}, {("connects", ""): 10}]


def test_each_row_is_in_one_interval_or_in_none(spark: SparkSession) -> None:
    """The number decides, not the minute: rows of one minute are on both sides of a snapshot."""
    from strogoff.analytics.counters import intervals, placed

    rows = [{"type": "node.start", "seq": 1, "hlc": 5}, stats(4, 1, 0), stats(8, 2, 0)]
    others = [{"type": "q.drop", "seq": seq, "hlc": MINUTE + seq} for seq in (3, 5, 7, 9)]
    events = event_table(spark, [*rows, *others])
    found = placed(events.where("type = 'q.drop'").select("run_id", "node", "boot", "seq", "hlc"), intervals(events))
    assert found.columns == ["run_id", "node", "boot", "seq", "hlc", "high"]
    assert {row["seq"]: row["high"] for row in found.collect()} == {3: 4, 5: 8, 7: 8, 9: None}


def test_drops_have_reasons(spark: SparkSession) -> None:
    from strogoff.analytics.counters import reason

    kinds = [("q.drop", "full"), ("fwd.drop", "absent"), ("ret.refuse", "disk"), ("q.expire", None), ("q.drop", None)]
    kinds += [("conn.close", "disconnect")]
    rows = [{"type": kind, "reason": why, "seq": seq, "hlc": seq} for seq, (kind, why) in enumerate(kinds)]
    found = event_table(spark, rows).orderBy("seq").select(reason().alias("reason")).collect()
    assert [row["reason"] for row in found] == ["full", "absent", "disk", "expired", "unknown", None]
