"""Stamps as times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .story import DAY, SPARK, Story, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK


def test_begins_of_hours_minutes_and_seconds(spark: SparkSession) -> None:
    """The last millisecond of an hour is in it, and the next one is not."""
    from pyspark.sql.functions import col, timestamp_millis

    from strogoff.analytics.views.times import MINUTE_MS, SECOND_MS, begin_ms, hour_of, ms_of

    story = Story()
    for after in (3_599_999, 3_600_000):
        story.at(after, "node.stop")
    stamp = col("hlc")
    minute, second = (timestamp_millis(begin_ms(ms_of(stamp), length)) for length in (MINUTE_MS, SECOND_MS))
    named = hour_of(stamp).alias("hour"), minute.alias("minute"), second.alias("second")
    found = story.events(spark).select("run_id", *named)
    assert shown(found.orderBy("second")) == [
        (DAY + "11:00Z", DAY + "11:59Z", DAY + "11:59:59.000Z"),
        (DAY + "12:00Z", DAY + "12:00Z", DAY + "12:00:00.000Z"),
    ]
