"""How many messages wait, and which queues grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .story import SPARK, Story, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK

MINUTE = 60_000


def test_growing_and_steady_queues(spark: SparkSession) -> None:
    """`slow` takes one of two messages in each minute, for six minutes; `late` for four, and then reads all."""
    from strogoff.analytics.views.queues import view

    story = Story()
    number = 0
    for minute in range(6):
        for client in ("slow", "steady", "late"):
            for copy in (1, 2):
                number += 1
                mid, node = f"n1/000001/{number:012d}", f"n{1 + minute // 5}"
                if client != "late" or minute < 4:
                    story.at(minute * MINUTE + copy, "q.enq", node, mid=mid, client=client, epoch=1, qos=1)
                    answered = 5 * MINUTE if client == "late" else minute * MINUTE + 9
                    if client != "slow" or copy == 1:
                        story.at(answered, "dlv.ack", node, mid=mid, client=client, conn=1, code=0)
    assert shown(view(story.events(spark))) == [
        ("", "slow", "n2", 12, 6, 6, 6, 6, True),
        ("", "late", "n1", 8, 8, 0, 8, 4, False),
        ("", "steady", "n2", 12, 12, 0, 0, 0, False),
    ]
