"""Hops of messages by node, hour and first level of the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .story import DAY, SPARK, Story, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK

ELEVEN, TWELVE = DAY + "11:00Z", DAY + "12:00Z"


def test_each_hop_of_one_message(spark: SparkSession) -> None:
    """Within a node its monotonic clock counts, which has parts of a millisecond; between nodes the stamps count."""
    from strogoff.analytics.views.latency import view

    story = Story()
    mid = story.message(0)
    story.at(0.25, "pub.route", mid=mid, targets=["a"], nodes=["n2"])
    story.at(1, "q.enq", mid=mid, client="a", topic="a/b", qos=1)
    story.at(3.5, "q.durable", mid=mid, client="a", lsn=1, durability="os", copied=True)
    story.at(4, "pub.route", "n2", mid=mid, targets=["b"])
    story.at(5.75, "q.enq", "n2", mid=mid, client="b", topic="a/b", qos=1)
    story.at(6, "pub.ack", mid=mid, client="tx", conn=1, code=0)
    story.at(7, "dlv.send", mid=mid, client="a", conn=2, qos=1)
    story.at(9.5, "dlv.send", "n2", mid=mid, client="b", conn=2, qos=1)
    # it was sent again to another connection, which answered; and the answer of the other one came at another one
    story.at(20, "dlv.send", mid=mid, client="a", conn=3, qos=1, dup=True)
    story.at(20.5, "dlv.ack", mid=mid, client="a", conn=3, code=0)
    story.at(30, "dlv.ack", "n2", mid=mid, client="b", conn=4, code=0)
    found = shown(view(story.events(spark)))
    assert {row[:3] for row in found} == {("n1", ELEVEN, "a"), ("n2", ELEVEN, "a")}
    assert {(row[0], row[3]): row[4:] for row in found} == {
        ("n1", "received-acknowledged"): (1, 6.0, 6.0, 6.0, 6.0),
        ("n1", "received-routed"): (1, 0.25, 0.25, 0.25, 0.25),
        ("n1", "routed-enqueued-local"): (1, 0.75, 0.75, 0.75, 0.75),
        ("n2", "routed-enqueued-remote"): (1, 5.0, 5.0, 5.0, 5.0),
        ("n1", "enqueued-durable"): (1, 2.5, 2.5, 2.5, 2.5),
        ("n1", "enqueued-sent"): (1, 6.0, 6.0, 6.0, 6.0),
        ("n2", "enqueued-sent"): (1, 3.75, 3.75, 3.75, 3.75),
        ("n1", "sent-acknowledged"): (1, 0.5, 0.5, 0.5, 0.5),
        ("n1", "received-sent"): (1, 7.0, 7.0, 7.0, 7.0),
        ("n2", "received-sent"): (1, 9.0, 9.0, 9.0, 9.0),
    }


def test_percentiles_by_hour_and_level(spark: SparkSession) -> None:
    """A hop counts in the hour in which it begins. A message of another boot of the node has other clocks."""
    from strogoff.analytics.views.latency import view

    story = Story()
    for number in range(1, 101):
        mid = story.message(number * 1000, number, topic=f"many/{number}")
        story.at(number * 1000 + number, "pub.ack", mid=mid, client="tx", conn=1, code=0)
    late = story.message(3_599_990, 101, topic="late")
    story.at(3_600_005, "pub.ack", boot=2, mid=late, client="tx", conn=1, code=0, mono_ns=1)
    will = "n1/000001/000000000200"  # a will has no pub.recv: its topic is that of the queue
    story.at(3_700_000, "q.enq", mid=will, client="a", topic="wills/a", qos=1)
    story.at(3_700_002, "dlv.send", mid=will, client="a", conn=1, qos=1)
    assert shown(view(story.events(spark))) == [
        ("n1", ELEVEN, "late", "received-acknowledged", 1, 15.0, 15.0, 15.0, 15.0),
        ("n1", ELEVEN, "many", "received-acknowledged", 100, 50.0, 95.0, 99.0, 100.0),
        ("n1", TWELVE, "wills", "enqueued-sent", 1, 2.0, 2.0, 2.0, 2.0),
    ]


def test_it_needs_one_shuffle_of_the_rows(spark: SparkSession) -> None:
    """The others have the hops of a partition, already counted, and the sorted result."""
    from strogoff.analytics.views.latency import view

    plan = view(Story().events(spark))._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange hashpartitioning(mid#") == plan.count("Exchange hashpartitioning(run_id#") == 1
