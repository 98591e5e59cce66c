"""Minutes with far more connects than usual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .story import DAY, SPARK, Story, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK


def connects(story: Story, minute: int, number: int, node: str = "n1", clients: int = 1000) -> None:
    for each in range(number):
        story.at(minute * 60_000 + each, "conn.open", node, client=f"c{each % clients}", conn=each)


def test_ten_times_the_median_is_a_storm(spark: SparkSession) -> None:
    """The median is over all minutes of both nodes."""
    from strogoff.analytics.views.storms import view

    story = Story()
    for minute, number in enumerate((3, 4, 30, 29, 3)):
        connects(story, minute, number, clients=20)
    for minute in range(5):
        connects(story, minute, 3, "n2")
    assert shown(view(story.events(spark))) == [("n1", DAY + "11:02Z", 30, 20, 3.0, 10.0)]


def test_minutes_without_connects_count(spark: SparkSession) -> None:
    from strogoff.analytics.views.storms import view

    story = Story()
    connects(story, 0, 20)
    connects(story, 1, 19, "n2")
    for node in ("n1", "n2"):
        story.at(3 * 60_000, "node.stop", node)
    assert shown(view(story.events(spark))) == [("n1", DAY + "11:00Z", 20, 20, 0.0, None)]
