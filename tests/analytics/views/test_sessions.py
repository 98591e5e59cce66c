"""Connections of clients: numbers, ends, online times, flapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .story import SPARK, Story, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK


def opened(story: Story, ms: float, conn: int | None, client: str = "c", **more: Any) -> None:
    story.at(ms, "conn.open", client=client, conn=conn, **{"present": False, **more})


def closed(story: Story, ms: float, conn: int | None, reason: str, client: str = "c", **more: Any) -> None:
    story.at(ms, "conn.close", client=client, conn=conn, reason=reason, **more)


def test_what_a_client_did_at_a_node(spark: SparkSession) -> None:
    """Three connections: one ended by another one of the client, one that a kill ended, one that is open. A client with
    the same id at another mountpoint, and one at another node, are others."""
    from strogoff.analytics.views.sessions import view

    story = Story()
    opened(story, 0, 1)
    story.at(4000, "sess.takeover.start", client="c", old="192.0.2.1:1")
    closed(story, 4500, 1, "session_taken_over")
    opened(story, 4500.5, 2, present=True)
    closed(story, 90_000, 2, "peer_closed")
    opened(story, 100_000, 3, present=True)
    opened(story, 100_000, 4, mountpoint="m")
    story.at(160_000, "node.stats")
    opened(story, 170_000, 1, boot=2, present=True, mono_ns=5_000_000)
    story.at(200_000, "node.stats", boot=2, mono_ns=8_000_000)
    opened(story, 0, 1, node="n2")
    closed(story, 10, 1, "peer_closed", node="n2")
    assert shown(view(story.events(spark))) == [
        ("n1", "", "c", 4, 3, {"peer_closed": 1, "session_taken_over": 1}, 1, 2, False, 150_003, 85_500),
        ("n1", "m", "c", 1, 0, {}, 0, 1, False, 60_000, 60_000),
        ("n2", "", "c", 1, 0, {"peer_closed": 1}, 0, 1, False, 10, 10),
    ]


def test_flapping_is_ten_connects_in_one_minute(spark: SparkSession) -> None:
    from strogoff.analytics.views.sessions import view

    story = Story()
    for number in range(10):
        opened(story, number * 100, number)
        closed(story, number * 100 + 50, number, "peer_closed")
        opened(story, 55_000 + number * 1000, 100 + number, "steady")  # five in each of two minutes
    columns = ("client", "connects", "closes", "most_in_a_minute", "flapping", "online_ms", "longest_online_ms")
    assert shown(view(story.events(spark)), *columns)[0] == ("c", 10, {"peer_closed": 10}, 10, True, 500, 50)
    assert shown(view(story.events(spark)), *columns)[1][:5] == ("steady", 10, {}, 5, False)


def test_a_log_without_the_begin_or_without_numbers(spark: SparkSession) -> None:
    from strogoff.analytics.views.sessions import view

    story = Story()
    closed(story, 0, 7, "peer_closed", "early")
    for ms in (0, 100_000):
        opened(story, ms, None, "old")
        closed(story, ms + 50, None, "disconnect", "old")
    columns = ("client", "connects", "closes", "most_in_a_minute", "online_ms", "longest_online_ms")
    assert shown(view(story.events(spark)), *columns) == [
        ("old", 2, {"disconnect": 2}, 1, 0, None),
        ("early", 0, {"peer_closed": 1}, 0, 0, None),
    ]
