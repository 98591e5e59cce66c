"""Drops by reason, node and hour, beside the counters of `node.stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .story import DAY, SPARK, Story, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK

ELEVEN, TWELVE = DAY + "11:00Z", DAY + "12:00Z"
ALMOST = 3_590_000


def stats(story: Story, ms: float, node: str = "n1", boot: int = 1, **drops: int) -> None:
    story.at(ms, "node.stats", node, boot, connects=0, publishes=0, deliveries=0, drops=drops)


def dropped(story: Story, ms: float, kind: str, reason: str | None = None, **more: Any) -> None:
    story.at(ms, kind, reason=reason, **more)


def test_rows_of_every_kind_beside_the_counters(spark: SparkSession) -> None:
    """The counters know all but what they do not count. Behind the last snapshot nothing confirms a row."""
    from strogoff.analytics.views.drops import view

    story = Story()
    story.at(0, "node.start")
    for kind in ("q.drop", "q.drop", "fwd.drop", "ret.refuse"):
        dropped(story, 1000, kind, "same")
    dropped(story, 1000, "fwd.drop", "absent", target="n2")
    dropped(story, 1000, "fwd.drop", "unreadable", target="n1", source="n2")
    dropped(story, 1000, "q.drop", "unhandled")
    dropped(story, 1000, "q.expire")
    dropped(story, 1000, "q.drop")
    stats(story, 60_000, same=4, absent=1, unknown=1)
    dropped(story, 61_000, "fwd.drop", "absent", target="n2")
    assert shown(view(story.events(spark))) == [
        ("n1", ELEVEN, "same", 2, 0, 1, 1, 4, 0, 4, 0),
        ("n1", ELEVEN, "absent", 0, 0, 2, 0, 2, 1, 1, 0),
        ("n1", ELEVEN, "expired", 0, 1, 0, 0, 1, 0, None, None),
        ("n1", ELEVEN, "unhandled", 1, 0, 0, 0, 1, 0, None, None),
        ("n1", ELEVEN, "unknown", 1, 0, 0, 0, 1, 0, 1, 0),
        ("n1", ELEVEN, "unreadable", 0, 0, 1, 0, 1, 0, None, None),
    ]


def test_a_difference_is_in_the_hour_in_which_its_minute_began(spark: SparkSession) -> None:
    """Rows are in their own hours. Missing rows make it positive, drops that were not counted negative."""
    from strogoff.analytics.views.drops import view

    story = Story()
    story.at(ALMOST - 60_000, "node.start")
    stats(story, ALMOST)
    dropped(story, ALMOST + 1, "q.drop", "full")
    dropped(story, ALMOST + 20_000, "q.drop", "full")
    dropped(story, ALMOST + 20_000, "fwd.drop", "absent", target="n2")
    stats(story, ALMOST + 60_000, full=5, lost=662)
    stats(story, ALMOST + 120_000, full=5, lost=662)
    assert shown(view(story.events(spark)), "hour", "reason", "rows", "unconfirmed", "counted", "difference") == [
        (ELEVEN, "full", 1, 0, 4, 3),
        (ELEVEN, "lost", 0, 0, 662, 662),
        (TWELVE, "absent", 1, 0, 0, -1),
        (TWELVE, "full", 1, 0, 1, 0),
    ]


def test_boots_and_nodes_have_counters_of_their_own(spark: SparkSession) -> None:
    from strogoff.analytics.views.drops import view

    story = Story()
    for node, boot, number in (("n1", 1, 1), ("n1", 2, 2), ("n2", 1, 3)):
        story.at(0, "node.start", node, boot)
        for _ in range(number):
            story.at(1000, "q.drop", node, boot, reason="full")
        stats(story, 60_000, node, boot, full=number)
    assert shown(view(story.events(spark)), "node", "rows", "counted", "difference") == [
        ("n1", 3, 3, 0),
        ("n2", 3, 3, 0),
    ]
