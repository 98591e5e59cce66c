"""Entries of queues, and when they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ..logs import START_MS
from .story import SPARK, Story

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK


def enqueued(story: Story, ms: int, number: int, client: str = "a", **more: Any) -> str:
    mid = f"n1/000001/{number:012d}"
    story.at(ms, "q.enq", mid=mid, client=client, **{"epoch": 1, "qos": 1, **more})
    return mid


def entries_of(spark: SparkSession, story: Story) -> dict[str, tuple[int, int | None, int | None]]:
    """Client -> entered, left, acknowledged, in milliseconds after the begin. Each client has one entry."""
    from strogoff.analytics.views.entries import entries

    def ms(stamp: int | None) -> int | None:
        return None if stamp is None else (stamp >> 16) - START_MS

    rows = entries(story.events(spark)).collect()
    assert len(rows) == len({row["client"] for row in rows})
    return {row["client"]: ((row["entered"] >> 16) - START_MS, ms(row["left"]), ms(row["acked"])) for row in rows}


def test_each_way_out_of_a_queue(spark: SparkSession) -> None:
    story = Story()
    ways: list[tuple[str, str, dict[str, Any]]] = [
        ("answers", "dlv.ack", {"code": 0}),
        ("refuses", "dlv.ack", {"code": 0x97}),
        ("drops", "q.drop", {"reason": "queue_full"}),
        ("expires", "q.expire", {}),
        ("takes", "dlv.send", {"qos": 1}),
    ]
    for number, (client, kind, more) in enumerate(ways):
        mid = enqueued(story, 1, number, client)
        story.at(5, kind, mid=mid, client=client, **more)
    mid = enqueued(story, 1, 50, "fast", qos=0)
    story.at(6, "dlv.send", mid=mid, client="fast", qos=0)
    # a session that went to another node has its entry there again
    mid = enqueued(story, 1, 51, "moves")
    story.at(3, "q.drop", mid=mid, client="moves", reason="x")
    story.at(4, "q.enq", "n2", mid=mid, client="moves", epoch=1, qos=1)
    story.at(8, "dlv.ack", "n2", mid=mid, client="moves", code=0)
    story.at(9, "q.drop", mid="n1/000001/000000000052", client="never", reason="queue_full")
    found = {client: left for client, (_, left, _) in entries_of(spark, story).items()}
    out = {"answers": 5, "refuses": 5, "drops": 5, "expires": 5, "takes": None, "fast": 6, "moves": 8}
    assert found == out


def test_entries_go_with_their_session(spark: SparkSession) -> None:
    """At the first end after them, and not with a session of another number, mountpoint or client."""
    story = Story()
    story.at(1, "sess.end", client="a", epoch=0, mountpoint="", reason="x")
    enqueued(story, 2, 1, epoch=0)
    enqueued(story, 2, 2, "b", epoch=0, mountpoint="m")
    enqueued(story, 2, 3, "c", epoch=7)
    for ms in (5, 9):
        story.at(ms, "sess.end", client="a", epoch=0, reason="x")
        story.at(ms, "sess.end", client="b", epoch=0, mountpoint="", reason="x")
        story.at(ms, "sess.end", client="c", epoch=6, reason="x")
    assert entries_of(spark, story) == {"a": (2, 5, None), "b": (2, None, None), "c": (2, None, None)}


@pytest.mark.parametrize(("code", "acked"), [(0, 3), (0x10, 3), (0x97, None), (None, 3)])
def test_a_refused_message_is_not_acknowledged(spark: SparkSession, code: int | None, acked: int | None) -> None:
    """Older logs have no codes: there it was acknowledged."""
    story = Story()
    mid = enqueued(story, 2, 1)
    story.at(3, "pub.ack", mid=mid, client="tx", conn=1, code=code)
    assert entries_of(spark, story) == {"a": (2, None, acked)}
